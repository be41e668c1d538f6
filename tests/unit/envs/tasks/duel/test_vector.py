"""Vector environments of duels: semantics of Gymnasium, and failures of single games."""

import threading

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from soulslab.envs.registration import ARENA_LIVE_ID
from soulslab.envs.tasks.duel.arena_live import ArenaLiveEnv, ArenaLiveVectorEnv
from soulslab.errors import EnvironmentUsageError, LaunchError, NotResetError, ProcessExitedError
from soulslab.testing.fake_arena import FakeArenaSession
from support.waiting import PATIENCE_S

N = 3
FAULTS = {
    "is_alive": "ProcessExitedError",
    "is_stalled": "ClockStalledError",
}


class Games:
    """Opens fake games, and counts them."""

    def __init__(self):
        self.opened = 0
        self._lock = threading.Lock()

    def __call__(self):
        with self._lock:
            self.opened += 1
        return FakeArenaSession()


def vector(mode=AutoresetMode.NEXT_STEP, n=N, **options):
    return ArenaLiveVectorEnv(n, mode, session=Games(), **options)


def arena_of(env, i):
    return env.envs[i].session.arena


def nothing(n=N):
    return np.full(n, 19)


def break_game(env, i, fault):
    setattr(arena_of(env, i), fault, fault == "is_stalled")


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_equal_to_sync_vector_env(mode):
    """Compare all results, also of a step in which a game is killed."""
    fast = vector(mode)
    slow = SyncVectorEnv(
        [lambda: ArenaLiveEnv(session=FakeArenaSession, on_failure="truncate")] * N, autoreset_mode=mode
    )
    assert fast.single_observation_space == slow.single_observation_space
    compare(fast.reset(seed=5), slow.reset(seed=5))
    rng, over = np.random.default_rng(0), np.zeros(N, np.bool_)
    for step in range(12):
        if mode is AutoresetMode.DISABLED and over.any():
            compare(fast.reset(options={"reset_mask": over}), slow.reset(options={"reset_mask": over.copy()}))
        if step == 4:
            for env in (fast, slow):
                break_game(env, 1, "is_alive")
        actions = rng.integers(20, size=N)
        first, second = fast.step(actions), slow.step(actions)
        compare(first, second)
        over = first[2] | first[3]
        assert over.tolist() == [False, step == 4, False]
    fast.close()
    slow.close()


def compare(first, second):
    for one, other in zip(first, second, strict=True):
        compare_values(one, other)


def compare_values(one, other):
    if isinstance(other, dict):
        assert set(one) == set(other)
        for key in other:
            compare_values(one[key], other[key])
    elif isinstance(other, np.ndarray) and other.dtype != object:
        np.testing.assert_array_equal(one, other)
    elif isinstance(other, np.ndarray):
        for mine, its in zip(one, other, strict=True):
            compare_values(mine, its)
    else:
        assert one == other


