"""A run that begins with the weights of another policy."""

import msgspec
import numpy as np
import pytest

from soulslab.errors import CheckpointError, IncompatibleCheckpointError
from soulslab.learn.inputs import ExtraInputs
from soulslab.learn.phases import PhasePolicy, Switch
from soulslab.learn.players import start_from
from soulslab.learn.rainbow.q_policy import QPolicy
from soulslab.learn.rainbow.rainbow_settings import (
    QLearningSettings,
    QNetworkSettings,
    RainbowRunSettings,
    RainbowSettings,
)
from soulslab.learn.settings import EnvSettings
from soulslab.learn.telemetry import FightStats
from soulslab.learn.train import train
from support.message_sink import MessageSink
from support.policies import MEMORY, SMALL, actor_critic, q_policy, seeing_policy

# No update is ever made, so that what was begun with is what is left.
SETTINGS = RainbowSettings(
    env=EnvSettings(id="toys/Corridor-v0", n_envs=4),
    learner=QLearningSettings(learning_starts=1_000_000, epsilon_end=0.0),
    network=SMALL,
    run=RainbowRunSettings(total_steps=200, evaluate_every=0),
)


@pytest.fixture
def start(tmp_path):
    """The folder of a run that has left a policy."""
    (tmp_path / "before").mkdir()
    q_policy(9).save(tmp_path / "before" / "policy.safetensors")
    return tmp_path / "before"


def begun_from(path, **run):
    return msgspec.structs.replace(SETTINGS, run=msgspec.structs.replace(SETTINGS.run, start_from=str(path), **run))


def network_of(policy):
    return {name: array for name, array in policy.state().items() if name.startswith("network/")}


@pytest.mark.parametrize("file", ["", "policy.safetensors"])
def test_the_run_begins_with_the_weights_and_the_moments(start, file, tmp_path):
    result = train(begun_from(start / file), tmp_path / "run")
    before, after = q_policy(9), QPolicy.load(result.policy_path)
    for name, array in network_of(before).items():
        np.testing.assert_array_equal(network_of(after)[name], array, err_msg=name)
    assert after.moments.count > before.moments.count == 50.0
    assert after.header.env_steps == result.env_steps  # its own, not those of the policy before


def test_without_it_the_run_begins_with_weights_of_its_own(start, tmp_path):
    after = QPolicy.load(train(SETTINGS, tmp_path / "run").policy_path)
    assert any((array != network_of(q_policy(9))[name]).any() for name, array in network_of(after).items())


@pytest.mark.parametrize("is_started", [True, False])
def test_the_policy_acts_before_the_first_update(is_started, tmp_path):
    policy = q_policy()
    policy.network.parameters_flat.zero_()  # of equal values the first is best: to the left, and off
    policy.save(tmp_path / "policy.safetensors")
    sink = MessageSink()
    settings = begun_from(tmp_path / "policy.safetensors") if is_started else SETTINGS
    train(settings, tmp_path / "run", sinks=[sink])
    stats = [message for message in sink.messages if isinstance(message, FightStats)]
    assert stats
    assert all((message.action_shares == (1.0, 0.0, 0.0, 0.0)) == is_started for message in stats)


def test_a_resumed_run_does_not_begin_again(start, tmp_path):
    settings = begun_from(start)
    first = QPolicy.load(train(settings, tmp_path / "run").policy_path)
    (start / "policy.safetensors").unlink()  # it is not needed any more
    longer = begun_from(start, total_steps=400)
    second = QPolicy.load(train(longer, tmp_path / "run", resume=True).policy_path)
    assert second.moments.count > first.moments.count
    assert second.header.env_steps >= 400


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (actor_critic(), "is not a policy of the format 'soulslab-action-values', which run.start_from needs"),
        (
            PhasePolicy([q_policy(1), q_policy(2)], Switch(feature=0, at_most=(0.5,))),
            "is not a policy of the format",
        ),
        (q_policy(env_id="toys/Lights-v0"), "was trained on toys/Lights-v0, not on toys/Corridor-v0"),
        (q_policy(n_features=7), "has 7 features, but toys/Corridor-v0 has 6"),
        (q_policy(n_actions=5), "has 5 actions, but toys/Corridor-v0 has 4"),
        (q_policy(extras=MEMORY), r"has inputs.previous_actions = 2, but this run has 0; use the value of the pol"),
        (q_policy(extras=ExtraInputs(time_left_decisions=9)), "has inputs.time_left_decisions = 9, but this run has 0"),
        (
            q_policy(network=QNetworkSettings(widths=(16,), n_quantiles=3)),
            r"has network.widths = \(16,\), but this run has \(8,\)",
        ),
        (
            q_policy(network=QNetworkSettings(widths=(8,), n_quantiles=3, is_dueling=False)),
            "has network.is_dueling = False, but this run has True",
        ),
        (seeing_policy(), "was trained on toys/Dot-v0"),
    ],
    ids=lambda each: each[:40] if isinstance(each, str) else type(each).__name__,
)
def test_a_policy_that_does_not_fit_is_refused_before_anything_is_written(other, message, tmp_path):
    path = tmp_path / "other.safetensors"
    other.save(path)
    with pytest.raises(IncompatibleCheckpointError, match=f"other.safetensors: {message}"):
        train(begun_from(path), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_pixels_have_to_fit(tmp_path):
    path = tmp_path / "other.safetensors"
    seeing_policy(frame_stack=3).save(path)
    with pytest.raises(IncompatibleCheckpointError, match=r"has env.frame_stack = 3, but this run has 2"):
        start_from(seeing_policy(), path)
    other_eye = QNetworkSettings(widths=(8,), n_quantiles=3, channels=(8,))
    seeing_policy(network=other_eye).save(path)
    with pytest.raises(IncompatibleCheckpointError, match=r"has network.channels = \(8,\), but this run has \(4,\)"):
        start_from(seeing_policy(), path)


def test_channels_do_not_matter_without_pixels(tmp_path):
    q_policy(3, network=QNetworkSettings(widths=(8,), n_quantiles=3, channels=(8,))).save(tmp_path / "other")
    policy = q_policy(4)
    start_from(policy, tmp_path / "other")
    np.testing.assert_array_equal(policy.weights()["parameters"], q_policy(3).weights()["parameters"])


def test_the_same_fight_behind_another_door_will_do(tmp_path):
    q_policy(3, env_id="toys/Corridor-v0").save(tmp_path / "other")
    live = q_policy(4, env_id="toys/CorridorLive-v0")
    start_from(live, tmp_path / "other", alike=("toys/Corridor-v0",))
    assert live.header.env_id == "toys/CorridorLive-v0"
    np.testing.assert_array_equal(live.moments.mean, q_policy(3).moments.mean)


def test_no_such_file(tmp_path):
    with pytest.raises(CheckpointError, match="nothing: does not exist"):
        train(begun_from(tmp_path / "nothing"), tmp_path / "run")
