"""What the network sees: features and soft bins as a plain formula says, found by name, and kept by a policy's file."""

import os
import signal

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soulslab.envs.registration import ARENA_ID
from soulslab.errors import ConfigError, CorruptCheckpointError, EnvironmentUsageError, IncompatibleCheckpointError
from soulslab.learn.actors.shared_memory import read_header, write_header
from soulslab.learn.archive import read_archive, write_archive
from soulslab.learn.evaluate import EvaluationSettings, evaluate
from soulslab.learn.inputs import Inputs
from soulslab.learn.phases import PhasePolicy, Switch
from soulslab.learn.players import start_from
from soulslab.learn.rainbow.feature_encoding import MAX_NORMALISED, Encoding, resolve_bins
from soulslab.learn.rainbow.q_policy import QHeader, QPolicy
from soulslab.learn.rainbow.rainbow_settings import BinsSettings, QNetworkSettings
from soulslab.learn.run_folder import StopReason
from soulslab.learn.telemetry import Evaluated
from soulslab.learn.train import train
from support.policies import MEMORY, q_policy, seeing_policy, some_inputs

TIME = BinsSettings(feature=1, low=0.0, high=2.0, n=5)
PRODUCTS = BinsSettings(feature=1, low=-1.0, high=3.0, n=4, times=(3, 5))
NAMES = ("time", "speed", "move=low", "move=high", "mover")


def network(*bins):
    return QNetworkSettings(widths=(8,), n_quantiles=3, bins=bins)


def formula(features, bins):
    """The expanded features, one by one, float64."""
    columns = [features.astype(np.float64)]
    for each in bins:
        centres = np.linspace(each.low, each.high, each.n)
        width = (each.high - each.low) / (each.n - 1)
        hats = np.exp(-0.5 * ((features[:, each.feature, None] - centres) / width) ** 2)
        if each.times == "":
            columns.append(hats)
        else:
            columns += [features[:, j, None] * hats for j in range(each.times[0], each.times[1] + 1)]
    return np.concatenate(columns, axis=1)


def some_bins(n_features):
    """Return a strategy for bins of that many features."""
    places = st.integers(0, n_features - 1)
    times = st.one_of(st.just(""), st.tuples(places, places).map(lambda ends: (min(ends), max(ends))))
    low = st.floats(-5.0, 5.0)
    return st.builds(
        lambda feature, low, extent, n, times: BinsSettings(
            feature=feature, low=low, high=low + extent, n=n, times=times
        ),
        places,
        low,
        st.floats(0.1, 10.0),
        st.integers(2, 64),
        times,
    )


# --- the formula --------------------------------------------------------------------------------------------