@pytest.mark.parametrize("episodes", ["demo", "in_place"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_failed_game_is_restarted_and_the_others_continue(fault, episodes):
    env = vector(AutoresetMode.SAME_STEP, episodes=episodes)
    env.reset(seed=1)
    before, *_ = env.step(nothing())
    ticks = [arena_of(env, i).fight.n_ticks for i in range(N)]
    break_game(env, 1, fault)
    after, rewards, terminated, truncated, info = env.step(nothing())
    assert truncated.tolist() == [False, True, False]
    assert not terminated.any()
    assert rewards[1] == 0.0
    np.testing.assert_array_equal(info["final_obs"][1], before[1])
    assert info["final_info"]["failure"]["error"][1] == FAULTS[fault]
    assert info["final_info"]["failure"]["message"][1]
    assert "fight" not in info["final_info"]
    assert info["n_restarts"].tolist() == [0, 1, 0]
    assert [arena_of(env, i).fight.n_ticks - ticks[i] for i in (0, 2)] == [6, 6]
    assert env.single_observation_space.contains(after[1])
    assert not env.step(nothing())[3].any()
    env.close()


def test_a_closed_window_fails_environments_with_pixels():
    pixels = {"width_px": 42, "height_px": 42, "is_grey": True}
    env = vector(AutoresetMode.NEXT_STEP, n=2, observation="pixels", pixels=pixels)
    env.reset(seed=1)
    arena_of(env, 0).has_window = False
    *_, truncated, info = env.step(nothing(2))
    assert truncated.tolist() == [True, False]
    assert info["failure"]["error"].tolist() == ["WindowGoneError", None]
    observation, *_, truncated, info = env.step(nothing(2))
    assert not truncated.any()
    assert observation.shape == (2, 42, 42, 1)
    assert info["n_restarts"].tolist() == [1, 0]
    env.close()


def test_on_failure_raise():
    env = vector(on_failure="raise")
    env.reset(seed=1)
    break_game(env, 2, "is_alive")
    with pytest.raises(ProcessExitedError):
        env.step(nothing())
    with pytest.raises(NotResetError):
        env.step(nothing())
    env.reset(options={"reset_mask": np.array([False, False, True])})
    assert not env.step(nothing())[3].any()
    env.close()
    with pytest.raises(EnvironmentUsageError, match="on_failure"):
        vector(on_failure="ignore")


def test_the_error_names_the_games_that_failed():
    env = vector(on_failure="raise")
    env.reset(seed=1)
    break_game(env, 1, "is_alive")
    break_game(env, 2, "is_alive")
    with pytest.raises(ProcessExitedError) as caught:
        env.step(nothing())
    first, other = caught.value.__notes__
    assert first == "This was game 1, counted from 0."
    assert other.startswith("Game 2 failed, too: ProcessExitedError: ")
    env.close()


def test_on_failure_truncate_in_a_single_environment():
    env = gymnasium.make(ARENA_LIVE_ID, session=FakeArenaSession, on_failure="truncate")
    env.reset(seed=1)
    before, *_, usual = env.step(19)
    env.unwrapped.session.arena.is_alive = False
    after, reward, terminated, truncated, info = env.step(19)
    assert (reward, terminated, truncated) == (0.0, False, True)
    np.testing.assert_array_equal(before, after)
    assert set(info) == {*usual, "end", "failure"}
    assert info["ticks"] == 0
    assert set(info["reward_terms"]) == set(usual["reward_terms"])
    with pytest.raises(NotResetError):
        env.step(19)
    _, info = env.reset()
    assert info["n_restarts"] == 1
    env.close()


def test_at_most_one_game_per_core_starts_at_once(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    env = vector(n=5)
    gate = env.envs[0].game.holder.gate
    assert all(one.game.holder.gate is gate for one in env.envs)
    loading, most, lock = set(), [], threading.Lock()
    both = threading.Barrier(2)

    def watched(i, opener):
        def open_game(seed):
            with lock:
                loading.add(i)
                most.append(len(loading))
            if len(most) <= 2:
                both.wait(PATIENCE_S)  # the first two start together
            session = opener(seed)
            with lock:
                loading.remove(i)
            return session

        return open_game

    for i, one in enumerate(env.envs):
        one.game.holder._factory = watched(i, one.game.holder._factory)
    env.reset(seed=1)
    assert len(most) == 5
    assert max(most) == 2
    env.close()


def test_a_failed_start_does_not_affect_the_other_games():
    calls = iter(range(100))

    def open_game():
        if next(calls) == 0:
            raise LaunchError("it ended at once")
        return FakeArenaSession()

    env = ArenaLiveVectorEnv(N, session=open_game)
    with pytest.raises(LaunchError):
        env.reset(seed=1)
    failed = np.array([one.needs_reset for one in env.envs])
    assert failed.sum() == 1
    env.reset(options={"reset_mask": failed})
    assert not env.step(nothing())[3].any()
    env.close()


def test_gymnasium_make_vec():
    env = gymnasium.make_vec(ARENA_LIVE_ID, 2, vectorization_mode="vector_entry_point", session=FakeArenaSession)
    assert type(env) is ArenaLiveVectorEnv
    assert env.attack_names == env.envs[0].attack_names
    first, _ = env.reset(seed=3)
    assert not np.array_equal(arena_of(env, 0).fight.duel.rng, arena_of(env, 1).fight.duel.rng)
    again, _ = env.reset(seed=3)
    np.testing.assert_array_equal(first, again)
    env.close()
