import msgspec
import numpy as np
import pytest
import torch

from soulslab.errors import (
    ConfigError,
    CorruptCheckpointError,
    EnvironmentUsageError,
    IncompatibleCheckpointError,
)
from soulslab.learn.archive import read_archive, write_archive
from soulslab.learn.environment import Sizes, describe_options, require_functions
from soulslab.learn.inputs import Inputs, PixelShape
from soulslab.learn.policy import Policy, PolicyHeader
from soulslab.learn.settings import NetworkSettings


@pytest.fixture
def policy():
    header = PolicyHeader(
        env_id="toys/Corridor-v0",
        env_options={"boss": "judge"},
        n_features=6,
        n_actions=4,
        network=NetworkSettings(widths=(16,), activation="silu", shared=True),
        soulslab="0.1.0",
        commit="abc",
        env_steps=123,
    )
    policy = Policy(header, torch.Generator().manual_seed(7))
    policy.observe(np.random.default_rng(0).normal(3.0, 2.0, (100, 6)).astype(np.float32))
    policy.value_moments.update(np.arange(10.0))
    return policy


def batch(n=50):
    rng = np.random.default_rng(1)
    mask = rng.random((n, 4)) < 0.5
    mask[:, 0] = True
    return rng.normal(3.0, 2.0, (n, 6)).astype(np.float32), mask


def test_what_is_loaded_is_what_was_saved(policy, tmp_path):
    path = tmp_path / "policy.safetensors"
    policy.save(path)
    loaded = Policy.load(path)
    assert loaded.header == policy.header
    for name, array in policy.state().items():
        np.testing.assert_array_equal(loaded.state()[name], array)
    obs, mask = batch()
    np.testing.assert_array_equal(loaded.act(obs, mask), policy.act(obs, mask))


@pytest.mark.parametrize("deterministic", [True, False])
def test_actions_are_allowed_and_repeatable(policy, deterministic):
    obs, mask = batch(1000)
    policy.seed(5)
    actions = policy.act(obs, mask, deterministic=deterministic)
    policy.seed(5)
    assert mask[np.arange(1000), actions].all()
    np.testing.assert_array_equal(policy.act(obs, mask, deterministic=deterministic), actions)


def test_one_observation_gives_one_action(policy):
    obs, mask = batch(1)
    assert policy.act(obs[0], mask[0]).shape == ()
    assert int(policy.act(obs[0], mask[0])) == int(policy.act(obs, mask)[0])
    assert policy.act(obs).shape == (1,)


def test_normalised_observations_have_mean_0_and_std_1_and_are_clipped(policy):
    obs = np.random.default_rng(0).normal(3.0, 2.0, (100, 6)).astype(np.float32)
    normalised = policy.normalise(obs)
    torch.testing.assert_close(normalised.mean(0), torch.zeros(6), atol=1e-5, rtol=0.0)
    torch.testing.assert_close(normalised.std(0, correction=0), torch.ones(6))
    assert policy.normalise(np.full((1, 6), 1e6, np.float32)).max() == 10.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("toys/Corridor-v1", Sizes(1, 6, 4)), "was trained on toys/Corridor-v0, not on toys/Corridor-v1"),
        (("toys/Corridor-v0", Sizes(1, 7, 4)), "has 6 features, but toys/Corridor-v0 has 7"),
        (("toys/Corridor-v0", Sizes(1, 6, 5)), "has 4 actions, but toys/Corridor-v0 has 5"),
    ],
)
def test_another_environment_is_refused(policy, arguments, message):
    policy.header.check_env("toys/Corridor-v0", Sizes(1, 6, 4))
    with pytest.raises(IncompatibleCheckpointError, match=message):
        policy.header.check_env(*arguments)


@pytest.fixture
def seeing(policy):
    """A policy that looks at four frames."""
    return Policy(
        msgspec.structs.replace(policy.header, n_features=0, pixels=PixelShape(40, 48, 1), frame_stack=4),
        torch.Generator().manual_seed(7),
    )


