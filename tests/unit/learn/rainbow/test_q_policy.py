"""The policy of action values: masks hold, files hold exactly what was saved, and others are refused."""

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from soulslab.errors import CheckpointError, CorruptCheckpointError, EnvironmentUsageError, IncompatibleCheckpointError
from soulslab.learn.archive import read_archive, write_archive
from soulslab.learn.environment import Sizes
from soulslab.learn.inputs import Inputs
from soulslab.learn.rainbow.feature_encoding import MAX_NORMALISED
from soulslab.learn.rainbow.q_policy import QPolicy
from soulslab.learn.rainbow.rainbow_settings import QNetworkSettings
from support.policies import MEMORY, SMALL, actor_critic, q_policy, seeing_policy, some_inputs

N_ACTIONS = 20


@pytest.fixture
def policy():
    return q_policy(7, env_options={"boss": "judge"})


@pytest.fixture
def path(policy, tmp_path):
    policy.save(tmp_path / "policy.safetensors")
    return tmp_path / "policy.safetensors"


def check_same(policy, other):
    assert other.header == policy.header
    ours, theirs = policy.state(), other.state()
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_array_equal(theirs[name], array, err_msg=name)


# --- acting -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("deterministic", [True, False])
def test_no_mask_is_violated_in_a_million_actions(deterministic):
    policy = q_policy(n_features=5, n_actions=N_ACTIONS)
    n_actions = 0
    for seed in range(50):
        features, mask = some_inputs(20_000, 5, N_ACTIONS, seed)
        mask[:1000] = False
        mask[np.arange(1000), np.arange(1000) % N_ACTIONS] = True
        actions = policy.act(features, mask, deterministic=deterministic)
        assert mask[np.arange(len(mask)), actions].all()
        n_actions += len(actions)
    assert n_actions == 1_000_000


@given(
    mask=arrays.arrays(np.bool_, (9, N_ACTIONS)),
    features=arrays.arrays(
        np.float32, (9, 5), elements=st.floats(-(2.0**100), 2.0**100, width=32, allow_subnormal=False)
    ),
    scale=st.sampled_from([0.0, 1.0, 1e3, 1e6]),
    deterministic=st.booleans(),
)
def test_any_mask_holds_for_any_features(mask, features, scale, deterministic):
    policy = q_policy(n_features=5, n_actions=N_ACTIONS)
    policy.network.parameters_flat.mul_(scale)
    actions = policy.act(features, mask, deterministic=deterministic)
    assert ((actions >= 0) & (actions < N_ACTIONS)).all()
    has_choice = mask.any(axis=1)
    assert mask[np.arange(9), actions][has_choice].all()


def test_the_best_open_action_is_taken(policy):
    features, mask = some_inputs(200, 6, 4)
    values = policy.values(Inputs(features)).numpy()
    np.testing.assert_array_equal(policy.act(features, mask), np.where(mask, values, -np.inf).argmax(axis=1))
    np.testing.assert_array_equal(policy.act(features), values.argmax(axis=1))


def test_draws_follow_the_softmax_of_the_values_and_repeat_with_the_seed():
    policy = q_policy(temperature=0.5)
    features, mask = np.zeros((1, 6), np.float32), np.array([[True, True, False, True]])
    values = policy.values(Inputs(features)).numpy().astype(np.float64)
    expected = np.where(mask, np.exp((values - values.max()) / 0.5), 0.0)[0]
    many = np.repeat(features, 100_000, axis=0), np.repeat(mask, 100_000, axis=0)
    policy.seed(5)
    drawn = policy.act(*many, deterministic=False)
    np.testing.assert_allclose(np.bincount(drawn, minlength=4) / 1e5, expected / expected.sum(), atol=0.006)
    policy.seed(5)
    np.testing.assert_array_equal(policy.act(*many, deterministic=False), drawn)
    assert (policy.act(*many, deterministic=False) != drawn).any()


def test_one_observation_gives_one_action(policy):
    features, mask = some_inputs(1, 6, 4)
    assert policy.act(features[0], mask[0]).shape == ()
    assert int(policy.act(features[0], mask[0])) == int(policy.act(features, mask)[0])
    assert policy.act(Inputs(features), mask).shape == (1,)


def test_normalised_features_have_mean_0_and_std_1_and_are_clipped(policy):
    features = np.random.default_rng(7).normal(0.5, 2.0, (50, 6)).astype(np.float32)  # those it has seen
    normalised = policy.normalise(torch.from_numpy(features))
    torch.testing.assert_close(normalised.mean(0), torch.zeros(6), atol=1e-5, rtol=0.0)
    torch.testing.assert_close(normalised.std(0, correction=0), torch.ones(6))
    assert policy.normalise(torch.full((1, 6), 1e6)).max() == MAX_NORMALISED


def test_it_is_shown_what_it_looks_at(policy):
    with pytest.raises(EnvironmentUsageError, match="for 24x24x1 pixels was given features alone"):
        seeing_policy().act(np.zeros((1, 6), np.float32))
    with pytest.raises(
        EnvironmentUsageError, match="for no pixels was given pixels; give it the inputs of an Observer"
    ):
        policy.act(Inputs(np.zeros((1, 6), np.float32), np.zeros((1, 24, 24, 2), np.uint8)))


