"""Making the environments by their Gymnasium ids."""

import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import PassiveEnvChecker

import soulslab
from soulslab.arena.boss_file import boss_names
from soulslab.arena.duel_state import DUEL_FIELDS
from soulslab.envs.arena import ArenaEnv, ArenaVectorEnv
from soulslab.envs.registration import ARENA_ID, register_all

PHASES = ("1", "2", "full")


def test_importing_soulslab_registers_the_id_once():
    assert soulslab.__version__
    spec = gymnasium.spec(ARENA_ID)
    register_all()
    assert gymnasium.spec(ARENA_ID) is spec
    assert ARENA_ID == "soulslab/Arena-v0"


@pytest.mark.parametrize("how", ["import soulslab; name = 'soulslab/Arena-v0'", "name = 'soulslab:soulslab/Arena-v0'"])
def test_make_by_id_and_by_module_and_id(how):
    program = (
        f"import sys, gymnasium; {how}; env = gymnasium.make(name, boss='trickster')\n"
        "obs, info = env.reset(seed=0); assert obs.shape == (74,) and info['action_mask'].shape == (20,)\n"
        "envs = gymnasium.make_vec(name, num_envs=3, vectorization_mode='vector_entry_point')\n"
        "assert envs.reset(seed=0)[0].shape == (3, 74); assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_importing_soulslab_compiles_nothing():
    program = "import soulslab, sys; assert 'numba' not in sys.modules; assert 'soulslab.arena' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("observation", ["features", "relative", "dict"])
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("boss", boss_names())
def test_the_checker_of_gymnasium_passes(boss, phase, observation):
    render_mode = "rgb_array" if (boss, phase) == ("judge", "full") else None
    env = gymnasium.make(
        ARENA_ID, boss=boss, phase=phase, observation=observation, render_mode=render_mode, disable_env_checker=True
    )
    # The window of "human" needs a display; other tests start one.
    drawn = [mode for mode in env.metadata["render_modes"] if mode != "human"]
    env.unwrapped.metadata = {**env.metadata, "render_modes": drawn}
    check_env(env.unwrapped, skip_render_check=render_mode is None)


def test_the_passive_checker_of_gymnasium_passes():
    env = gymnasium.make(ARENA_ID, disable_env_checker=False)
    assert isinstance(env, PassiveEnvChecker)
    env.action_space.seed(0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        env.reset(seed=0)
        for _ in range(20):
            env.step(env.action_space.sample())
    assert not said


def test_make_returns_the_environment_without_wrappers():
    env = gymnasium.make(ARENA_ID)
    assert type(env) is ArenaEnv
    assert env.spec.id == ARENA_ID


def test_make_vec_returns_the_vector_environment_with_its_autoreset_mode():
    envs = gymnasium.make_vec(ARENA_ID, num_envs=4, vectorization_mode="vector_entry_point")
    assert type(envs) is ArenaVectorEnv
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert envs.action_space == MultiDiscrete([20] * 4)
    assert envs.single_observation_space.shape == (74,)
    assert envs.observation_space.shape == (4, 74)


def test_make_vec_with_single_environments():
    envs = gymnasium.make_vec(ARENA_ID, num_envs=2, vectorization_mode="sync", boss="frost_beast")
    assert type(envs) is SyncVectorEnv
    assert envs.reset(seed=0)[0].shape == (2, 74)


@pytest.mark.parametrize(
    "mode", [*AutoresetMode, *(mode.value for mode in AutoresetMode), "next_step", "same_step", "disabled"]
)
def test_names_of_autoreset_modes(mode):
    envs = gymnasium.make_vec(ARENA_ID, num_envs=1, vectorization_mode="vector_entry_point", autoreset_mode=mode)
    expected = getattr(mode, "value", mode).lower().replace("_", "")
    assert envs.metadata["autoreset_mode"].value.lower() == expected


def test_spaces():
    env = gymnasium.make(ARENA_ID)
    assert env.action_space == Discrete(20)
    assert isinstance(env.observation_space, Box)
    assert (env.observation_space.shape, env.observation_space.dtype) == ((74,), np.float32)
    space = gymnasium.make(ARENA_ID, observation="dict").observation_space
    assert isinstance(space, Dict)
    assert set(space.spaces) == {field.name for field in DUEL_FIELDS}


def test_attack_names_are_the_moves_of_the_boss():
    envs = gymnasium.make_vec(ARENA_ID, num_envs=1, vectorization_mode="vector_entry_point")
    assert envs.unwrapped.attack_names == gymnasium.make(ARENA_ID).unwrapped.attack_names
    assert envs.unwrapped.attack_names[0] == "sweep_right"
