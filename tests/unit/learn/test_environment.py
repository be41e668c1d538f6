import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from soulslab.errors import EnvironmentUsageError
from soulslab.learn.environment import (
    blocked_actions,
    decisions_taken,
    environment_seed,
    final_observations,
    make_vector,
    sizes,
    stateful,
)


class Odd(gymnasium.Env):
    def __init__(self, actions, observations):
        self.action_space = actions
        self.observation_space = observations


@pytest.fixture
def odd_id():
    gymnasium.register("toys/Odd-v0", entry_point=Odd)
    yield "toys/Odd-v0"
    del gymnasium.registry["toys/Odd-v0"]


def test_a_fast_vector_version_is_used():
    env = make_vector("toys/Corridor-v0", 3, {})
    assert type(env.unwrapped).__name__ == "Corridor"
    assert sizes(env) == (3, 6, 4)
    assert stateful(env) is env.unwrapped


@pytest.mark.parametrize("env_id", ["toys/Lights-v0", "CartPole-v1"])
def test_other_ids_are_looped_over(env_id):
    env = make_vector(env_id, 2, {})
    assert env.metadata["autoreset_mode"] == gymnasium.vector.AutoresetMode.SAME_STEP
    assert stateful(env) is None
    env.close()


@pytest.mark.parametrize(
    ("actions", "observations", "message"),
    [
        (MultiDiscrete([2, 2]), Box(0, 1, (3,)), "actions must be Discrete"),
        (Discrete(3, start=1), Box(0, 1, (3,)), "actions must be Discrete from 0"),
        (Discrete(3), Box(0, 1, (3, 3)), "observations must be a flat Box"),
        (Discrete(3), Discrete(4), "observations must be a flat Box"),
    ],
)
def test_what_cannot_be_learned_is_an_error(odd_id, actions, observations, message):
    with pytest.raises(EnvironmentUsageError, match=message):
        make_vector(odd_id, 2, {"actions": actions, "observations": observations})


def test_masks_and_final_observations_come_through_gymnasiums_loop():
    env = make_vector("toys/Lights-v0", 3, {})
    obs, info = env.reset(seed=1)
    np.testing.assert_array_equal(blocked_actions(info, 3, 4), [[False, False, False, True]] * 3)
    _, _, terminated, _, info = env.step(np.zeros(3, np.int64))
    assert terminated.all()
    np.testing.assert_array_equal(blocked_actions(info, 3, 4), [[False, False, False, True]] * 3)
    np.testing.assert_array_equal(final_observations(info, np.array([2, 0]), 4), obs[[2, 0]])
    np.testing.assert_array_equal(decisions_taken(info, 3), [1, 1, 1])
    env.close()


def test_decisions_of_a_last_step_are_found_in_the_final_info():
    info = {
        "n_decisions": np.array([3, 0]),
        "final_info": {"n_decisions": np.array([0, 5]), "_n_decisions": np.array([False, True])},
    }
    np.testing.assert_array_equal(decisions_taken(info, 2), [3, 5])


def test_seeds_of_runs_and_purposes_lie_apart():
    seeds = [environment_seed(seed, purpose) for seed in range(100) for purpose in (0, 1)]
    assert len(set(seeds)) == 200
    assert np.diff(sorted(seeds)).min() > 1024
    assert environment_seed(3, 1) == environment_seed(3, 1)
