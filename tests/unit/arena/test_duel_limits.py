"""Duel records from files: records of real fights are accepted, impossible ones are rejected."""

import numpy as np
import pytest

from soulslab.arena.simulator import find_impossible_field
from soulslab.envs.arena import ArenaVectorEnv
from soulslab.errors import EnvironmentUsageError

N_STEPS = 1_000
N_MUTATIONS = 300
WRONG = {
    "phase": (3, -1),
    "over": (2,),
    "start_pose": (-2, 10_000),
    "n_projectiles": (9, -1),
    "p_anim": (-1, 64),
    "b_mode": (5, -1),
    "b_move": (-2, 999),
    "b_window": (-1, 999),
    "b_anim": (-2, 999),
    "q_move": (-2, 999),
    "q_knock": (-2, 16),
    "s_killed_by": (-2, 999),
    "tick": (2**62, -(2**62)),
    "p_x": (np.nan, np.inf, -1e300),
    "s_damage_by_move": (np.nan,),
}


@pytest.fixture(params=["judge", "trickster"])
def env(request):
    env = ArenaVectorEnv(num_envs=32, boss=request.param, random_pose=True)
    env.reset(seed=1)
    return env


def random_steps(env, n_steps):
    rng = np.random.default_rng(2)
    for _ in range(n_steps):
        env.step(rng.integers(20, size=env.num_envs))
        yield env.unwrapped._duels.simulator


def test_states_of_real_fights_are_valid(env):
    for simulator in random_steps(env, N_STEPS):
        assert find_impossible_field(simulator.duels, simulator.fight[0]) is None


@pytest.mark.parametrize(("field", "value"), [(field, value) for field in WRONG for value in WRONG[field]])
def test_a_state_that_no_fight_can_be_in_is_refused(field, value):
    env = ArenaVectorEnv(num_envs=3)
    env.reset(seed=1)
    before = env.get_state()
    state = env.get_state()
    duels = state["duels"].view(env.unwrapped._duels.simulator.duels.dtype)
    duels[field][2] = value
    with pytest.raises(EnvironmentUsageError, match=f"set_state: no fight can be in this state: {field} is "):
        env.set_state(state)
    for name, array in env.get_state().items():
        np.testing.assert_array_equal(array, before[name])


def test_a_damaged_state_is_refused_or_played(env):
    (*_, simulator) = random_steps(env, 50)
    whole, rng, n_refused = env.get_state(), np.random.default_rng(3), 0
    for _ in range(N_MUTATIONS):
        damaged = {name: array.copy() for name, array in whole.items()}
        duels = damaged["duels"]
        duels[rng.integers(len(duels)), rng.integers(duels.shape[1], size=3)] = rng.integers(256, size=3)
        try:
            env.set_state(damaged)
        except EnvironmentUsageError:
            n_refused += 1
            continue
        for _ in random_steps(env, 20):
            assert simulator.duels["p_anim"].min() >= 0
    assert 0 < n_refused < N_MUTATIONS