# --- weights for an actor -----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [q_policy, seeing_policy])
def test_weights_make_another_policy_the_same(make):
    policy, other = make(1), make(2)
    other.load_weights(policy.weights())
    check_same(policy, other)
    weights = policy.weights()
    policy.network.parameters_flat.zero_()
    policy.observe(np.ones((3, policy.header.n_inputs), np.float32))
    other.load_weights(weights)  # copies, which what is learned meanwhile does not change
    assert (other.network.parameters_flat != 0.0).any()


def test_a_twin_has_the_same_values(policy):
    copy_network = policy.copy_network()
    features = torch.from_numpy(some_inputs(10, 6, 4)[0])
    torch.testing.assert_close(copy_network(features, None), policy.network(features, None), rtol=0.0, atol=0.0)
    copy_network.parameters_flat.zero_()
    assert (policy.network.parameters_flat != 0.0).any()


# --- files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made",
    [
        q_policy(1),
        q_policy(2, extras=MEMORY, n_envs=3),
        q_policy(3, network=QNetworkSettings(widths=(8, 4), n_quantiles=1, is_dueling=False, has_layer_norm=False)),
        q_policy(4, network=QNetworkSettings(widths=(8,), n_quantiles=5)),
        seeing_policy(5),
        seeing_policy(6, n_features=1, frame_stack=3),
    ],
    ids=["features", "extras", "plain", "quantiles", "pixels", "both"],
)
def test_what_is_loaded_is_what_was_saved(made, tmp_path):
    path = tmp_path / "policy.safetensors"
    made.save(path)
    loaded = QPolicy.load(path)
    check_same(made, loaded)
    header = made.header
    rng = np.random.default_rng(0)
    shape = header.stacked_pixels
    pixels = rng.integers(256, size=(20, *shape), dtype=np.uint8) if shape is not None else None
    inputs = Inputs(rng.normal(size=(20, header.n_inputs)).astype(np.float32), pixels)
    torch.testing.assert_close(loaded.values(inputs), made.values(inputs), rtol=0.0, atol=0.0)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"format": "soulslab-policy"}, IncompatibleCheckpointError, "format 'soulslab-policy' version 2; this"),
        ({"version": 3}, IncompatibleCheckpointError, "version 3; this soulslab reads 'soulslab-action-values' ver"),
        ({"n_actions": 5}, IncompatibleCheckpointError, "describes a network of"),
        ({"n_features": 7}, IncompatibleCheckpointError, "describes a network of"),
        ({"extras": {"previous_actions": 1}}, IncompatibleCheckpointError, "describes a network of"),
        ({"network": {"widths": [8, 8]}}, IncompatibleCheckpointError, "describes a network of"),
        ({"n_actions": "four"}, CorruptCheckpointError, "malformed header: Expected `int`"),
        ({"new": 1}, CorruptCheckpointError, "unknown field `new`"),
        ({"network": {"width": [8]}}, CorruptCheckpointError, "unknown field `width`"),
    ],
)
def test_every_field_of_the_header_is_checked(path, change, error, message):
    tensors, header = read_archive(path)
    write_archive(path, tensors, header | change)
    with pytest.raises(error, match=message):
        QPolicy.load(path)


def test_a_tensor_under_another_name_is_named(path, policy):
    tensors, header = read_archive(path)
    missing = next(iter(policy.state()))
    tensors["network/other"] = tensors.pop(missing)
    write_archive(path, tensors, header)
    with pytest.raises(IncompatibleCheckpointError, match=f"tensor '{missing}' should have shape .*there is nothing"):
        QPolicy.load(path)


def test_other_and_altered_files_are_refused(path, tmp_path):
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptCheckpointError, match="has been altered: its SHA-256"):
        QPolicy.load(path)
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(CorruptCheckpointError, match="is truncated or not a checkpoint"):
        QPolicy.load(path)
    actor_critic().save(path)
    with pytest.raises(IncompatibleCheckpointError, match="has format 'soulslab-policy' version 5"):
        QPolicy.load(path)
    with pytest.raises(CheckpointError, match=r"nothing.safetensors: cannot be read"):
        QPolicy.load(tmp_path / "nothing.safetensors")


def test_another_environment_is_refused(policy):
    policy.header.check_env("toys/Corridor-v0", Sizes(1, 6, 4))
    policy.header.check_env("toys/CorridorLive-v0", Sizes(1, 6, 4), alike=["toys/Corridor-v0"])
    with pytest.raises(IncompatibleCheckpointError, match="was trained on toys/Corridor-v0, not on toys/Corridor-v1"):
        policy.header.check_env("toys/Corridor-v1", Sizes(1, 6, 4))


def test_extra_inputs_are_no_features_of_the_environment():
    header = q_policy(extras=MEMORY).header
    assert header.n_inputs == 6 + 2 * 4 + 1
    header.check_env("toys/Corridor-v0", Sizes(1, 6, 4))
    assert msgspec.structs.replace(header, extras=q_policy().header.extras).n_inputs == 6
    assert header.network == SMALL


def test_a_policy_of_an_earlier_commit_has_no_noisy_layers(tmp_path):
    path = tmp_path / "policy.safetensors"
    made = q_policy(1)
    made.save(path)
    tensors, header = read_archive(path)
    write_archive(path, tensors, {**header, "network": {**header["network"], "is_noisy": False}})
    assert QPolicy.load(path).header == made.header
    for value in (True, "yes", None):
        write_archive(path, tensors, {**header, "network": {**header["network"], "is_noisy": value}})
        with pytest.raises(IncompatibleCheckpointError, match="has noisy layers, which soulslab no longer has"):
            QPolicy.load(path)
