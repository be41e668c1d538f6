"""Faults of the built-in game in its window: the environment recovers from each fault and counts it."""

import os
import signal
import tempfile

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from benchmarks.fault_injection import FAULTS
from soulslab.envs.tasks.duel.arena_live import ArenaLiveEnv, ArenaLiveVectorEnv
from soulslab.siphon.process.process_tree import living
from support.counts import check_released, held
from support.waiting import wait_for

NOTHING = 19
#: Number of steps in which a fault must have an effect.
N_STEPS = 20
#: Possible errors of a step; () for faults that do not end the episode, or end it as a loss.
ERRORS = {
    "game killed": ("ProcessExitedError",),
    "game frozen": ("ClockStalledError",),
    "window closed": ("ProcessExitedError", "WindowGoneError"),
    "display killed": ("ProcessExitedError", "DisplayError", "WindowGoneError"),
    "fight loaded anew": ("PointerError", "EntityNotFoundError"),
    "lock-on lost": (),
    "player out of bounds": (),
}
#: A frozen game is noticed after the deadline, which a game that loads a fight on a busy machine needs as well.
OPTIONS = {"step_deadline_s": 4.0, "on_failure": "truncate"}


@pytest.fixture(scope="module")
def temporary(tmp_path_factory):
    """A folder for all temporary files, including those of the games."""
    folder = tmp_path_factory.mktemp("temporary")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(folder))
        patch.setenv("TMPDIR", str(folder))
        yield folder


@pytest.fixture(scope="module")
def env(temporary):
    """One environment for all faults; at the end all resources are released."""
    before = held()
    with ArenaLiveEnv(episodes="in_place", **OPTIONS) as one:
        one.reset(seed=1)
        yield one
        pid = one.session.info.pid
    wait_for(lambda: not living([pid]))
    check_released(before)
    assert list(temporary.iterdir()) == []


def step_until_failure(env, n=N_STEPS):
    """Step until an episode is truncated by a failure, at most n times; return the error, or "" without a failure."""
    for _ in range(n):
        *_, terminated, truncated, info = env.step(NOTHING)
        if "failure" in info:
            assert truncated
            assert info["failure"]["message"]
            return info["failure"]["error"]
        if terminated or truncated:
            env.reset()
    return ""


def check_new_episode(env):
    """Check the start of an episode, and that it can be played."""
    _, info = env.reset()
    state = env.game.read("player.hp", "boss.hp", "lock_on", "game.stage", "boss.no_attack", "player.no_gravity")
    assert state["player.hp"] == env.scenario.player_max_hp
    assert state["boss.hp"] == env.scenario.boss_max_hp
    assert state["lock_on"]
    assert (state["game.stage"], state["boss.no_attack"], state["player.no_gravity"]) == (0, False, False)
    assert env.step(NOTHING)[4]["ticks"] == 6
    return info


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_recovered(env, name):
    pid, before = env.session.info.pid, held()
    n_restarts = env.episode.log.n_game_restarts
    FAULTS[name](env)
    error = step_until_failure(env)
    assert error in ERRORS[name] if ERRORS[name] else not error
    info = check_new_episode(env)
    is_lost = error not in ("", "PointerError", "EntityNotFoundError")
    assert info["n_restarts"] == env.episode.log.n_game_restarts - n_restarts == is_lost
    if is_lost:
        wait_for(lambda: not living([pid]))
    check_released(before)


@pytest.mark.parametrize("sent", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.long)])
def test_a_game_that_fails_in_a_reset(env, monkeypatch, sent):
    pid, n_calls = env.session.info.pid, 0
    step = env.game.step

    def failing(*arguments):
        nonlocal n_calls
        n_calls += 1
        if n_calls == 4:
            os.kill(pid, sent)
        return step(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(env.game, "step", failing)
        reasons = env.episode.log.reasons.copy()
        env.reset(seed=2)
    (reason,) = (env.episode.log.reasons - reasons).elements()
    assert reason == ("ProcessExitedError" if sent == signal.SIGKILL else "ClockStalledError")
    check_new_episode(env)
    wait_for(lambda: not living([pid]))


def test_one_of_two_games_is_replaced_and_the_other_continues():
    before = held()
    env = ArenaLiveVectorEnv(2, AutoresetMode.SAME_STEP, episodes="in_place", **OPTIONS)
    try:
        env.reset(seed=1)
        pids = [one.session.info.pid for one in env.envs]
        assert len(set(pids)) == len({one.session.info.display for one in env.envs}) == 2
        env.step(np.full(2, NOTHING))
        FAULTS["game killed"](env.envs[0])
        *_, truncated, info = env.step(np.full(2, NOTHING))
        assert truncated.tolist() == [True, False]
        assert info["final_info"]["failure"]["error"].tolist() == ["ProcessExitedError", None]
        assert info["n_restarts"].tolist() == [1, 0]
        assert env.envs[1].session.info.pid == pids[1]
        *_, truncated, info = env.step(np.full(2, NOTHING))
        assert not truncated.any()
        assert info["ticks"].tolist() == [6, 6]
    finally:
        env.close()
    check_released(before)
