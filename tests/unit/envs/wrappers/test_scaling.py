"""Scaled observations: ranges, statistics, and their files."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from soulslab.envs.wrappers import ScaleObservation
from soulslab.errors import ConfigError, EnvironmentUsageError
from support.players import script


def make(**options):
    return gymnasium.make("soulslab/Arena-v0", **options)


def observations(env, seed=0, n=60):
    yield env.reset(seed=seed)[0]
    for action in script(seed, n):
        observation, _, terminated, truncated, _ = env.step(int(action))
        yield observation
        if terminated or truncated:
            return


@settings(max_examples=12)
@given(
    observation=st.sampled_from(["dict", "boxes", "features"]),
    to=st.sampled_from([(-1.0, 1.0), (0.0, 1.0)]),
    method=st.sampled_from(["range", "running"]),
    seed=st.integers(0, 2**32),
)
def test_all_values_are_in_the_range(observation, to, method, seed):
    env = ScaleObservation(make(observation=observation, random_pose=True), to, method)
    for seen in observations(env, seed):
        assert seen in env.observation_space


def test_scaling_by_range_is_linear(make_live):
    plain, env = make_live(observation="dict"), ScaleObservation(make_live(observation="dict"))
    for old, new in zip(observations(plain), observations(env), strict=True):
        for key, space in plain.observation_space.items():
            if isinstance(space, spaces.Discrete):
                assert old[key] == new[key]
                assert env.observation_space[key] == space
            else:
                back = space.low + (new[key] + 1.0) / 2.0 * (space.high - space.low)
                np.testing.assert_allclose(back, old[key], atol=1e-3)


def test_values_beyond_given_ranges_are_clipped():
    env = ScaleObservation(make(observation="dict"), to=(0, 1), ranges={"player_hp": (400.0, 500.0)})
    seen = [float(seen["player_hp"][0]) for seen in observations(env, n=120)]
    assert seen[0] == pytest.approx(0.54)
    assert min(seen) == 0.0


def test_running_statistics_equal_those_of_the_observations():
    plain = np.array([seen["boss_pose"] for seen in observations(make(observation="dict"))], np.float64)
    env = ScaleObservation(make(observation="dict"), method="running")
    *_, last = observations(env)
    wanted = (plain[-1] - plain.mean(axis=0)) / np.maximum(plain.std(axis=0), 1e-4) / 5.0
    # Gymnasium's statistics start with a weight of 1/10,000 sample at zero.
    np.testing.assert_allclose(last["boss_pose"][[0, 1, 3]], np.clip(wanted, -1, 1)[[0, 1, 3]], atol=0.05)


@pytest.mark.parametrize("observation", ["dict", "features"])
def test_loaded_statistics_are_frozen(tmp_path, observation):
    learnt = ScaleObservation(make(observation=observation), method="running")
    for _ in observations(learnt):
        pass
    learnt.save(tmp_path / "scale.npz")
    learnt.freeze()
    loaded = ScaleObservation(make(observation=observation), method="running")
    loaded.load(tmp_path / "scale.npz")
    assert loaded.is_frozen
    for one, two in zip(observations(learnt, seed=3), observations(loaded, seed=3), strict=True):
        for key in one if observation == "dict" else ():
            np.testing.assert_array_equal(one[key], two[key])
        if observation == "features":
            np.testing.assert_array_equal(one, two)


def test_frozen_statistics_do_not_change():
    env = ScaleObservation(make(), method="running")
    for _ in observations(env):
        pass
    env.freeze()
    first = list(observations(env, seed=4))
    np.testing.assert_array_equal(first, list(observations(env, seed=4)))


def test_files_that_do_not_fit(tmp_path):
    env = ScaleObservation(make(), method="running")
    env.reset(seed=0)
    env.save(tmp_path / "a.npz")
    other = ScaleObservation(make(observation="dict"), method="running")
    with pytest.raises(ConfigError, match="another observation"):
        other.load(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", format=np.array([1]), **{"observation/mean": np.zeros(74)})
    with pytest.raises(ConfigError, match="not complete"):
        env.load(tmp_path / "b.npz")
    (tmp_path / "c.npz").write_bytes(b"no zip")
    with pytest.raises(ConfigError, match="cannot be read"):
        env.load(tmp_path / "c.npz")
    np.savez(tmp_path / "d.npz", format=np.array([9]))
    with pytest.raises(ConfigError, match="format 1"):
        env.load(tmp_path / "d.npz")


def test_a_range_has_no_statistics(tmp_path):
    env = ScaleObservation(make())
    for call in (env.save, env.load):
        with pytest.raises(EnvironmentUsageError, match="only method='running'"):
            call(tmp_path / "a.npz")


def test_pictures_are_not_scaled(make_live):
    env = ScaleObservation(make_live(observation="pixels+state"))
    assert env.observation_space["pixels"].dtype == np.uint8
    assert env.reset(seed=0)[0] in env.observation_space


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"to": (0, 2)}, "to must be"),
        ({"method": "rnage"}, "did you mean 'range'"),
        ({"clip_std": 0.0}, "clip_std"),
        ({"ranges": {"player_hq": (0, 1)}}, "did you mean 'player_hp'"),
        ({"ranges": {"player_hp": (0, np.inf)}}, "no finite range"),
        ({"ranges": {"player_hp": (1, 1)}}, "no finite range"),
        ({"ranges": {"player_hp": (0, 1, 2)}}, "two numbers or arrays"),
    ],
)
def test_wrong_options(options, problem):
    with pytest.raises(EnvironmentUsageError, match=problem):
        ScaleObservation(make(observation="dict"), **options)


def test_unbounded_parts_need_a_range():
    with pytest.raises(EnvironmentUsageError, match="'observation' has no finite range"):
        ScaleObservation(gymnasium.make("CartPole-v1"))


def test_spaces_without_floats_are_refused():
    with pytest.raises(EnvironmentUsageError, match="consists of floats"):
        ScaleObservation(gymnasium.make("FrozenLake-v1"))
