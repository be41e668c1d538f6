"""Rainbow with a recurrent layer: acting, learning from sequences, whole runs, files, and what is refused."""

import msgspec
import numpy as np
import pytest
import torch

from soulslab.errors import ConfigError, EnvironmentUsageError, IncompatibleCheckpointError
from soulslab.learn.actors.transition_actor import step_shape
from soulslab.learn.actors.transport import Weights
from soulslab.learn.environment import make_vector
from soulslab.learn.evaluate import EvaluationSettings, evaluate
from soulslab.learn.inputs import Inputs
from soulslab.learn.rainbow.local_actor import LocalActor
from soulslab.learn.rainbow.q_policy import QPolicy
from soulslab.learn.rainbow.q_targets import BLOCKED_VALUE
from soulslab.learn.rainbow.rainbow_settings import (
    BinsSettings,
    DemonstrationSettings,
    QLearningSettings,
    QNetworkSettings,
    RainbowEnvSettings,
    RainbowRunSettings,
    RainbowSettings,
)
from soulslab.learn.rainbow.recurrent_learner import RecurrentLearner, _burn_in, _Inputs
from soulslab.learn.replay.sequence_replay import SequenceReplay
from soulslab.learn.replay.step_rows import Outcome
from soulslab.learn.settings import ReplaySettings
from soulslab.learn.train import train
from support.policies import q_policy

N_UNITS, N_ENVS = 5, 3
NETWORK = QNetworkSettings(widths=(8,), n_quantiles=3, memory=N_UNITS)
REPLAY = ReplaySettings(capacity=600, alpha=1.0, sequence_steps=6, burn_in_steps=4)
LEARNER = QLearningSettings(batch_size=180, n_steps=2, gamma=0.9, max_grad_norm=1e9)


def play(policy, epsilon):
    """Return the rows of steps in the corridor, whose episodes win, lose or reach a time limit."""
    actor = LocalActor(make_vector("toys/Corridor-v0", N_ENVS, {}), q_policy(network=policy.header.network), 0)
    actor.begin(None, 0)
    actor.channel.publish(Weights(version=1, epsilon=epsilon, tensors=policy.weights()))
    for _ in range(150):
        actor.advance()
    rows = actor.channel.take()
    actor.close()
    return rows


def make_learner(settings=LEARNER, network=NETWORK):
    """Return a learner whose networks differ, and whose replay buffer holds steps of its policy."""
    policy = q_policy(network=network)
    replay = SequenceReplay(step_shape(policy.header), REPLAY, N_ENVS, settings.n_steps)
    replay.append(play(policy, 1.0))
    learner = RecurrentLearner(settings, REPLAY, policy, replay, np.random.default_rng(0))
    learner._target.parameters_flat.mul_(0.7)
    places = torch.from_numpy(replay.ring.beginnings())
    replay.set_priorities(places, torch.rand(len(places), generator=torch.Generator().manual_seed(1)))
    return learner


def unroll(network, learner, s):
    """Return the quantiles of each step of sequence s, computed one step after another."""
    batch, memory, found = learner._sequences, learner._sequences.memory[s : s + 1], []
    features = learner._policy.normalise(batch.features).view(learner._replay.length, -1, 6)
    for t in range(learner._replay.length):
        if t in (REPLAY.burn_in_steps, REPLAY.burn_in_steps + REPLAY.sequence_steps):
            memory = memory.detach()  # the gradient flows only through the learned steps
        if batch.is_first[t, s]:
            memory = torch.zeros_like(memory)
        seen, memory = network.see(features[t, s : s + 1], None, memory)
        found.append(network.estimate(seen)[0])
    return found


def target_of(settings, here, online, judge, blocked, returns):
    """Return the target for one step; ``here`` are values, forbidden actions and the action of the step."""
    reward, discount = returns
    if not settings.munchausen:
        chooser = online if settings.is_double else judge
        best = int(chooser.mean(1).masked_fill(blocked, BLOCKED_VALUE).argmax())
        return reward + discount * judge[best]
    tau = settings.munchausen_temperature
    before, following = (
        torch.log_softmax(values.mean(1).masked_fill(closed, BLOCKED_VALUE) / tau, 0)
        for values, closed in ((here[0], here[1]), (judge, blocked))
    )
    bonus = settings.munchausen * (tau * before[here[2]]).clamp(-1.0, 0.0)
    soft = (following.exp()[:, None] * (judge - tau * following[:, None]))[~blocked].sum(0)
    return reward + bonus + discount * soft


