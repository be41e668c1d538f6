"""Faults of a game during steps of an environment: error, deadline, and recovery.

A game that is killed between two steps, and a level without its player, are in tests/integration/envs/test_doom.py.
"""

import os
import signal
import threading
import time
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import msgspec
import pytest

from soulslab.envs.game.timing import LockstepTiming, TimingOptions
from soulslab.errors import (
    ClockStalledError,
    DisplayError,
    ImplausibleValueError,
    PointerError,
    ProcessExitedError,
    WindowGoneError,
)
from soulslab.siphon.process import private_display, x11
from soulslab.siphon.process.private_display import PrivateDisplay
from support.counts import check_released, held
from support.doom_faults import (
    PROFILE,
    await_deaths,
    begins_anew,
    doom,
    meanwhile,
    memory_of,
    play_until_it_fails,
    window_of,
)
from support.waiting import PATIENCE_S, wait_for

#: Without the end that an exit from the level is, so that steps go on between two levels.
ENDLESS = msgspec.structs.replace(PROFILE, env={**PROFILE.env, "end": {"death": PROFILE.env["end"]["death"]}})
#: Longer than what the clock takes for the calm of a game that has nothing to do.
STALL_S = 1.5


@pytest.fixture(scope="module")
def shared():
    """A function that returns an environment by its observation, for faults that follow each other in one game."""
    with ExitStack() as stack:
        yield cache(lambda observation: stack.enter_context(doom(observation=observation)))


# --- the process ------------------------------------------------------------------------------------------------


def test_killed_while_a_step_waits():
    """The game computes for seconds during a step; the kill happens in the middle."""
    with doom(frame_skip=1000) as env:
        env.reset()
        session, pid = env.session, env.session.info.pid
        start = session.read("game_tic")

        def kill():
            with memory_of(pid) as (memory, bases):
                tic = lambda: int.from_bytes(memory.read(bases["game_tic"], 4), "little")  # noqa: E731
                wait_for(lambda: tic() > start + 5)
                assert tic() < start + 1000
                os.kill(pid, signal.SIGKILL)

        with meanwhile(kill), pytest.raises(ProcessExitedError) as caught:
            env.step(0)
        assert caught.value.pid == pid
        assert caught.value.status == -signal.SIGKILL
        assert f"process {pid} has ended (signal 9); it printed last:" in str(caught.value)
        assert "I_Init" in str(caught.value)
        observation, info = env.reset()
        assert (observation["health"], info["n_restarts"]) == (100, 1)


def test_stopped_in_the_middle_of_an_episode(shared, monkeypatch):
    """A stopped game does not count as waiting: no step is reported."""
    env = shared("state")
    monkeypatch.setattr(env, "_timing", LockstepTiming(TimingOptions(step_s=1 / 35, deadline_s=STALL_S)))
    env.reset()
    pid = env.session.info.pid
    env.step(0)
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(ClockStalledError, match=r"is stopped .*kill -CONT") as caught:
        env.step(0)
    assert caught.value.waited_s >= STALL_S
    begins_anew(env, n_restarts=1)
    await_deaths([pid])


# --- its window -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("observation", ["state", "both"])
def test_a_game_whose_window_is_closed(observation):
    """After the second request Doom shows a page of text and waits for a key."""
    patient = msgspec.structs.replace(PROFILE, env={**PROFILE.env, "stall_s": 2.0})
    with doom(profile=patient, observation=observation) as env:
        env.reset()
        pid = env.session.info.pid
        for _ in range(2):
            with window_of(env) as window:
                window.ask_to_close()
                window.x.sync()
            env.step(0)
        error = play_until_it_fails(env)
        assert isinstance(error, ClockStalledError)
        assert "'game_tic' stayed at" in str(error)
        assert error.waited_s >= 2.0
        begins_anew(env, n_restarts=1)
        await_deaths([pid])


@pytest.mark.parametrize("request_name", ["UnmapWindow", "DestroyWindow"])
def test_a_closed_window_is_not_captured(shared, request_name):
    env = shared("both")
    env.reset()
    with window_of(env) as window, window.x.using("take the window away", window.id):
        getattr(window.x.core, request_name)(window.id, is_checked=True).check()
    # Some programs end when another client destroys their window.
    with pytest.raises((WindowGoneError, ProcessExitedError), match=r"is not mapped|was closed|BadWindow"):
        env.step(0)
    begins_anew(env, n_restarts=1)


def test_a_closed_window_gets_no_keys(shared):
    env = shared("state")
    env.reset()
    with window_of(env) as window, window.x.using("take the window away", window.id):
        window.x.core.UnmapWindow(window.id, is_checked=True).check()
    with pytest.raises(WindowGoneError, match="is not mapped"):
        env.step(1)
    begins_anew(env, n_restarts=1)


@pytest.mark.parametrize("observation", ["state", "both"])
def test_the_display_is_killed(shared, observation):
    """The game ends with the display; either can be noticed first."""
    env = shared(observation)
    env.reset()
    pid = env.session._opener._display.pid
    env.step(1)
    os.kill(pid, signal.SIGKILL)
    await_deaths([pid])
    error = play_until_it_fails(env, action=2)
    assert isinstance(error, DisplayError | ProcessExitedError)
    begins_anew(env, n_restarts=1)
    assert env.session._opener._display.pid != pid


