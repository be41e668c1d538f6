"""Faults of the built-in fight on Windows: a clear error, no key left down, and the next reset recovers.

A start of this game takes many seconds under Wine; the short form has the same faults of a small game
(`tests/windows/test_session.py`).
"""

import psutil
import pytest

from soulslab.envs.tasks.duel.arena_live import ArenaLiveEnv
from soulslab.siphon.process.windows_window import Window, find_window
from support.waiting import wait_for
from support.windows_faults import FAULTS, keys_down
from support.windows_painter import painting

pytestmark = pytest.mark.long

NOTHING, N_STEPS = 19, 20


@pytest.fixture(scope="module")
def env():
    with ArenaLiveEnv(episodes="in_place", step_deadline_s=4.0, on_failure="truncate") as one:
        one.reset(seed=1)
        yield one


def step_until_failure(env):
    """Return the error that truncates the episode; "" for none."""
    for n in range(N_STEPS):
        # Walks and stops in turn, so that keys change.
        *_, terminated, truncated, info = env.step(0 if n % 2 else NOTHING)
        if "failure" in info:
            assert truncated
            assert info["failure"]["message"]
            return info["failure"]["error"]
        if terminated or truncated:
            env.reset()
    return ""


def check_new_episode(env):
    _, info = env.reset()
    assert env.game.read("player.hp")["player.hp"] == env.scenario.player_max_hp
    assert env.step(NOTHING)[4]["ticks"] == 6
    return info["n_restarts"]


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_and_the_next_reset_recovers(env, name):
    cause, errors = FAULTS[name]
    pid = env.session.info.pid
    env.step(0)
    cause(pid)
    check_failure(env, errors)
    assert check_new_episode(env) == 1
    assert env.session.info.pid != pid
    wait_for(lambda: not psutil.pid_exists(pid), "the end of the game")


def test_a_null_pointer_is_named_and_the_next_reset_recovers(env):
    pid = env.session.info.pid
    env.step(0)
    # Another fight is loaded; until then, pointers are null.
    env.game.step(0.05, ("restart",))
    check_failure(env, ("PointerError", "EntityNotFoundError"))
    assert check_new_episode(env) == 0
    assert env.session.info.pid == pid


def check_failure(env, errors):
    assert step_until_failure(env) in errors
    wait_for(lambda: not keys_down(), "the release of the keys")


def test_a_stolen_focus_is_taken_back(env):
    env.reset(seed=2)
    game = find_window(env.session.info.pid)
    with painting() as other:
        stolen = other.open(350, 20, 200, 200, "other")
        other.ask("front", stolen)
        assert Window(stolen).is_in_front()
        assert not game.is_in_front()
        other.events()
        assert step_until_failure(env) == ""
        assert game.is_in_front()
        assert [event for event in other.events() if event[0] == "key"] == []
    env.reset()
    assert not keys_down()