@pytest.mark.parametrize(
    ("settings", "network"),
    [
        (LEARNER, NETWORK),
        (msgspec.structs.replace(LEARNER, is_double=False), NETWORK),
        (msgspec.structs.replace(LEARNER, munchausen=0.9, munchausen_temperature=0.5), NETWORK),
        (LEARNER, msgspec.structs.replace(NETWORK, is_dueling=False, widths=(8, 7))),
    ],
    ids=["double", "plain", "munchausen", "two layers"],
)
def test_targets_gradients_and_priorities_are_those_of_a_loop(settings, network):
    learner = make_learner(settings, network)
    online, target, source = learner._policy.network, learner._target, learner._replay
    before = online.parameters_flat.clone(), target.parameters_flat.clone()
    measured = learner.update(0.0)
    found = online.gradients_flat.clone()
    online.parameters_flat.copy_(before[0])
    target.parameters_flat.copy_(before[1])
    online.gradients_flat.zero_()
    batch, n = learner._sequences, len(learner._sequences.places)
    n_known, losses, priorities, burn_in = int(batch.is_known.sum()), [], [], REPLAY.burn_in_steps
    assert n == 30 and n_known < len(batch.is_known)  # an episode was truncated
    assert len(set(batch.weights.tolist())) > 20
    blocked = batch.blocked.view(source.length, n, -1)
    for s in range(n):
        mine, other, errors = unroll(online, learner, s), [q.detach() for q in unroll(target, learner, s)], []
        for t in range(REPLAY.sequence_steps):
            row, here = t * n + s, burn_in + t
            if not batch.is_known[row]:
                continue
            end = burn_in + int(batch.ends[row]) // n
            action = int(batch.actions[row])
            present = (other[here], blocked[here, s], action)
            returns = batch.rewards[row], batch.discounts[row]
            goal = target_of(settings, present, mine[end].detach(), other[end], blocked[end, s], returns)
            u = goal[None, :] - mine[here][action][:, None]
            side = torch.where(u >= 0, online.taus[:, None], 1 - online.taus[:, None])
            huber = torch.where(u.abs() <= 1.0, 0.5 * u**2, u.abs() - 0.5)
            losses.append(batch.weights[s] * (side * huber).sum() / (n_known * len(online.taus)))
            errors.append((goal.mean() - mine[here][action].mean()).abs().item())
        priorities.append(REPLAY.eta * max(errors) + (1 - REPLAY.eta) * sum(errors) / len(errors))
    loss = sum(losses)
    loss.backward()
    assert measured.loss == pytest.approx(loss.item(), rel=1e-4)
    torch.testing.assert_close(found, online.gradients_flat, rtol=1e-3, atol=1e-6)
    assert float(online.memory.weight_hh.grad.abs().max()) > 0.0
    np.testing.assert_allclose(source.priorities(batch.places), priorities, rtol=1e-4)


def test_burn_in_gives_the_state_of_acting():
    learner = make_learner()
    batch, source, n_steps = learner._sequences, learner._replay, REPLAY.burn_in_steps
    source.draw(batch, gamma=0.9, beta=0.5, rng=np.random.default_rng(1))
    inputs = _Inputs(learner._policy.normalise(batch.features), None, batch.memory, batch.is_first)
    with torch.no_grad():
        found = _burn_in(learner._policy.network, inputs, n_steps)
    places = (batch.places + n_steps).numpy()
    rows = source.ring.rows[places]
    assert batch.is_first[1:n_steps].any()
    known = rows["is_first"] == 0  # the state is reset before the others
    np.testing.assert_allclose(found.numpy()[known], rows["memory"][known], atol=1e-6)


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_an_actor_carries_the_state_through_an_episode(epsilon):
    policy = q_policy(network=NETWORK)
    rows = play(policy, epsilon)
    assert Outcome.TERMINATED in rows["outcome"] and (Outcome.FINAL in rows["outcome"] or epsilon < 1.0)
    for stream in range(N_ENVS):
        memory = np.zeros((1, N_UNITS), np.float32)
        for row in rows[rows["stream"] == stream]:
            if row["is_first"]:
                memory[:] = 0.0
            np.testing.assert_allclose(row["memory"], memory[0], atol=1e-6)
            inputs = Inputs(row["features"][None], memory=memory, next_memory=np.empty_like(memory))
            policy.values(inputs)
            memory = inputs.next_memory
        assert memory.any()


def recall(total_steps, memory, seed=0):
    return RainbowSettings(
        env=RainbowEnvSettings(id="toys/Recall-v0", n_envs=4),
        learner=QLearningSettings(
            updates_per_step=0.25,
            learning_starts=200,
            lr=5e-3,
            n_steps=2,
            gamma=0.95,
            target_tau=0.02,
            average_tau=0.01,
            epsilon_end=0.05,
            epsilon_decisions=3000,
        ),
        replay=ReplaySettings(capacity=10_000, sequence_steps=8, burn_in_steps=2),
        network=QNetworkSettings(widths=(16,), n_quantiles=4, memory=memory),
        run=RainbowRunSettings(total_steps=total_steps, seed=seed, evaluate_every=0),
    )


