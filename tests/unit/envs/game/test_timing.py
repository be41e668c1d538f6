"""Times of key presses and reads, with a wall clock that the test controls."""

import pytest

from soulslab.arena.vocabulary import LIGHT_ATTACK, NOTHING
from soulslab.envs.game import timing
from soulslab.errors import ClockUnavailableError
from support.live_env import WallTime, live_env


@pytest.fixture
def wall(monkeypatch):
    """A wall clock in place of the system's."""
    wall = WallTime()
    monkeypatch.setattr(timing, "time", wall)
    return wall


def running(wall, **options):
    """Return an environment in real time at the start of an episode; its game runs with the wall time."""
    env = live_env(timing="realtime", **options)
    wall.game = None
    env.reset(seed=0)
    wall.game, wall.speed = env.fights.arena, env.session.clock.speed
    return env


def test_steps_begin_on_a_regular_grid_in_real_time(wall):
    env = running(wall)
    steps = []
    for thinking_s in (0.0, 0.04, 0.0, 0.09):
        wall.pass_time(thinking_s)
        steps.append(env.step(NOTHING)[4])
    assert [info["ticks"] for info in steps] == [6] * 4
    assert [info["late_s"] for info in steps] == [0.0] * 4
    assert wall.now_s == pytest.approx(1000.4)
    assert env.session.clock.speed == 1.0


def test_a_late_step_is_reported_and_does_not_delay_the_next(wall):
    env = running(wall)
    wall.pass_time(0.13)
    late = env.step(NOTHING)[4]
    after = env.step(NOTHING)[4]
    assert (late["late_s"], after["late_s"]) == (pytest.approx(0.03), 0.0)
    assert late["ticks"] > 6 > after["ticks"]
    assert late["ticks"] + after["ticks"] == 12
    assert wall.now_s == pytest.approx(1000.2)


def test_missed_steps_are_skipped(wall):
    env = running(wall)
    wall.pass_time(0.57)
    late = env.step(NOTHING)[4]
    assert late["late_s"] == pytest.approx(0.07)
    assert [env.step(NOTHING)[4]["late_s"] for _ in range(3)] == [0.0] * 3
    assert wall.now_s == pytest.approx(1000.8)


def test_game_speed(wall):
    env = running(wall, game_speed=4.0, step_ms=200)
    assert env.session.clock.speed == 4.0
    assert [env.step(NOTHING)[4]["ticks"] for _ in range(3)] == [12] * 3
    assert wall.now_s == pytest.approx(1000.15)


@pytest.mark.parametrize(("latency_ms", "when"), [(0, 1), (50, 1), (100, 2), (230, 3)])
def test_keys_are_pressed_after_the_latency(wall, latency_ms, when):
    env = running(wall, latency_ms=latency_ms, observation="dict")
    looks = [env.step(LIGHT_ATTACK), *(env.step(NOTHING) for _ in range(3))]
    assert next(n for n, look in enumerate(looks, 1) if look[0]["player_sp"][0] < 95.0) == when
    assert [look[4]["late_s"] for look in looks] == [0.0] * 4


def test_delayed_keys_do_not_reach_the_next_episode(wall):
    env = running(wall, latency_ms=250, observation="dict")
    env.step(LIGHT_ATTACK)
    wall.game = None
    env.reset(seed=0)
    wall.game = env.fights.arena
    assert [env.step(NOTHING)[0]["player_sp"][0] for _ in range(4)] == [95.0] * 4


def test_human_mode_plays_lockstep_at_the_speed_of_the_game(wall):
    env = live_env("human", game_speed=2.0)
    env.reset(seed=0)
    env.step(NOTHING)
    wall.pass_time(0.02)
    env.step(NOTHING)
    assert wall.now_s == pytest.approx(1000.1)
    wall.pass_time(3.0)
    env.step(NOTHING)
    assert wall.slept_s == pytest.approx([0.05, 0.03])


def test_a_speed_that_the_clock_does_not_support_is_an_error(wall, monkeypatch):
    env = live_env(timing="realtime", game_speed=2.0)

    def refuse(speed=1.0):
        raise ClockUnavailableError(f"a realtime clock cannot run at {speed:g}x")

    monkeypatch.setattr(type(env.session.clock), "run", staticmethod(refuse))
    with pytest.raises(ClockUnavailableError, match="cannot run at 2x"):
        env.reset(seed=0)
