"""Policies that remember: PPO with a recurrent layer, and features that a policy does not see."""

import re

import msgspec
import numpy as np
import pytest
import torch

from soulslab.errors import ConfigError, EnvironmentUsageError, IncompatibleCheckpointError
from soulslab.learn.environment import layout, make_vector
from soulslab.learn.evaluate import EvaluationSettings, evaluate
from soulslab.learn.inputs import Inputs, Observer
from soulslab.learn.live_feed import LiveFeed
from soulslab.learn.phases import PhasePolicy, Switch
from soulslab.learn.policy import ActorCritic, Policy, PolicyHeader, count_parameters
from soulslab.learn.ppo.ppo_algorithm import PPO
from soulslab.learn.ppo.rollout import Collector
from soulslab.learn.settings import EnvSettings, NetworkSettings, PPOSettings, RunSettings, TrainSettings
from soulslab.learn.train import train
from support.toys import N_CUES

RECALL = "toys/Recall-v0"
N_UNITS = 16


def make_policy(**network):
    header = PolicyHeader(
        env_id=RECALL,
        env_options={},
        n_features=N_CUES + 1,
        n_actions=N_CUES,
        feature_names=("cue_0", "cue_1", "time"),
        network=NetworkSettings(**{"widths": (16,), "memory": N_UNITS, **network}),
        soulslab="",
        commit="",
    )
    return Policy(header)


def settings(total_steps, **network):
    return TrainSettings(
        env=EnvSettings(id=RECALL, n_envs=16),
        learner=PPOSettings(n_steps=16, minibatch_size=64, lr=1e-2, entropy=0.02, entropy_end=0.0),
        network=NetworkSettings(widths=(16,), **network),
        run=RunSettings(total_steps=total_steps),
    )


def wins(policy):
    return evaluate(policy, EvaluationSettings(env_id=RECALL, n_fights=200)).mean_return


@pytest.fixture(scope="module")
def remembering(tmp_path_factory):
    """The folder of a run whose policy has learned to remember."""
    folder = tmp_path_factory.mktemp("recall") / "run"
    train(settings(6_000, memory=N_UNITS, shared=True), folder)
    return folder


def test_only_a_policy_with_memory_learns_to_recall(remembering, tmp_path):
    assert wins(Policy.load(remembering / "policy.safetensors")) == 1.0
    train(settings(6_000), tmp_path / "run")
    assert wins(Policy.load(tmp_path / "run" / "policy.safetensors")) < 0.7  # one of two cues is a guess


def test_a_stopped_run_is_resumed_bit_for_bit(corridor, tmp_path):
    whole = msgspec.structs.replace(
        corridor,
        network=NetworkSettings(widths=(16,), memory=N_UNITS),
        run=msgspec.structs.replace(corridor.run, total_steps=2000),
    )
    train(whole, tmp_path / "whole")
    short = msgspec.structs.replace(whole, run=msgspec.structs.replace(whole.run, max_seconds=1e-9))
    assert train(short, tmp_path / "parts").env_steps < 1000
    train(whole, tmp_path / "parts", resume=True)
    one, other = (Policy.load(tmp_path / name / "policy.safetensors").state() for name in ("whole", "parts"))
    assert any("memory" in name for name in one)
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_a_watched_run_learns_the_same(tmp_path):
    watching = LiveFeed(tmp_path / "feed.json")
    watching.is_watched = True
    for name, sinks in (("alone", []), ("watched", [watching])):
        train(settings(2000, memory=N_UNITS), tmp_path / name, sinks=sinks)
    one, other = (Policy.load(tmp_path / name / "policy.safetensors").state() for name in ("alone", "watched"))
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_a_display_of_a_decision_does_not_change_the_memory():
    rng = np.random.default_rng(0)
    memory = rng.normal(size=(1, N_UNITS)).astype(np.float32)
    inputs = Inputs(np.ones((1, N_CUES + 1), np.float32), memory=memory, next_memory=np.full_like(memory, 7.0))
    policy, mask = make_policy(), np.ones(N_CUES, np.bool_)
    view = policy.view(inputs, mask, 0)
    assert (inputs.next_memory == 7.0).all()
    policy.act(inputs, mask)
    np.testing.assert_allclose(view.hidden[0], inputs.next_memory[0], atol=1e-6)


def test_the_steps_of_a_rollout_are_unrolled_as_they_were_played():
    env = make_vector(RECALL, 6, {})
    policy, generator = make_policy(), torch.Generator().manual_seed(0)
    collector = Collector(env, 0.9, n_memory=N_UNITS)
    collector.reset(1)
    learner = PPO(PPOSettings(n_steps=10, n_epochs=1, minibatch_size=30), policy, 6, generator)
    for _ in range(2):  # episodes last five steps; the second rollout begins within one
        learner.collect(collector)
        rollout = learner._rollout
        batch = rollout.select_environments(torch.tensor([4, 1]))
        assert batch.obs.shape == (10, 2, N_CUES + 1)
        assert batch.is_first.any()
        with torch.no_grad():
            logits, values = policy.network.unroll(batch.obs, None, batch.memory, batch.is_first)
        log_probs = torch.log_softmax(logits, -1).gather(-1, batch.actions).squeeze(-1)
        torch.testing.assert_close(log_probs, batch.log_probs)
        seen = rollout.values[:-1][:, [4, 1]]
        moments = policy.value_moments
        np.testing.assert_allclose(values.numpy() * float(moments.std) + float(moments.mean), seen, atol=1e-5)
    assert learner.update(0.0, 1).grad_norm > 0.0
    env.close()


