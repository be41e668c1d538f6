"""`soulslab.evaluate`: the report of any policy, which is a function of observations and masks."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import soulslab
from soulslab.arena.vocabulary import NOTHING
from soulslab.errors import ConfigError, EnvironmentUsageError, UnknownOptionError

ID = "soulslab/Arena-v0"


def first_open(observations, masks):
    """Return the first open action of each fight, (N,)."""
    assert len(observations) == len(masks)
    return masks.argmax(axis=1)


def test_it_counts_what_happened():
    result = soulslab.evaluate(first_open, ID, n_fights=12, n_envs=4, seed=3, boss="trickster", random_pose=True)
    assert result.n_fights == 12
    assert result.win_rate == result.n_wins / 12
    assert result.interval.low <= result.win_rate <= result.interval.high
    assert [row.name for row in result.by_attack] == list(gymnasium.make(ID, boss="trickster").unwrapped.attack_names)
    assert sum(row.mean_damage for row in result.by_attack) == pytest.approx(result.mean_damage_taken)
    assert sum(row.n_fights for row in result.by_pose) == 12
    again = soulslab.evaluate(first_open, ID, n_fights=12, n_envs=4, seed=3, boss="trickster", random_pose=True)
    assert again == result


def test_environments_of_all_kinds_give_the_same_report():
    made = soulslab.evaluate(first_open, ID, n_fights=5, n_envs=1, seed=1)
    single = soulslab.evaluate(first_open, gymnasium.make(ID), n_fights=5, seed=1)
    loop = SyncVectorEnv([lambda: gymnasium.make(ID)], autoreset_mode=AutoresetMode.SAME_STEP)
    assert soulslab.evaluate(first_open, loop, n_fights=5, seed=1) == made
    assert single == made


def test_an_environment_that_was_given_stays_open():
    env = gymnasium.make_vec(ID, 3, vectorization_mode="vector_entry_point", autoreset_mode="same_step")
    assert soulslab.evaluate(first_open, env, n_fights=6).n_fights == 6
    assert not env.closed


def test_dict_observations_and_environments_without_masks():
    def idle(observations, masks):
        assert set(observations) >= {"player_hp", "boss_hp"}
        return np.full(len(masks), NOTHING)

    assert soulslab.evaluate(idle, ID, n_fights=4, observation="dict").win_rate == 0.0

    def right(observations, masks):
        assert masks is None
        return np.ones(len(observations), int)

    result = soulslab.evaluate(right, "CartPole-v1", n_fights=4, n_envs=2)
    assert (result.n_fights, result.win_rate, result.by_attack) == (4, None, ())
    assert result.mean_return < 20


def test_a_fight_that_does_not_end_is_an_error_and_can_be_truncated(monkeypatch):
    def coast(observations, _):
        return np.ones(len(observations), int)  # the car never reaches its goal

    endless = gymnasium.make("MountainCar-v0").unwrapped
    monkeypatch.setattr("soulslab.learn.evaluate.MAX_DECISIONS", 50)
    with pytest.raises(EnvironmentUsageError, match=r"not ended after 50 decisions; .* max_episode_steps"):
        soulslab.evaluate(coast, endless, n_fights=2)
    limited = gymnasium.wrappers.TimeLimit(endless, max_episode_steps=20)
    assert soulslab.evaluate(coast, limited, n_fights=2).mean_decisions == 20


def test_wrong_use():
    with pytest.raises(ConfigError, match=r"soulslab\.evaluate: .*n_fights"):
        soulslab.evaluate(first_open, ID, n_fights=0)
    with pytest.raises(UnknownOptionError, match="did you mean 'boss'"):
        soulslab.evaluate(first_open, ID, bos="judge")
    with pytest.raises(EnvironmentUsageError, match="already exists"):
        soulslab.evaluate(first_open, gymnasium.make(ID), n_envs=2)
    with pytest.raises(EnvironmentUsageError, match="autoreset_mode='same_step'"):
        soulslab.evaluate(first_open, gymnasium.make_vec(ID, 2, vectorization_mode="vector_entry_point"))
    with pytest.raises(EnvironmentUsageError, match="must be a Gymnasium id or environment, not 5"):
        soulslab.evaluate(first_open, 5)
    with pytest.raises(AttributeError, match="evaluat"):
        _ = soulslab.evaluat