@pytest.mark.parametrize("observation", ["state", "both"])
def test_the_display_hangs(shared, monkeypatch, observation):
    """Without a deadline xcb would wait forever for its reply, and so would a new connection."""
    monkeypatch.setattr(x11, "ANSWER_DEADLINE_S", 2.0)
    monkeypatch.setattr(private_display, "END_DEADLINE_S", 0.2)
    env = shared(observation)
    env.reset()
    before = held()
    pid = env.session._opener._display.pid
    os.kill(pid, signal.SIGSTOP)
    started_s = time.monotonic()
    with pytest.raises(DisplayError, match=r"did not answer within 2 s; it hangs"):
        env.step(1)
    begins_anew(env, n_restarts=1)
    assert time.monotonic() - started_s < PATIENCE_S
    await_deaths([pid])
    check_released(before)


def test_a_display_that_loses_its_socket_while_it_starts(monkeypatch):
    """Simulates another X server with that number that ends at this moment."""
    taken = []
    start = PrivateDisplay._start

    def take_the_first(display, *arguments):
        start(display, *arguments)
        if not taken:
            taken.append(display.pid)
            Path(f"/tmp/.X11-unix/X{display.name.removeprefix(':')}").unlink()  # noqa: S108  (where X servers have it)

    monkeypatch.setattr(PrivateDisplay, "_start", take_the_first)
    with doom() as env:
        begins_anew(env, n_restarts=0)
    await_deaths(taken)


# --- its memory -------------------------------------------------------------------------------------------------


def test_a_value_that_cannot_be_is_named(shared):
    env = shared("state")
    env.reset()
    with memory_of(env.session.info.pid) as (memory, bases):
        memory.write(bases["players"] + 0x2C, (9999).to_bytes(4, "little"))
    with pytest.raises(ImplausibleValueError, match="'health' reads 9999") as caught:
        env.step(0)
    assert (caught.value.attribute, caught.value.value) == ("health", 9999)
    begins_anew(env, n_restarts=1)


def test_a_step_waits_for_the_next_level_where_it_may():
    """Between two levels the object of the player does not exist until some tics later."""
    with doom(profile=with_patience(10_000)) as env:
        env.reset()
        pid = env.session.info.pid
        leave_the_level(env)
        start = env.session.read("game_tic")
        may_go = threading.Event()

        def go_on():
            with memory_of(pid) as (memory, bases):
                may_go.wait()
                tic = lambda: int.from_bytes(memory.read(bases["game_tic"], 4), "little")  # noqa: E731
                wait_for(lambda: tic() > start + 20)
                memory.write(bases["game_action"], (8).to_bytes(4, "little"))  # ga_worlddone: the next level

        with meanwhile(go_on):
            may_go.set()
            observation, _, _, _, info = env.step(0)
        assert info["ticks"] == info["ticks_expected"] > 20
        assert (info["values"]["map"], observation["health"]) == (2, 100)
        env.step(1)
        assert env.reset()[1]["values"]["map"] == 1


def test_a_step_has_a_deadline_for_the_next_level():
    with doom(profile=with_patience(50)) as env:
        env.reset()
        leave_the_level(env)
        start = env.session.read("game_tic")
        with pytest.raises(PointerError, match="offsets") as caught:
            env.step(0)
        assert caught.value.attribute in PROFILE.attributes
        assert env.session.read("game_tic") == start + 51
        begins_anew(env, n_restarts=1)


def with_patience(retry_ticks):
    return msgspec.structs.replace(ENDLESS, env={**ENDLESS.env, "retry_ticks": retry_ticks})


def leave_the_level(env):
    """Go to the screen between two levels, and remove the object of the player, as many games do."""
    env.session.write({"game_action": 6})  # the level's exit
    for _ in range(100):  # the picture melts away, with no tics meanwhile
        _, _, _, _, info = env.step(0)
    assert info["ticks"] == 1
    with memory_of(env.session.info.pid) as (memory, bases):
        memory.write(bases["players"], bytes(8))


# --- two at once ------------------------------------------------------------------------------------------------


def test_two_games_do_not_hear_each_other():
    """Keys of one game do not reach the other, and its end does not affect the other."""
    with doom() as one, doom() as other:
        start, _ = one.reset()
        other.reset()
        assert one.session.info.display != other.session.info.display
        for _ in range(35):
            moved, still = one.step(1)[0], other.step(0)[0]
        assert abs(moved["x"] - start["x"]) + abs(moved["y"] - start["y"]) > 50
        assert (still["x"], still["y"], still["angle"]) == (start["x"], start["y"], start["angle"])
        expected = [other.step(3)[0] for _ in range(20)]
        os.kill(one.session.info.pid, signal.SIGKILL)
        assert isinstance(play_until_it_fails(one), ProcessExitedError)
        one.close()
        other.reset()
        for _ in range(35):
            other.step(0)
        assert [other.step(3)[0] for _ in range(20)] == expected