@given(
    bins=st.lists(some_bins(6), max_size=3),
    n_rows=st.integers(1, 9),
    share_zero=st.sampled_from([0.0, 0.5, 1.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_network_sees_what_the_formula_says(bins, n_rows, share_zero, seed):
    rng = np.random.default_rng(seed)
    seen = rng.normal(0.5, 2.0, (30, 6)).astype(np.float32)
    features = rng.normal(0.5, 2.0, (n_rows, 6)).astype(np.float32)
    features[rng.random(features.shape) < share_zero] = 0.0
    policy = QPolicy(q_policy(network=network(*bins)).header)
    policy.observe(seen)

    expanded, plain = policy.encoding.expand(features), formula(features, bins)
    assert expanded.shape == (n_rows, policy.encoding.n_outputs)
    np.testing.assert_allclose(expanded, plain, rtol=1e-4, atol=1e-5)

    past = formula(seen, bins)
    np.testing.assert_allclose(policy.moments.mean, past.mean(0), rtol=1e-4, atol=1e-5)
    mean, std = policy.moments.mean.astype(np.float32), policy.moments.std
    expected = np.clip((expanded - mean) * (1.0 / std).astype(np.float32), -MAX_NORMALISED, MAX_NORMALISED)
    np.testing.assert_array_equal(policy.normalise(torch.from_numpy(features)).numpy(), expected)


@pytest.mark.parametrize("n_features", [0, 1, 74])
def test_without_bins_all_is_as_torch_has_it(n_features):
    rng = np.random.default_rng(n_features)
    policy = QPolicy(
        seeing_policy(n_features=n_features).header if n_features == 0 else q_policy(n_features=n_features).header
    )
    seen = rng.normal(0.5, 2.0, (30, n_features)).astype(np.float32)
    policy.observe(seen)
    features = torch.from_numpy(rng.normal(0.5, 20.0, (64, n_features)).astype(np.float32))
    mean, std = torch.from_numpy(policy.moments.mean.astype(np.float32)), policy.moments.std
    expected = (features - mean).mul_(torch.from_numpy((1.0 / std).astype(np.float32))).clamp_(-10.0, 10.0)
    out = torch.empty_like(features)
    assert policy.normalise(features, out=out) is out
    assert torch.equal(out, expected)
    np.testing.assert_array_equal(policy.moments.mean, seen.mean(axis=0, dtype=np.float64))


def test_bins_are_1_at_their_centres_and_fall_off_by_their_distance():
    found = Encoding(2, [TIME]).expand(np.array([[9.0, 0.5]], np.float32))[0]
    np.testing.assert_allclose(
        found, [9.0, 0.5, np.exp(-0.5), 1.0, np.exp(-0.5), np.exp(-2.0), np.exp(-4.5)], rtol=1e-6
    )


def test_a_product_with_a_one_hot_is_a_table_of_what_when():
    found = Encoding(6, [PRODUCTS]).expand(np.array([[0.0, -1.0, 0.0, 0.0, 1.0, 0.0]], np.float32))[0, 6:]
    np.testing.assert_array_equal(found.reshape(3, 4) > 0.0, [[False] * 4, [True] * 4, [False] * 4])
    assert found.reshape(3, 4)[1].argmax() == 0


def test_what_never_happened_is_not_blown_up_without_end():
    policy = QPolicy(q_policy(network=network(PRODUCTS)).header)
    policy.observe(np.zeros((50, 6), np.float32))
    features = torch.ones((1, 6))
    assert policy.normalise(features)[0, 6:].max() == MAX_NORMALISED
    assert policy.normalise(torch.zeros((1, 6)))[0, 6:].abs().max() == 0.0


def test_many_rows_are_observed_as_few_are(monkeypatch):
    features = some_inputs(100, 6, 4)[0]
    whole, parts = (QPolicy(q_policy(network=network(TIME)).header) for _ in range(2))
    whole.observe(features)
    monkeypatch.setattr("soulslab.learn.rainbow.q_policy._OBSERVED_AT_ONCE", 7)
    parts.observe(features)
    np.testing.assert_allclose(parts.moments.var, whole.moments.var, rtol=1e-9)
    assert parts.moments.count == whole.moments.count == 100.0


def test_rows_of_a_replay_buffer_are_observed_as_they_stand():
    features = some_inputs(20, 6, 4)[0]
    rows = np.zeros(20, [("features", np.float32, (6,)), ("reward", np.float32)])
    rows["features"] = features
    policies = [q_policy(network=network(TIME, PRODUCTS)) for _ in range(2)]
    policies[0].observe(rows["features"])
    policies[1].observe(features)
    np.testing.assert_array_equal(policies[0].moments.mean, policies[1].moments.mean)


@pytest.mark.parametrize("bins", [(), (TIME,)])
def test_another_number_of_features_is_refused(bins):
    policy = q_policy(network=network(*bins))
    for shape in ((3, 5), (3, 7)):
        with pytest.raises(EnvironmentUsageError, match=rf"for 6 features was given an array of shape \({shape[0]}, "):
            policy.act(np.zeros(shape, np.float32))
        with pytest.raises(EnvironmentUsageError, match="for 6 features"):
            policy.observe(np.zeros(shape, np.float32))


# --- names and mistakes -------------------------------------------------------------------------------------


def test_names_become_numbers():
    bins = [
        BinsSettings(feature="speed", low=0, high=3, n=4, times="move="),
        BinsSettings(feature=4, low=0, high=3, n=4, times=(0, 1)),
        BinsSettings(feature="mover", low=0, high=3, n=4),
    ]
    found = resolve_bins(bins, 5, NAMES, "toys/Named-v0")
    assert [(each.feature, each.times) for each in found] == [(1, (2, 3)), (4, (0, 1)), (4, "")]
    assert resolve_bins(found, 5, (), "toys/Named-v0") == found
    assert resolve_bins((), 5, (), "toys/Named-v0") == ()


@pytest.mark.parametrize(
    ("change", "path", "message"),
    [
        ({"feature": "sped"}, ".feature", "toys/Named-v0 has no feature 'sped'; did you mean 'speed'?"),
        ({"times": "moved="}, ".times", "has no feature whose name starts with 'moved='; did you mean 'move"),
        ({"times": "m"}, None, None),
        ({"times": ""}, None, None),
        ({"feature": 5}, ".feature", "feature 5 does not exist: toys/Named-v0 has 5 features, counted from 0"),
        ({"feature": -1}, ".feature", "feature -1 does not exist"),
        ({"times": (3, 5)}, ".times", "feature 5 does not exist"),
        ({"times": (3, 2)}, ".times", "descends from 3 to 2; give the first and the last"),
        ({"low": 3.0}, "", r"low \(3\) must be less than high \(3\)"),
        ({"low": 4.0}, "", r"low \(4\) must be less than high \(3\)"),
        ({"low": 1e9, "high": 1e9 + 1}, "", "4 bins from 1e[+]09 to 1e[+]09 are too close together"),
        ({"low": -np.inf}, "", "4 bins from -inf to 3 are too close together for 32-bit numbers"),
        ({"high": 1e39}, "", "are too close together"),
        ({"low": -1.7e308, "high": 1.7e308}, "", "are too close together"),
    ],
)
def test_mistakes_are_told_with_their_place(change, path, message):
    bins = msgspec.structs.replace(BinsSettings(feature="speed", low=0.0, high=3.0, n=4), **change)
    if message is None:
        assert resolve_bins([bins], 5, NAMES, "toys/Named-v0")
        return
    with pytest.raises(ConfigError, match=message) as error:
        resolve_bins([TIME, bins], 5, NAMES, "toys/Named-v0")
    assert error.value.path == f"network.bins[1]{path}"


def test_features_that_are_multiplied_stand_side_by_side():
    bins = BinsSettings(feature=0, low=0.0, high=3.0, n=4, times="m")
    with pytest.raises(ConfigError, match=r"not consecutive: after 'move=low' \(0\) the next is 'mover' \(2\); give"):
        resolve_bins([bins], 3, ("move=low", "speed", "mover"), "toys/Named-v0")


@pytest.mark.parametrize("change", [{"feature": "speed"}, {"times": "move="}])
def test_an_environment_without_names_is_asked_for_numbers(change):
    bins = msgspec.structs.replace(TIME, **change)
    with pytest.raises(ConfigError, match=r"toys/Lights-v0 does not define names .* give the index of the feature"):
        resolve_bins([bins], 4, (), "toys/Lights-v0")
    with pytest.raises(ConfigError, match="but a policy file needs the index"):
        q_policy(network=network(bins))


def test_pixels_have_no_bins():
    with pytest.raises(ConfigError, match="feature 1 does not exist: toys/Dot-v0 has 0 features"):
        seeing_policy(network=network(TIME))


def test_bins_are_of_the_observation_and_extra_inputs_stand_behind_it():
    policy = q_policy(extras=MEMORY, network=network(TIME))
    assert policy.encoding.n_outputs == 6 + 2 * 4 + 1 + 5
    with pytest.raises(ConfigError, match="feature 6 does not exist: toys/Corridor-v0 has 6"):
        q_policy(extras=MEMORY, network=network(BinsSettings(feature=6, low=0.0, high=1.0, n=4)))


# --- policies -----------------------------------------------------------------------------------------------


@pytest.fixture
def policy():
    return q_policy(5, network=network(TIME, PRODUCTS))


@pytest.fixture
def path(policy, tmp_path):
    policy.save(tmp_path / "policy.safetensors")
    return tmp_path / "policy.safetensors"


def check_same_values(policy, other):
    assert other.header == policy.header
    inputs = Inputs(some_inputs(20, policy.header.n_inputs, 4)[0])
    assert torch.equal(other.values(inputs), policy.values(inputs))


def test_a_file_stands_alone(policy, path):
    check_same_values(policy, QPolicy.load(path))


def test_an_actor_elsewhere_gets_the_same(policy, tmp_path):
    write_header(tmp_path, policy.header)
    other = QPolicy(read_header(tmp_path, QHeader))
    other.load_weights(policy.weights())
    check_same_values(policy, other)
    assert torch.equal(policy.copy_network().parameters_flat, policy.network.parameters_flat)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"feature": 6}, r"malformed header: network.bins\[0\].feature: feature 6 does not exist"),
        ({"times": [0, 2**40]}, "feature 1099511627776 does not exist"),
        ({"feature": "boss_hp"}, "names 'boss_hp'"),
        ({"n": 1}, "malformed header: Expected `int` >= 2"),
        ({"centre": 1}, "unknown field `centre`"),
    ],
)
def test_a_file_of_other_features_is_refused(path, change, message):
    tensors, header = read_archive(path)
    header["network"]["bins"][0] |= change
    write_archive(path, tensors, header)
    with pytest.raises(CorruptCheckpointError, match=message):
        QPolicy.load(path)