def test_a_policy_that_sees_is_loaded_as_it_was_saved(seeing, tmp_path):
    seeing.save(tmp_path / "policy.safetensors")
    loaded = Policy.load(tmp_path / "policy.safetensors")
    assert loaded.header == seeing.header
    assert loaded.header.stacked_pixels == (40, 48, 4)
    pixels = np.random.default_rng(0).integers(256, size=(50, 40, 48, 4), dtype=np.uint8)
    inputs = Inputs(np.zeros((50, 0), np.float32), pixels)
    actions = loaded.act(inputs)
    assert actions.shape == (50,)
    np.testing.assert_array_equal(actions, seeing.act(inputs))
    np.testing.assert_array_equal(loaded.judge(inputs), seeing.judge(inputs))


def test_pixels_of_another_size_are_refused(seeing, policy):
    seeing.header.check_env("toys/Corridor-v0", Sizes(1, 0, 4, PixelShape(40, 48, 1)))
    with pytest.raises(IncompatibleCheckpointError, match=r"has 40x48x1 pixels as input, but .* has 84x84x1; check"):
        seeing.header.check_env("toys/Corridor-v0", Sizes(1, 0, 4, PixelShape(84, 84, 1)))
    with pytest.raises(IncompatibleCheckpointError, match=r"has 40x48x1 pixels as input, but .* has none; check"):
        seeing.header.check_env("toys/Corridor-v0", Sizes(1, 6, 4))
    with pytest.raises(IncompatibleCheckpointError, match=r"has no pixels as input, but .* has 84x84x1; check"):
        policy.header.check_env("toys/Corridor-v0", Sizes(1, 6, 4, PixelShape(84, 84, 1)))


def test_missing_or_unexpected_pixels_are_refused(seeing, policy):
    with pytest.raises(EnvironmentUsageError, match="for 40x48x1 pixels was given features alone"):
        seeing.act(np.zeros((1, 6), np.float32))
    with pytest.raises(
        EnvironmentUsageError, match="for no pixels was given pixels; give it the inputs of an Observer"
    ):
        policy.act(Inputs(np.zeros((1, 6), np.float32), np.zeros((1, 40, 48, 4), np.uint8)))


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_files_of_earlier_versions_are_read(policy, tmp_path, version):
    path = tmp_path / "policy.safetensors"
    policy.save(path)
    tensors, header = read_archive(path)
    new = {1: ("convolutions",), 2: ("memory", "hidden_features"), 3: ("critic_sees_hidden",), 4: ("channels",)}
    for name in [name for added, names in new.items() if version <= added for name in names]:
        del header["network"][name]
    if version == 1:
        del header["pixels"], header["frame_stack"]
    write_archive(path, tensors, header | {"version": version})
    obs, mask = batch()
    np.testing.assert_array_equal(Policy.load(path).act(obs, mask), policy.act(obs, mask))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"format": "soulslab-checkpoint"},
            IncompatibleCheckpointError,
            "this soulslab reads 'soulslab-policy' version 1 or 2 or 3 or 4 or 5",
        ),
        (
            {"version": 6},
            IncompatibleCheckpointError,
            "version 6; this soulslab reads 'soulslab-policy' version 1 or 2 or 3 or 4 or 5",
        ),
        ({"n_actions": 5}, IncompatibleCheckpointError, "a network of 214 parameters, but the file holds 197"),
        ({"n_features": 7}, IncompatibleCheckpointError, r"a network of \d+ parameters, but the file holds 197"),
        (
            {"network": {"widths": [16]}},
            IncompatibleCheckpointError,
            r"a network of \d+ parameters, but the file holds",
        ),
        ({"n_actions": "four"}, CorruptCheckpointError, "malformed header: Expected `int`"),
        ({"new": 1}, CorruptCheckpointError, "unknown field `new`"),
        ({"env_id": None}, CorruptCheckpointError, "malformed header"),
    ],
)
def test_every_field_of_the_header_is_checked(policy, tmp_path, change, error, message):
    path = tmp_path / "policy.safetensors"
    policy.save(path)
    tensors, header = read_archive(path)
    write_archive(path, tensors, header | change)
    with pytest.raises(error, match=message):
        Policy.load(path)


def my_reward():
    """Stand for a user's function."""


def test_functions_are_recorded_by_name_and_asked_for_again():
    described = describe_options({"reward": my_reward, "boss": "judge"})
    assert described["boss"] == "judge"
    assert described["reward"].endswith("test_policy.my_reward>")
    with pytest.raises(ConfigError, match=r"config.toml: env.options.reward: is the Python function .*my_reward"):
        require_functions(described, "config.toml")
    require_functions({"reward": my_reward}, "config.toml")
