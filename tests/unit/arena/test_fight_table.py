"""Conversion of a boss to the arrays of the rules: windows at the start of a move."""

import msgspec
import pytest

from soulslab.arena.fight_table import ticks, write_boss
from soulslab.arena.knight_file import load_knight
from support.stage import Stage


def change_window(stage, name, **numbers):
    """Change numbers of the first window of a move of the stage's boss."""
    boss, number = stage.simulator.boss, stage.move(name)
    move = boss.moves[number]
    window = msgspec.structs.replace(move.windows[0], **numbers)
    move = msgspec.structs.replace(move, windows=(window, *move.windows[1:]))
    moves = (*boss.moves[:number], move, *boss.moves[number + 1 :])
    write_boss(stage.f, msgspec.structs.replace(boss, moves=moves), load_knight())


@pytest.mark.parametrize("start_s", [0.0, 0.001, 0.02, 0.1])
def test_a_window_at_the_start_of_a_move_throws(start_s):
    stage = Stage("trickster", gap_m=10)
    change_window(stage, "dagger", start_s=start_s, end_s=start_s + 0.1)
    stage.begin("dagger")
    stage.tick(max(ticks(start_s), 1))
    assert stage.d.n_projectiles == 1


@pytest.mark.parametrize("start_s", [0.3, 0.5])
def test_an_advance_from_the_start_of_a_move_has_its_whole_length(start_s):
    stage = Stage(gap_m=10)
    change_window(stage, "leap", start_s=start_s, end_s=start_s + 0.1, advance_m=3.0, advance_s=0.3)
    before = stage.d.b_y
    stage.begin("leap")
    stage.tick(ticks(start_s))
    assert before - stage.d.b_y == pytest.approx(3.0)