def test_a_run_begins_with_the_same_bins_alone(policy, path):
    other = q_policy(6, network=network(TIME, PRODUCTS))
    start_from(other, path)
    check_same_values(policy, other)
    with pytest.raises(
        IncompatibleCheckpointError, match=r"has network.bins = \[\{feature = 1, low = 0.0, .* has \[\];"
    ):
        start_from(q_policy(), path)


def test_phases_see_each_its_own_bins(tmp_path):
    members = [q_policy(1, network=network(TIME)), q_policy(2), q_policy(3, network=network(PRODUCTS))]
    joined = PhasePolicy(members, Switch(feature=2, at_most=(0.5, -0.5)))
    features, mask = some_inputs(300, 6, 4)
    expected = np.choose(joined.switch.phases(features), [member.act(features, mask) for member in members])
    np.testing.assert_array_equal(joined.act(features, mask), expected)
    joined.save(tmp_path / "joined.safetensors")
    loaded = PhasePolicy.load(tmp_path / "joined.safetensors")
    assert loaded.header == joined.header
    np.testing.assert_array_equal(loaded.act(features, mask), expected)


# --- whole runs ---------------------------------------------------------------------------------------------


class StopAtFirst:
    """Ends a run, as a user would, once something was told."""

    def __init__(self, kind):
        self._kind = kind

    def write(self, message):
        if isinstance(message, self._kind):
            os.kill(os.getpid(), signal.SIGTERM)

    def close(self):
        pass


