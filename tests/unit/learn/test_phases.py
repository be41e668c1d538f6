"""Policies that take turns: whose turn it is, what they do, and what a file of them holds."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulslab.errors import CheckpointError, ConfigError, CorruptCheckpointError, IncompatibleCheckpointError
from soulslab.learn.archive import read_archive, write_archive
from soulslab.learn.evaluate import EvaluationSettings, evaluate
from soulslab.learn.inputs import Inputs
from soulslab.learn.phases import PhasePolicy, Switch
from soulslab.version import VERSION
from support.policies import MEMORY, actor_critic, q_policy, seeing_policy, some_inputs

SWITCH = Switch(feature=2, at_most=(0.5,), name="boss_hp")


@pytest.fixture
def members():
    """One of each kind."""
    first = actor_critic(1, env_options={"phase": 1, "boss": "judge"}, n_envs=8)
    return first, q_policy(2, env_options={"phase": 2, "boss": "judge"}, n_envs=1)


@pytest.fixture
def policy(members):
    return PhasePolicy(members, SWITCH, {"phase": "full"})


@pytest.fixture
def path(policy, tmp_path):
    policy.save(tmp_path / "judge.safetensors")
    return tmp_path / "judge.safetensors"


# --- the switch ---------------------------------------------------------------------------------------------


@given(
    values=st.lists(st.floats(-2.0, 2.0, width=32), max_size=20),
    thresholds=st.lists(st.floats(-2.0, 2.0, width=32), min_size=1, max_size=4, unique=True),
)
def test_the_phase_is_the_last_whose_threshold_is_reached(values, thresholds):
    falling = sorted(thresholds, reverse=True)
    features = np.zeros((len(values), 3), np.float32)
    features[:, 1] = values
    switch = Switch(feature=1, at_most=tuple(falling))
    switch.check(len(falling) + 1, 3)
    expected = [max([0, *(i + 1 for i, least in enumerate(falling) if value <= least)]) for value in values]
    assert switch.phases(features).tolist() == expected


def test_the_threshold_itself_belongs_to_the_next_phase():
    shares = np.array([[311 / 1037], [0.3], [300 / 1000], [0.301]], np.float32)  # float32 has no 0.3
    assert Switch(feature=0, at_most=(0.3,)).phases(shares).tolist() == [1, 1, 1, 0]


@pytest.mark.parametrize(
    ("switch", "n_members", "message"),
    [
        (Switch(feature=0, at_most=()), 1, "switch.at_most: has 0 thresholds for 1 policies"),
        (Switch(feature=0, at_most=(0.5,)), 3, "switch.at_most: has 1 thresholds for 3 policies; give one for each"),
        (Switch(feature=0, at_most=(0.3, 0.5)), 3, "must be finite and descend from phase to phase, but are 0.3, 0.5"),
        (Switch(feature=0, at_most=(0.5, 0.5)), 3, "must be finite and descend"),
        (Switch(feature=0, at_most=(float("nan"),)), 2, "must be finite and descend"),
        (
            Switch(feature=6, at_most=(0.5,)),
            2,
            "switch.feature: feature 6 does not exist: the policies have 6",
        ),
        (Switch(feature=-1, at_most=(0.5,)), 2, "feature -1 does not exist"),
    ],
)
def test_a_switch_that_does_not_fit_is_refused(switch, n_members, message):
    with pytest.raises(ConfigError, match=message):
        PhasePolicy([q_policy(seed) for seed in range(n_members)], switch)


def test_the_extra_inputs_are_no_features_to_switch_on():
    with pytest.raises(ConfigError, match="feature 6 does not exist: the policies have 6 features"):
        PhasePolicy([q_policy(1, extras=MEMORY), q_policy(2, extras=MEMORY)], Switch(feature=6, at_most=(0.5,)))


# --- acting -------------------------------------------------------------------------------------------------


def test_each_observation_is_answered_by_the_policy_of_its_phase(policy, members):
    features, mask = some_inputs(300, 6, 4)
    is_second = features[:, 2] <= 0.5
    assert 0 < is_second.sum() < 300
    expected = np.where(is_second, members[1].act(features, mask), members[0].act(features, mask))
    np.testing.assert_array_equal(policy.act(features, mask), expected)
    np.testing.assert_array_equal(policy.act(Inputs(features), mask), expected)
    free = np.where(is_second, members[1].act(features), members[0].act(features))
    np.testing.assert_array_equal(policy.act(features), free)
    assert policy.act(np.zeros((0, 6), np.float32)).shape == (0,)


@pytest.mark.parametrize("deterministic", [True, False])
def test_no_mask_is_violated(policy, deterministic):
    features, mask = some_inputs(50_000, 6, 4)
    actions = policy.act(features, mask, deterministic=deterministic)
    assert mask[np.arange(len(mask)), actions].all()


def test_draws_repeat_with_the_seed(policy):
    features, mask = some_inputs(1000, 6, 4)
    policy.seed(3)
    drawn = policy.act(features, mask, deterministic=False)
    assert (policy.act(features, mask, deterministic=False) != drawn).any()
    policy.seed(3)
    np.testing.assert_array_equal(policy.act(features, mask, deterministic=False), drawn)


def test_one_observation_gives_one_action(policy):
    features, mask = some_inputs(2, 6, 4)
    assert policy.act(features[0], mask[0]).shape == ()
    assert int(policy.act(features[0], mask[0])) == int(policy.act(features, mask)[0])


def test_pixels_and_extra_inputs_go_where_they_belong():
    members = [seeing_policy(seed, n_features=1, extras=MEMORY) for seed in (1, 2)]
    policy = PhasePolicy(members, Switch(feature=0, at_most=(0.5,)))
    rng = np.random.default_rng(0)
    inputs = Inputs(
        rng.random((40, members[0].header.n_inputs), np.float32),
        rng.integers(256, size=(40, 24, 24, 2), dtype=np.uint8),
    )
    is_second = inputs.features[:, 0] <= 0.5
    expected = np.where(is_second, members[1].act(inputs), members[0].act(inputs))
    np.testing.assert_array_equal(policy.act(inputs), expected)


def test_a_policy_joined_to_itself_plays_as_it_does_alone():
    alone = q_policy(4)
    joined = PhasePolicy([alone, q_policy(4), q_policy(4)], Switch(feature=3, at_most=(0.5, -0.5)))
    settings = EvaluationSettings(env_id="toys/Corridor-v0", n_fights=60, n_envs=20)
    assert evaluate(joined, settings) == evaluate(alone, settings)


def test_evaluation_lets_each_play_its_part():
    # Cell 0 is the second one's, who falls off to the left there; the first goes left wherever it may not jump.
    first, second = q_policy(1), q_policy(2)
    first.network.parameters_flat.zero_()
    second.network.parameters_flat.zero_()
    joined = PhasePolicy([first, second], Switch(feature=1, at_most=(0.5,)))
    found = evaluate(joined, EvaluationSettings(env_id="toys/Corridor-v0", n_fights=20, n_envs=20))
    assert (found.n_wins, found.n_fights) == (0, 20)


# --- what it says of itself ---------------------------------------------------------------------------------


def test_the_header_describes_all_policies(policy, members):
    header = policy.header
    assert header.env_options == {"phase": "full", "boss": "judge"}
    assert (header.env_steps, header.n_envs, header.soulslab) == (1100, 8, VERSION)
    assert (header.env_id, header.n_features, header.n_actions) == ("toys/Corridor-v0", 6, 4)
    assert [each["format"] for each in header.members] == ["soulslab-policy", "soulslab-action-values"]
    assert header.switch == SWITCH


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"env_id": "toys/Corridor-v1"},
            "policy 2: has env_id toys/Corridor-v1, but policy 1 has toys/Corridor-v0; pol",
        ),
        ({"n_features": 7}, "has n_features 7, but policy 1 has 6"),
        ({"n_actions": 5}, "has n_actions 5, but policy 1 has 4"),
        ({"extras": MEMORY}, r"has extras ExtraInputs\(previous_actions=2, .*train them on the same environment with"),
    ],
)
def test_policies_that_see_or_do_different_things_are_refused(changes, message):
    with pytest.raises(IncompatibleCheckpointError, match=message):
        PhasePolicy([q_policy(1), q_policy(2, **changes)], SWITCH)


def test_policies_that_look_at_other_pixels_are_refused():
    switch = Switch(feature=0, at_most=(0.5,))
    with pytest.raises(IncompatibleCheckpointError, match="has frame_stack 3, but policy 1 has 2"):
        PhasePolicy([seeing_policy(1, n_features=1), seeing_policy(2, n_features=1, frame_stack=3)], switch)


# --- files --------------------------------------------------------------------------------------------------


def test_what_is_loaded_is_what_was_saved(policy, path):
    loaded = PhasePolicy.load(path)
    assert loaded.header == policy.header
    assert loaded.switch == SWITCH
    assert [type(member) for member in loaded.members] == [type(member) for member in policy.members]
    ours, theirs = policy.state(), loaded.state()
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_array_equal(theirs[name], array, err_msg=name)
    features, mask = some_inputs(300, 6, 4)
    np.testing.assert_array_equal(loaded.act(features, mask), policy.act(features, mask))


def test_where_it_comes_from_is_what_the_file_says(path):
    tensors, header = read_archive(path)
    write_archive(path, tensors, header | {"soulslab": "0.0.1", "commit": "elsewhere"})
    loaded = PhasePolicy.load(path).header
    assert (loaded.soulslab, loaded.commit) == ("0.0.1", "elsewhere")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"format": "soulslab-policy"}, IncompatibleCheckpointError, "format 'soulslab-policy' version 1; this soul"),
        (
            {"version": 2},
            IncompatibleCheckpointError,
            "version 2; this soulslab reads 'soulslab-phase-policy' version 1",
        ),
        ({"n_features": 7}, CorruptCheckpointError, "it does not match the policies in the file"),
        ({"env_steps": 3}, CorruptCheckpointError, "it does not match the policies"),
        ({"switch": {"feature": 9, "at_most": [0.5]}}, CorruptCheckpointError, "feature 9 does not exist"),
        ({"switch": {"feature": 2, "at_most": []}}, CorruptCheckpointError, "has 0 thresholds for 2 policies"),
        ({"switch": {"feature": 2, "below": [0.5]}}, CorruptCheckpointError, "unknown field|missing required field"),
        ({"members": []}, CorruptCheckpointError, "Expected `array` of length >= 2"),
        (
            {"members": [{"format": "soulslab-phase-policy"}] * 2},
            IncompatibleCheckpointError,
            "reads 'soulslab-policy'",
        ),
        ({"new": 1}, CorruptCheckpointError, "unknown field `new`"),
    ],
)
def test_every_field_of_the_header_is_checked(path, change, error, message):
    tensors, header = read_archive(path)
    write_archive(path, tensors, header | change)
    with pytest.raises(error, match=message):
        PhasePolicy.load(path)


def test_the_tensors_of_every_policy_are_checked(path):
    tensors, header = read_archive(path)
    missing = next(name for name in tensors if name.startswith("1/network/"))
    del tensors[missing]
    write_archive(path, tensors, header)
    with pytest.raises(IncompatibleCheckpointError, match="parameters, but the file holds"):
        PhasePolicy.load(path)


def test_altered_and_other_files_are_refused(path, members, tmp_path):
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptCheckpointError, match="has been altered: its SHA-256"):
        PhasePolicy.load(path)
    members[1].save(path)
    with pytest.raises(IncompatibleCheckpointError, match="has format 'soulslab-action-values' version 2"):
        PhasePolicy.load(path)
    with pytest.raises(CheckpointError, match="nothing: cannot be read"):
        PhasePolicy.load(tmp_path / "nothing")


def test_members_of_older_files_that_lack_a_field_are_read(path):
    tensors, header = read_archive(path)
    header["members"][1].pop("temperature")
    write_archive(path, tensors, header)
    assert msgspec.convert(PhasePolicy.load(path).members[1].header.temperature, float) == 0.03
