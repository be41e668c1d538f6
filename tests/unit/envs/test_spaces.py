"""Observation spaces, and the conversion of records to observations."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from soulslab.arena.boss_file import boss_names
from soulslab.arena.duel_state import DUEL_FIELDS
from soulslab.envs.arena import ArenaEnv, ArenaVectorEnv
from soulslab.envs.spaces import duel_observation, duel_space, row, row_space
from support.stage import KNIGHT, make_simulator, shipped


@pytest.mark.parametrize("boss", boss_names())
def test_the_duel_space_has_the_true_bounds(boss):
    boss = shipped(boss)
    space = duel_space((boss,), KNIGHT, "dict")
    assert space["player_hp"] == Box(0, 454, (1,), np.float32)
    assert space["player_sp"] == Box(0, 95, (1,), np.float32)
    assert space["boss_hp"] == Box(0, boss.hp, (1,), np.float32)
    assert space["phase"] == Discrete(2, start=1)
    assert space["player_animation"] == Discrete(51, start=-1)
    assert space["boss_animation"] == Discrete(33, start=-1)
    assert space["lock_on"] == Discrete(2)
    assert space["player_max_hp"] == Discrete(1, start=454)
    assert space["boss_max_hp"] == Discrete(1, start=boss.hp)
    limits = np.array(boss.ground.limits_m, np.float32)
    for name in ("player_pose", "boss_pose", "camera_pose"):
        np.testing.assert_array_equal(space[name].low[:3], limits[:, 0])
        np.testing.assert_array_equal(space[name].high[:3], limits[:, 1])


@pytest.mark.parametrize(("kind", "n"), [("features", 74), ("relative", 73)])
@pytest.mark.parametrize("boss", boss_names())
def test_the_space_of_a_one_dimensional_observation(boss, kind, n):
    ground = shipped(boss).ground
    space = row_space(kind, ground.limits_m, ground.floor_m)
    assert (space.shape, space.dtype) == ((n,), np.float32)
    assert (space.low < space.high).all()
    assert np.isfinite(space.low).all()
    assert np.isfinite(space.high).all()


def test_observations_equal_the_records():
    simulator = make_simulator("trickster", range(3), states=True)
    observation = duel_observation(simulator.states)
    assert list(observation) == [field.name for field in DUEL_FIELDS]
    for field in DUEL_FIELDS:
        values = observation[field.name]
        assert values.shape == ((3,) if field.is_integer else (3, field.size))
        assert values.dtype == (np.int64 if field.is_integer else np.float32)
        np.testing.assert_allclose(values.reshape(3, -1), simulator.states[field.name].reshape(3, -1), rtol=1e-6)
        assert not np.shares_memory(values, simulator.states)
    one = row(observation, 1)
    assert type(one["phase"]) is np.int64
    np.testing.assert_array_equal(one["boss_pose"], observation["boss_pose"][1])


def test_spaces_are_the_same_object_at_each_access():
    env, envs = ArenaEnv(observation="dict"), ArenaVectorEnv(num_envs=2, observation="dict")
    spaces = env.observation_space, env.action_space, envs.observation_space, envs.single_observation_space
    env.reset(seed=0)
    env.step(0)
    envs.reset(seed=0)
    envs.step(np.zeros(2, int))
    again = env.observation_space, env.action_space, envs.observation_space, envs.single_observation_space
    assert all(a is b for a, b in zip(spaces, again, strict=True))


def test_a_dict_can_be_flattened():
    env = gymnasium.wrappers.FlattenObservation(gymnasium.make("soulslab/Arena-v0", observation="dict"))
    obs, _ = env.reset(seed=0)
    assert env.observation_space.contains(obs)