def test_a_decision_is_shown_as_it_was_made():
    policy = make_policy()
    env = make_vector(RECALL, 3, {})
    observer = Observer(layout(env), 3, n_memory=N_UNITS)
    obs, _ = env.reset(seed=1)
    observer.begin(obs)
    for _ in range(3):
        mask = np.ones((3, N_CUES), np.bool_)
        actions = policy.act(observer.inputs, mask)
        following = observer.inputs.next_memory.copy()
        probabilities = policy.scores(observer.inputs).numbers
        view = policy.view(observer.inputs.select(slice(1)), mask[0], int(actions[0]))
        np.testing.assert_allclose(view.scores, probabilities[0], atol=1e-6)
        np.testing.assert_allclose(view.hidden[0], following[0], atol=1e-6)
        np.testing.assert_allclose(observer.inputs.next_memory, following, atol=1e-6)
        obs, _, terminated, truncated, _ = env.step(actions)
        observer.follow(obs, terminated | truncated, actions, np.ones(3, np.int64))
    env.close()


def test_an_observer_keeps_the_memory_of_each_episode():
    env = make_vector(RECALL, 3, {})
    observer = Observer(layout(env), 3, n_memory=2)
    observer.begin(env.reset(seed=1)[0])
    observer.inputs.next_memory[:] = [[1, 2], [3, 4], [5, 6]]
    last = observer.final(np.zeros((3, N_CUES + 1)), np.array([2]), np.zeros(3, np.int64), np.ones(3, np.int64))
    assert last.memory.tolist() == [[5, 6]]
    dones = np.array([False, True, False])
    observer.follow(np.zeros((3, N_CUES + 1)), dones, np.zeros(3, np.int64), np.ones(3, np.int64))
    assert observer.inputs.memory.tolist() == [[1, 2], [0, 0], [5, 6]]
    other = Observer(layout(env), 3, n_memory=2)
    other.load(observer.state())
    assert other.inputs.memory.tolist() == observer.inputs.memory.tolist()
    observer.begin(env.reset(seed=2)[0])
    assert not observer.inputs.memory.any()
    env.close()


@pytest.mark.parametrize("shared", [True, False])
def test_parameters_are_counted_without_building_the_network(shared):
    chosen = NetworkSettings(memory=7, shared=shared, widths=(5, 4))
    network = ActorCritic(3, 2, chosen, torch.Generator().manual_seed(0), pixels=(40, 40, 1))
    assert sum(each.numel() for each in network.parameters()) == count_parameters(3, 2, chosen, (40, 40, 1))


def test_observations_without_their_history_are_refused():
    policy = make_policy()
    with pytest.raises(EnvironmentUsageError, match=r"network\.memory = 16 needs to know the observations before"):
        policy.act(np.zeros((2, N_CUES + 1), np.float32))
    with pytest.raises(EnvironmentUsageError, match="inputs of an Observer with this memory"):
        policy.scores(Inputs(np.zeros((2, N_CUES + 1), np.float32)))


def test_policies_with_memory_are_not_joined():
    members = [make_policy(memory=0), make_policy()]
    with pytest.raises(IncompatibleCheckpointError, match=r"second: remembers earlier observations \(network.memory\)"):
        PhasePolicy(members, Switch(feature=0, at_most=(0.5,)), names=["first", "second"])


def test_hidden_features_do_not_change_the_policy(tmp_path):
    policy = make_policy(memory=0, hidden_features=("cue_1",))
    policy.observe(np.random.default_rng(1).normal(2.0, 3.0, (50, N_CUES + 1)).astype(np.float32))
    policy.save(tmp_path / "policy.safetensors")
    seen = np.ones((1, N_CUES + 1), np.float32)
    for one in (policy, Policy.load(tmp_path / "policy.safetensors")):
        before = one.scores(Inputs(seen)).numbers
        other, known = seen.copy(), seen.copy()
        known[0, 0] = -7.0
        for other[0, 1] in (-7.0, np.nan):
            assert (one.scores(Inputs(other)).numbers == before).all()
        assert (one.scores(Inputs(known)).numbers != before).any()
    with pytest.raises(ConfigError, match="no feature 'cue_9'"):
        make_policy(hidden_features=("cue_9",))
    assert make_policy(hidden_features=("time", "cue_*")).header.find_hidden_features() == [0, 1, 2]
    with pytest.raises(ConfigError, match="no feature that begins with 'clue_'"):
        make_policy(hidden_features=("clue_*",))


@pytest.mark.parametrize("name", ["*", "cue_1"])
def test_features_without_names_cannot_be_hidden(name):
    header = make_policy(hidden_features=(name,)).header
    message = f"network.hidden_features: .* does not define names of its features, so '{re.escape(name)}' .* remove it"
    with pytest.raises(ConfigError, match=message):
        Policy(msgspec.structs.replace(header, feature_names=()))
