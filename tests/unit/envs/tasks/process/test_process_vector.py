"""Several games at once, with the semantics of Gymnasium's vector environments."""

import threading

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from soulslab.envs.registration import PROCESS_ID
from soulslab.envs.tasks.process.process_env import ProcessVectorEnv
from soulslab.errors import EnvironmentUsageError, InvalidActionError, LaunchError, NotResetError, ProcessExitedError
from soulslab.learn.environment import make_vector
from soulslab.testing.fake_session import FakeSession
from support.toy_env import Toys, toy_env, toy_profile, toy_table
from support.waiting import PATIENCE_S

N = 3


def vector(mode=AutoresetMode.NEXT_STEP, n=N, options=None, **changes):
    toys = Toys(toy_table(**changes))
    env = ProcessVectorEnv(n, mode, profile=toy_profile(**changes), session=toys, **(options or {}))
    env.toys = toys
    return env


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("observation", ["state", "features"])
def test_the_vector_environment_behaves_like_sync_vector_env(mode, observation):
    fast = vector(mode, observation=observation)
    slow = SyncVectorEnv([lambda: toy_env(observation=observation)] * N, autoreset_mode=mode)
    assert fast.observation_space == slow.observation_space
    assert fast.action_space == slow.action_space
    compare(fast.reset(seed=5), slow.reset(seed=5))
    rng = np.random.default_rng(0)
    over = np.zeros(N, np.bool_)
    for _ in range(60):
        if mode is AutoresetMode.DISABLED and over.any():
            compare(fast.reset(options={"reset_mask": over}), slow.reset(options={"reset_mask": over.copy()}))
        actions = rng.choice([1, 2, 4, 4, 4, 5], N)
        first, second = fast.step(actions), slow.step(actions)
        compare(first, second)
        over = first[2] | first[3]
    fast.close()
    slow.close()


def compare(first, second):
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        compare_values(one, other)


def compare_values(one, other):
    if isinstance(other, dict):
        assert set(one) == set(other)
        for key in other:
            compare_values(one[key], other[key])
    elif isinstance(other, np.ndarray) and other.dtype != object:
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    elif isinstance(other, np.ndarray):
        for mine, its in zip(one, other, strict=True):
            compare_values(mine, its)
    else:
        assert one == other


def test_make_vec_and_make_vector_create_it():
    options = {"profile": toy_profile(), "session": Toys(toy_table())}
    env = gymnasium.make_vec(PROCESS_ID, num_envs=2, vectorization_mode="vector_entry_point", **options)
    assert type(env) is ProcessVectorEnv
    assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    env.close()
    learner = make_vector(PROCESS_ID, 2, {**options, "observation": "features"})
    assert learner.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    observation, info = learner.reset(seed=1)
    assert observation.shape == (2, 6)
    assert info["action_mask"].tolist() == [[True] * 6] * 2
    learner.close()


def test_games_run_at_the_same_time():
    env = vector()
    env.reset()
    meeting = threading.Barrier(N, timeout=PATIENCE_S)
    for session in env.toys.sessions:
        toy, pass_time = session.toy, session.toy.pass_time
        toy.pass_time = lambda seconds, pass_time=pass_time: (meeting.wait(), pass_time(seconds))
    env.step(np.zeros(N, np.int64))
    assert not meeting.broken
    env.close()


def test_without_copies_the_observations_are_one_buffer():
    env = vector(options={"copy": False}, observation="features")
    first, _ = env.reset()
    second = env.step(np.array([1, 2, 3]))[0]
    assert first is second
    env.close()


def test_a_failed_game_raises_and_can_be_reset_alone():
    env = vector(AutoresetMode.SAME_STEP, options={"on_failure": "raise"})
    env.reset()
    env.envs[1].session.toy.is_alive = False
    with pytest.raises(ProcessExitedError):
        env.step(np.array([3, 3, 3]))
    with pytest.raises(NotResetError):
        env.step(np.array([3, 3, 3]))
    observation, info = env.reset(options={"reset_mask": np.array([False, True, False])})
    assert observation["x"].ravel().tolist() == [2.0, 0.0, 2.0]
    assert info["n_restarts"].tolist() == [0, 1, 0]
    assert env.step(np.array([3, 3, 3]))[0]["x"].ravel().tolist() == [4.0, 2.0, 4.0]
    env.close()


def test_a_failed_game_is_truncated_and_the_others_continue():
    env = vector(AutoresetMode.SAME_STEP)
    env.reset(seed=1)
    env.envs[1].session.toy.is_alive = False
    observation, rewards, terminated, truncated, info = env.step(np.array([3, 3, 3]))
    assert (truncated.tolist(), terminated.any(), rewards[1]) == ([False, True, False], False, 0.0)
    assert info["final_info"]["failure"]["error"].tolist() == [None, "ProcessExitedError", None]
    assert info["final_info"]["end"].tolist() == [None, "failure", None]
    assert observation["x"].ravel().tolist() == [2.0, 0.0, 2.0]
    assert env.step(np.array([3, 3, 3]))[0]["x"].ravel().tolist() == [4.0, 2.0, 4.0]
    env.close()


def test_a_game_that_fails_to_start_does_not_affect_the_others():
    toys, calls = Toys(toy_table()), iter(range(100))

    def open_toy():
        if next(calls) == 0:
            raise LaunchError("it ended at once")
        return toys()

    env = ProcessVectorEnv(N, profile=toy_profile(), session=open_toy)
    with pytest.raises(LaunchError):
        env.reset()
    failed = np.array([game.needs_reset for game in env.envs])
    assert failed.sum() == 1
    with pytest.raises(NotResetError):
        env.step(np.zeros(N, np.int64))
    observation, _ = env.reset(options={"reset_mask": failed})
    assert observation["hp"].ravel().tolist() == [10] * N
    env.step(np.zeros(N, np.int64))
    env.close()


def test_games_can_be_reset_one_by_one():
    env = vector()
    for i in range(N):
        observation, _ = env.reset(options={"reset_mask": np.arange(N) == i})
        assert observation["hp"].ravel().tolist() == [10] * (i + 1) + [0] * (N - i - 1)
    env.step(np.zeros(N, np.int64))
    env.close()


def test_wrong_use_is_refused():
    with pytest.raises(EnvironmentUsageError, match="num_envs"):
        vector(n=0)
    with pytest.raises(EnvironmentUsageError, match="autoreset_mode"):
        vector("sometimes")
    env = vector("disabled")
    with pytest.raises(NotResetError):
        env.step(np.zeros(N, np.int64))
    with pytest.raises(EnvironmentUsageError, match="2 seeds for 3"):
        env.reset(seed=[1, 2])
    with pytest.raises(EnvironmentUsageError, match="reset_mask"):
        env.reset(options={"reset_mask": [True] * N})
    env.reset()
    with pytest.raises(InvalidActionError):
        env.step(np.array([0, 0, 9]))
    env.close()


def test_close_ends_all_games_and_threads():
    before = set(threading.enumerate())
    env = vector()
    env.reset()
    env.step(np.zeros(N, np.int64))
    env.close()
    assert set(threading.enumerate()) <= before
    assert all(isinstance(session, FakeSession) for session in env.toys.sessions)
