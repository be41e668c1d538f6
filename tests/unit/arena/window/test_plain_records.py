"""Plain copies of records have the values of the records."""

from __future__ import annotations

from soulslab.arena.boss_file import load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.arena.live_fight import LiveFight, LiveFightOptions
from soulslab.arena.window.plain_records import RecordCopier


def new_game(boss: str) -> LiveFight:
    return LiveFight(load_boss(boss, list(load_knight().knock_backs)), LiveFightOptions(seed=5))


def test_copies_have_the_values_of_the_records() -> None:
    game = new_game("trickster")
    game.duel.q_pose[3] = (1.0, 2.0, 3.0, 4.0)
    for _ in range(50):
        game.tick(["forward"])
    d, f = RecordCopier().copy(game)
    for name in game.duel.dtype.names:
        value = game.duel[name]
        assert getattr(d, name) == (value.tolist() if hasattr(value, "tolist") else value), name
    assert f.windows[3].reach == game.fight.windows[3].reach
    assert f.knock_backs[2].animation == game.fight.knock_backs[2].animation
    assert f.walk == game.fight.walk.tolist()
    assert f.floor == game.fight.floor


def test_the_rules_are_copied_again_for_another_game() -> None:
    records = RecordCopier()
    first, second = new_game("judge"), new_game("frost_beast")
    assert records.copy(first)[1].b_radius == first.fight.b_radius
    assert records.copy(second)[1].b_radius == second.fight.b_radius
    assert records.copy(first)[1] is not records.copy(second)[1]
    assert records.copy(second)[1] is records.copy(second)[1]
