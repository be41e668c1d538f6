import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from soulslab.errors import ConfigError, EnvironmentUsageError
from soulslab.learn.environment import (
    EVALUATION,
    TRAINING,
    blocked_actions,
    decisions_taken,
    environment_seed,
    layout,
    make_vector,
    sizes,
    stateful,
)
from soulslab.learn.inputs import Observer


class Odd(gymnasium.Env):
    def __init__(self, actions, observations, is_broken=False):
        if is_broken:
            observations = observations + None
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
    assert sizes(env) == (3, 6, 4, None, ())
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


@pytest.mark.parametrize("env_id", ["toys/Corridor-v0", "CartPole-v1"])
@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("num_envs", 3, "set env.n_envs instead"),
        ("autoreset_mode", "next_step", "always uses same_step"),
        ("copy", True, "always sets it to False"),
        ("render_mode", "human", "soulslab play"),
        ("vectorization_mode", "async", "remove it"),
    ],
)
def test_options_that_are_not_the_environments_are_refused(env_id, name, value, advice):
    with pytest.raises(ConfigError, match=rf"^env\.options\.{name}: .*{advice}"):
        make_vector(env_id, 2, {name: value})


@pytest.mark.parametrize("env_id", ["toys/Corridor-v0", "toys/Lights-v0", "CartPole-v1"])
def test_an_option_that_the_environment_does_not_know_is_named(env_id):
    with pytest.raises(EnvironmentUsageError, match=rf"{env_id}: .* unexpected keyword argument 'boss'"):
        make_vector(env_id, 2, {"boss": "judge"})


def test_a_mistake_in_the_environments_own_code_is_not_hidden(odd_id):
    with pytest.raises(TypeError, match="unsupported operand"):
        make_vector(odd_id, 2, {"actions": Discrete(2), "observations": Discrete(2), "is_broken": True})


def test_an_environment_that_gives_no_mask_allows_every_action():
    """SyncVectorEnv fills its row with False, for example after a reset, if another environment gave a mask."""
    info = {"action_mask": np.array([[True, False], [False, False]]), "_action_mask": np.array([True, False])}
    np.testing.assert_array_equal(blocked_actions(info, 2, 2), [[False, True], [False, False]])


def test_masks_and_final_observations_come_through_gymnasiums_loop():
    env = make_vector("toys/Lights-v0", 3, {})
    obs, info = env.reset(seed=1)
    np.testing.assert_array_equal(blocked_actions(info, 3, 4), [[False, False, False, True]] * 3)
    _, _, terminated, _, info = env.step(np.zeros(3, np.int64))
    assert terminated.all()
    np.testing.assert_array_equal(blocked_actions(info, 3, 4), [[False, False, False, True]] * 3)
    final = Observer(layout(env), 3).final(
        info["final_obs"], np.array([2, 0]), np.zeros(3, np.int64), np.ones(3, np.int64)
    )
    np.testing.assert_array_equal(final.features, obs[[2, 0]])
    np.testing.assert_array_equal(decisions_taken(info, 3), [1, 1, 1])
    env.close()


def test_decisions_of_a_last_step_are_found_in_the_final_info():
    info = {
        "n_decisions": np.array([3, 0]),
        "final_info": {"n_decisions": np.array([0, 5]), "_n_decisions": np.array([False, True])},
    }
    np.testing.assert_array_equal(decisions_taken(info, 2), [3, 5])


def test_seeds_of_runs_and_purposes_lie_apart():
    seeds = [environment_seed(seed, purpose) for seed in range(100) for purpose in (TRAINING, EVALUATION)]
    assert len(set(seeds)) == 200
    assert np.diff(sorted(seeds)).min() > 1024
    assert environment_seed(3, 1) == environment_seed(3, 1)