def test_only_a_policy_with_memory_learns_to_recall(tmp_path):
    for memory, is_good in ((16, lambda won: won == 1.0), (0, lambda won: won < 0.7)):  # one of two cues is a guess
        result = train(recall(2000, memory), tmp_path / str(memory))
        policy = QPolicy.load(result.policy_path)
        assert is_good(evaluate(policy, EvaluationSettings(env_id="toys/Recall-v0", n_fights=200)).mean_return)


def test_a_policy_file_holds_the_recurrent_layer(tmp_path):
    policy = q_policy(network=NETWORK)
    policy.save(tmp_path / "policy.safetensors")
    loaded = QPolicy.load(tmp_path / "policy.safetensors")
    assert loaded.header == policy.header and loaded.header.version == 2
    rng = np.random.default_rng(0)
    features, memory = rng.normal(size=(4, 6)).astype(np.float32), rng.normal(size=(4, N_UNITS)).astype(np.float32)
    one, other = (Inputs(features, memory=memory, next_memory=np.zeros_like(memory)) for _ in range(2))
    assert torch.equal(policy.values(one), loaded.values(other))
    np.testing.assert_array_equal(one.next_memory, other.next_memory)
    view = policy.view(one.select(slice(1)), np.ones(4, np.bool_), 1)
    np.testing.assert_allclose(view.scores, policy.values(one)[0], atol=1e-6)
    np.testing.assert_allclose(view.hidden[0], one.next_memory[0], atol=1e-6)


def test_observations_without_their_history_are_refused():
    policy = q_policy(network=NETWORK)
    with pytest.raises(EnvironmentUsageError, match=r"network\.memory = 5 needs to know the observations before"):
        policy.act(np.zeros((2, 6), np.float32))


def test_a_run_does_not_start_from_a_policy_without_memory(tmp_path):
    q_policy(env_id="toys/Recall-v0", n_features=3, n_actions=2).save(tmp_path / "other.safetensors")
    settings = recall(400, 16)
    run = msgspec.structs.replace(settings.run, start_from=str(tmp_path / "other.safetensors"))
    settings = msgspec.structs.replace(
        settings,
        run=run,
        network=QNetworkSettings(widths=(8,), n_quantiles=3, channels=(4,), memory=16),
    )
    with pytest.raises(IncompatibleCheckpointError, match=r"has network\.memory = 0, but this run has 16"):
        train(settings, tmp_path / "run")


class Fleet:
    """Actors on other machines; none is ever opened."""

    def open_actor(self, *_):
        raise AssertionError("the run was not refused")


@pytest.mark.parametrize(
    ("changes", "is_fleet", "named"),
    [
        ({"demonstrations": DemonstrationSettings(path="shown")}, False, "demonstrations.path:"),
        ({"run": RainbowRunSettings(actor="apart")}, False, "run.actor = 'apart':"),
        ({}, True, "a fleet:"),
        (
            {"demonstrations": DemonstrationSettings(path="shown"), "run": RainbowRunSettings(actor="apart")},
            False,
            "demonstrations.path and run.actor = 'apart':",
        ),
    ],
)
def test_steps_without_a_state_are_refused(changes, is_fleet, named, tmp_path):
    settings = msgspec.structs.replace(recall(400, 16), **changes)
    with pytest.raises(ConfigError, match=rf"network\.memory: cannot be combined with {named}.*; set it to 0, or use"):
        train(settings, tmp_path / "run", fleet=Fleet() if is_fleet else None)


def test_a_replay_buffer_without_room_for_a_sequence_is_refused(tmp_path):
    settings = recall(400, 16)
    settings = msgspec.structs.replace(settings, replay=msgspec.structs.replace(settings.replay, capacity=40))
    with pytest.raises(ConfigError, match=r"replay\.capacity: .*a sequence with network\.memory needs 12"):
        train(settings, tmp_path / "run")


def test_hidden_features_and_their_bins_do_not_change_the_policy(tmp_path):
    names = tuple(f"cell_{i}" for i in range(6))
    bins = (
        BinsSettings(feature=1, low=-1.0, high=1.0, n=3),
        BinsSettings(feature=0, low=-1.0, high=1.0, n=3, times=(1, 2)),
    )
    network = QNetworkSettings(widths=(8,), n_quantiles=3, bins=bins, hidden_features=("cell_1", "cell_4"))
    policy = q_policy(network=network, feature_names=names)
    policy.save(tmp_path / "policy.safetensors")
    seen = np.ones((1, 6), np.float32)
    for one in (policy, QPolicy.load(tmp_path / "policy.safetensors"), QPolicy(policy.header)):
        before = one.values(Inputs(seen))
        for feature in range(6):
            for number in (-7.0, np.nan):
                other = seen.copy()
                other[0, feature] = number
                assert torch.equal(one.values(Inputs(other)), before) == (feature in (1, 4))
    with pytest.raises(ConfigError, match="no feature 'cell_9'"):
        q_policy(network=msgspec.structs.replace(network, hidden_features=("cell_9",)), feature_names=names)
