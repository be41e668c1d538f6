"""The vector environment with stable-baselines3."""

import gymnasium
import numpy as np
import pytest
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3 import PPO
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecMonitor

from soulslab.errors import EnvironmentUsageError
from soulslab.integrations.sb3 import VecEnv
from soulslab.testing.fake_arena import FakeArenaSession


def make():
    return gymnasium.make_vec(
        "soulslab/Arena-v0",
        num_envs=4,
        vectorization_mode="vector_entry_point",
        autoreset_mode="same_step",
        skip_locked=True,
    )


def test_the_fights_equal_those_of_the_environment():
    adapter, env = VecEnv(make()), make()
    adapter.seed(5)
    expected, info = env.reset(seed=5)
    assert np.array_equal(adapter.reset(), expected)
    n_over = 0
    for _ in range(150):
        masks = get_action_masks(adapter)
        assert np.array_equal(masks, info["action_mask"])
        actions = masks.argmax(axis=1)
        obs, rewards, dones, infos = adapter.step(actions)
        expected, expected_rewards, terminated, truncated, info = env.step(actions)
        assert np.array_equal(obs, expected)
        assert rewards.dtype == np.float32
        assert np.array_equal(rewards, expected_rewards.astype(np.float32))
        assert np.array_equal(dones, terminated | truncated)
        assert [one["n_decisions"] for one in infos] == info["n_decisions"].tolist()
        for place, is_over in enumerate(dones):
            assert ("fight" in infos[place]) == is_over
            if is_over:
                n_over += 1
                assert np.array_equal(infos[place]["terminal_observation"], info["final_obs"][place])
                assert infos[place]["fight"]["won"] == info["final_info"]["fight"]["won"][place]
                assert infos[place]["fight"]["damage_by_attack"].shape == (len(env.attack_names),)
                assert infos[place]["TimeLimit.truncated"] == truncated[place]
    assert n_over > 0


def test_action_masks_are_the_only_method():
    adapter = VecEnv(make())
    adapter.reset()
    assert is_masking_supported(adapter)
    assert not adapter.has_attr("nonsense")
    assert adapter.env_is_wrapped(gymnasium.Wrapper) == [False] * 4
    assert len(adapter.env_method("action_masks", indices=[1, 2])) == 2
    with pytest.raises(AttributeError, match="nonsense"):
        adapter.env_method("nonsense")
    with pytest.raises(AttributeError, match="nonsense"):
        adapter.set_attr("nonsense", 1)
    adapter.close()


SMALL = {"n_steps": 32, "batch_size": 64, "n_epochs": 1, "device": "cpu", "seed": 0}


@pytest.mark.parametrize("algorithm", [PPO, MaskablePPO])
@pytest.mark.parametrize(("policy", "observation"), [("MlpPolicy", "features"), ("MultiInputPolicy", "boxes")])
def test_algorithms_learn_on_it(algorithm, policy, observation):
    env = VecMonitor(VecEnv("soulslab/Arena-v0", n_envs=4, observation=observation))
    model = algorithm(policy, env, **SMALL)
    model.set_logger(Logger(folder=None, output_formats=[]))  # the default logger leaves a temporary folder
    model.learn(256)
    assert model.num_timesteps == 256
    env.close()


def test_environments_of_processes_are_supported():
    env = VecEnv("soulslab/ArenaLive-v0", n_envs=2, session=FakeArenaSession)
    env.seed(1)
    first = env.reset()
    assert first.shape == (2, 74)
    n_over = 0
    for _ in range(600):
        obs, _, dones, infos = env.step(np.full(2, 19))
        for place in np.flatnonzero(dones):
            n_over += 1
            assert not infos[place]["fight"]["won"]
            assert infos[place]["terminal_observation"].shape == (74,)
        if n_over:
            break
    assert n_over
    assert obs.shape == (2, 74)
    assert env.get_attr("feature_names")[0] == env.get_attr("feature_names")[1] != ()
    env.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"autoreset_mode": "next_step"}, "autoreset_mode='same_step'"),
        ({"autoreset_mode": "same_step", "copy": False}, "copy=True"),
        ({"autoreset_mode": "same_step", "observation": "dict"}, "observation='boxes'"),
    ],
)
def test_unsupported_environments_are_errors(options, message):
    env = gymnasium.make_vec("soulslab/Arena-v0", 2, vectorization_mode="vector_entry_point", **options)
    with pytest.raises(EnvironmentUsageError, match=message):
        VecEnv(env)


def test_options_require_an_id():
    with pytest.raises(EnvironmentUsageError, match="options require an environment id: boss"):
        VecEnv(make(), boss="judge")
    with pytest.raises(EnvironmentUsageError, match="reset has no option 'foo'"):
        env = VecEnv(make())
        env.set_options({"foo": 1})
        env.reset()
