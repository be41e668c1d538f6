"""Faults of the built-in fight on Windows: a clear error, no key left down, and the next reset recovers."""

import ctypes
from ctypes import wintypes

import psutil
import pytest

from soulslab.envs.tasks.duel.arena_live import ArenaLiveEnv
from soulslab.siphon.process.windows_window import Window, find_window
from soulslab.siphon.win32 import function
from support.waiting import wait_for
from support.windows_painter import painting

NOTHING, N_STEPS = 19, 20
SW_MINIMIZE = 6
#: Virtual keys, without the mouse buttons 1 to 6.
KEYS = range(7, 255)


def kill(env):
    psutil.Process(env.session.info.pid).kill()


def freeze(env):
    psutil.Process(env.session.info.pid).suspend()


def close(env):
    find_window(env.session.info.pid).ask_to_close()


def minimise(env):
    show = function("user32", "ShowWindow", wintypes.BOOL, wintypes.HWND, ctypes.c_int)
    show(find_window(env.session.info.pid).id, SW_MINIMIZE)


def load(env):
    """Load another fight; until it is loaded, pointers are null."""
    env.game.step(0.05, ("restart",))


#: Each fault with its possible errors, and whether the game has to be started again.
FAULTS = {
    "killed": (kill, ("ProcessExitedError",), True),
    "frozen": (freeze, ("ClockStalledError",), True),
    "window closed": (close, ("ProcessExitedError", "WindowGoneError"), True),
    "minimised": (minimise, ("WindowGoneError",), True),
    "chain null": (load, ("PointerError", "EntityNotFoundError"), False),
}


@pytest.fixture(scope="module")
def env():
    with ArenaLiveEnv(episodes="in_place", step_deadline_s=4.0, on_failure="truncate") as one:
        one.reset(seed=1)
        yield one


def keys_down():
    state = function("user32", "GetAsyncKeyState", ctypes.c_short, ctypes.c_int)
    return [key for key in KEYS if state(key) < 0]


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


#: A start of the game takes many seconds under Wine.
SHORT = ("chain null",)


@pytest.mark.parametrize(
    "name", [name if name in SHORT else pytest.param(name, marks=pytest.mark.long) for name in FAULTS]
)
def test_a_fault_is_named_and_the_next_reset_recovers(env, name):
    cause, errors, is_restarted = FAULTS[name]
    pid = env.session.info.pid
    env.step(0)
    cause(env)
    assert step_until_failure(env) in errors
    wait_for(lambda: not keys_down(), "the release of the keys")
    assert check_new_episode(env) == is_restarted
    assert (env.session.info.pid != pid) == is_restarted
    if is_restarted:
        wait_for(lambda: not psutil.pid_exists(pid), "the end of the game")


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
