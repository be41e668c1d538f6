"""The entrance into the fight of a game with a scaled clock, as the real games have."""

import pytest

from soulslab.arena.vocabulary import NOTHING
from soulslab.envs.tasks.souls import souls_entrance
from soulslab.errors import ClockUnavailableError
from support.long_form import IS_LONG
from support.souls_env import BOSSES

SCALED = {"is_scaled": True}
#: Both types of episodes with each boss; in the short form with one of them.
TRIALS = [(*names, episodes) for names in BOSSES for episodes in ("in_place", "demo")]
TRIALS = TRIALS if IS_LONG else [TRIALS[0], TRIALS[3], TRIALS[4]]


@pytest.mark.parametrize(("game", "boss", "episodes"), TRIALS)
def test_resets_enter_the_fight_after_each_event(make, game, boss, episodes):
    souls = make(game, boss, lambda world: world.rest_elsewhere(), episodes=episodes, of_session=SCALED)
    assert souls.world.at == "title"
    for event in ("", "death", "win", "load", "cut"):
        if event == "death":
            souls.duel.p_hp = 0.0
        elif event == "win":
            souls.duel.phase, souls.duel.b_hp = 2, 0.0
        elif event == "load":
            souls.world.load()
        _, info = souls.env.reset()
        assert info["clock"] == "scaled"
        # The game stands still between steps.
        assert souls.session.clock.speed == souls.session.read("game.speed") == 0.0
        souls.check_fight()
        times_s = [souls.env.step(NOTHING)[4]["game_time_s"] for _ in range(6)]
        assert times_s[-1] - times_s[0] == pytest.approx(0.5, abs=0.02)
    assert souls.log.n_retries == souls.log.n_game_restarts == 0


def test_an_unknown_version_is_checked_during_the_entrance(make):
    souls = make("dark_souls_3", "iudex", of_session={**SCALED, "version": "9.9.9.9"})
    souls.env.reset()
    souls.check_fight()
    assert souls.log.n_retries == 0


def test_a_game_that_runs_on_at_a_speed_of_0_is_not_retried(make, monkeypatch):
    souls = make("dark_souls_3", "iudex", of_session=SCALED)
    monkeypatch.setattr(souls_entrance, "_stands", lambda _: False)
    with pytest.raises(ClockUnavailableError, match="runs on at a speed of 0"):
        souls.env.reset()
    assert (souls.world.at, souls.log.n_retries) == ("fight", 0)
    assert not souls.session.read("boss.no_attack")
