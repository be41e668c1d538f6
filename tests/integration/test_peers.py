"""Other libraries learn on our environments: stable-baselines3 and sb3-contrib, each for a moment."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.wrappers import FlattenObservation
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.utils import get_action_masks
from sb3_contrib.common.wrappers import ActionMasker
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.logger import Logger

import soulslab  # noqa: F401 (registers the arena)
from support.long_form import IS_LONG


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def features(**options):
    return gymnasium.make("soulslab/Arena-v0", random_pose=True, **options)


def flattened(**options):
    return FlattenObservation(gymnasium.make("soulslab/Arena-v0", observation="dict", random_pose=True, **options))


#: Two rounds of PPO in the short form, and updates of DQN.
N_STEPS = 1024 if IS_LONG else 512
SMALL = {"device": "cpu", "seed": 0, "policy_kwargs": {"net_arch": [32]}}
OF_DQN = {"learning_starts": 200, "buffer_size": 2000}
OF_PPO = {"n_steps": 256, "batch_size": 64, "n_epochs": 2}


@pytest.mark.parametrize(
    ("algorithm", "settings", "make"),
    [
        (DQN, OF_DQN, features),
        (PPO, OF_PPO, features),
        (MaskablePPO, OF_PPO, flattened),
        pytest.param(DQN, OF_DQN, flattened, marks=pytest.mark.long),
        pytest.param(PPO, OF_PPO, flattened, marks=pytest.mark.long),
        pytest.param(MaskablePPO, OF_PPO, features, marks=pytest.mark.long),
    ],
)
def test_a_peer_learns_and_acts(algorithm, settings, make):
    env = make()
    model = algorithm("MlpPolicy", env, **SMALL, **settings)
    model.set_logger(Logger(folder=None, output_formats=[]))  # the default logger leaves a temporary folder
    before = [parameter.clone() for parameter in model.policy.parameters()]
    model.learn(N_STEPS)
    assert model.num_timesteps == N_STEPS
    after = list(model.policy.parameters())
    assert all(torch.isfinite(parameter).all() for parameter in after)
    assert any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
    obs, _ = env.reset(seed=0)
    action, _ = model.predict(obs, deterministic=True)
    assert env.action_space.contains(action)


def test_maskable_ppo_never_chooses_a_masked_action():
    env = features()
    model = MaskablePPO("MlpPolicy", env, n_steps=256, batch_size=64, n_epochs=1, **SMALL)
    model.set_logger(Logger(folder=None, output_formats=[]))
    model.learn(512)
    obs, info = env.reset(seed=1)
    over = False
    while not over:
        masks = get_action_masks(env)
        np.testing.assert_array_equal(masks, info["action_mask"])
        action, _ = model.predict(obs, action_masks=masks)
        obs, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    assert info["n_masked"] == 0


def test_maskable_ppo_takes_masks_by_the_wrapper_too():
    env = ActionMasker(features(skip_locked=True), lambda env: env.unwrapped.action_masks())
    model = MaskablePPO("MlpPolicy", env, n_steps=256, batch_size=64, n_epochs=1, **SMALL)
    model.set_logger(Logger(folder=None, output_formats=[]))
    model.learn(256)
    assert model.num_timesteps == 256