@pytest.fixture
def binned(corridor):
    """The corridor, each of whose cells is seen in bins too."""
    bins = (TIME, msgspec.structs.replace(PRODUCTS, times=(0, 5)))
    return msgspec.structs.replace(
        corridor,
        network=msgspec.structs.replace(corridor.network, bins=bins),
        run=msgspec.structs.replace(corridor.run, total_steps=2500),
    )


def newest(run_dir):
    return read_archive(sorted((run_dir / "checkpoints").iterdir())[-1])[0]


def test_a_run_learns_and_continues_bit_for_bit(binned, tmp_path):
    assert train(binned, tmp_path / "whole").win_rate == 1.0
    stopped = train(binned, tmp_path / "parts", sinks=[StopAtFirst(Evaluated)])
    assert stopped.reason is StopReason.INTERRUPTED
    train(binned, tmp_path / "parts", resume=True)
    expected, found = newest(tmp_path / "whole"), newest(tmp_path / "parts")
    for name, tensor in expected.items():
        assert found[name].tobytes() == tensor.tobytes(), name
    policy = QPolicy.load(tmp_path / "parts" / "policy.safetensors")
    assert policy.moments.mean.shape == (6 + 5 + 6 * 4,)
    settings = EvaluationSettings(env_id="toys/Corridor-v0", n_fights=20, n_envs=5)
    assert evaluate(policy, settings).win_rate == 1.0


def test_a_run_writes_numbers_in_place_of_names(binned, tmp_path):
    bins = BinsSettings(feature="boss_animation_duration", low=0.0, high=3.0, n=3, times="boss_animation=")
    settings = msgspec.structs.replace(
        binned,
        env=msgspec.structs.replace(binned.env, id=ARENA_ID),
        network=msgspec.structs.replace(binned.network, bins=(bins,)),
        run=msgspec.structs.replace(binned.run, total_steps=200, evaluate_every=0),
    )
    policy = QPolicy.load(train(settings, tmp_path / "run").policy_path)
    (found,) = policy.header.network.bins
    assert (found.feature, found.times) == (17, (49, 73))
    assert policy.encoding.n_outputs == 74 + 3 * 25
    other = msgspec.structs.replace(bins, feature="boss_animation")
    wrong = msgspec.structs.replace(settings, network=msgspec.structs.replace(settings.network, bins=(other,)))
    with pytest.raises(ConfigError, match=r"network.bins\[0\].feature: soulslab/Arena-v0 has no feature 'boss_anim"):
        train(wrong, tmp_path / "wrong")
    assert not (tmp_path / "wrong").exists()
