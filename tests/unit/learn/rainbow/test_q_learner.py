"""The learner: every variant solves a problem whose values are known; schedules, exact resume."""

import msgspec
import numpy as np
import pytest
import torch

from soulslab.errors import NonFinitePriorityError
from soulslab.learn.rainbow.q_learner import Learner
from soulslab.learn.rainbow.q_policy import QHeader, QPolicy
from soulslab.learn.rainbow.rainbow_settings import QLearningSettings, QNetworkSettings
from soulslab.learn.replay.replay_buffer import ReplayBuffer
from soulslab.learn.replay.step_rows import Outcome, StepShape, row_type
from soulslab.learn.settings import ReplaySettings

N_STATES, N_ACTIONS, GAMMA = 4, 3, 0.9
STOP, GO, FORBIDDEN = range(N_ACTIONS)
MUNCHAUSEN = 0.5
SHAPE = StepShape(n_features=N_STATES, n_actions=N_ACTIONS)

FAST = QLearningSettings(batch_size=32, lr=5e-3, n_steps=1, gamma=GAMMA, target_tau=0.05)
NETWORK = QNetworkSettings(widths=(32,), n_quantiles=1)


def known_values():
    """Return the values of a corridor, (N_STATES, 2): going on costs 0.1, its end pays 1, stopping pays 0.2."""
    best, values = 0.0, []
    for state in reversed(range(N_STATES)):
        go = 1.0 if state == N_STATES - 1 else -0.1 + GAMMA * best
        values.append((0.2, go))
        best = max(0.2, go)
    return np.array(values[::-1])


def munchausen_values():
    """Return them with Munchausen's term, where tau goes to 0: ``q = r + alpha [q - max q] + gamma max q'``.

    The best action's value stays what it was; of the worse one the equation can be solved, as the floor is met or not.
    """
    known = known_values()
    gap = known - known.max(axis=1, keepdims=True)
    return known + MUNCHAUSEN * np.maximum(-1.0, gap / (1.0 - MUNCHAUSEN))


def corridor_rows(n_episodes, rng, n_decisions=1, cut=0.0):
    """Return random walks through the corridor, a share of their steps cut off by a time limit.

    FORBIDDEN is masked everywhere and would pay best.
    """
    rows = []
    for _ in range(n_episodes):
        for state in range(N_STATES):
            row = np.zeros((), row_type(SHAPE))
            row["features"][state] = 1.0
            row["blocked"] = np.packbits([False, False, True])
            row["action"] = GO if rng.random() < 0.8 else STOP
            is_end = row["action"] == STOP or state == N_STATES - 1
            row["reward"] = 0.2 if row["action"] == STOP else 1.0 if is_end else -0.1
            row["n_decisions"], row["is_first"] = n_decisions, state == 0
            is_cut = not is_end and rng.random() < cut
            row["outcome"] = Outcome.TERMINATED if is_end else Outcome.TRUNCATED if is_cut else Outcome.GOES_ON
            rows.append(row)
            if is_cut:
                final = np.zeros((), row_type(SHAPE))
                final["features"][state + 1] = 1.0
                final["blocked"], final["outcome"] = row["blocked"], Outcome.FINAL
                rows.append(final)
            if is_end or is_cut:
                break
    return np.array(rows, row_type(SHAPE))


def make_learner(settings=FAST, network=NETWORK, replay=None, *, n_episodes=300, seed=0):
    replay = replay or ReplaySettings(capacity=4096, alpha=0.5)
    header = QHeader(
        env_id="toys/Corridor-v0",
        env_options={},
        n_features=N_STATES,
        n_actions=N_ACTIONS,
        network=network,
        soulslab="0",
        commit="",
    )
    policy = QPolicy(header, torch.Generator().manual_seed(seed))
    buffer = ReplayBuffer(SHAPE, replay, 1)
    buffer.append(corridor_rows(n_episodes, np.random.default_rng(seed)))
    return Learner(settings, replay, policy, buffer, np.random.default_rng(seed)), policy, buffer


def values_of(policy):
    with torch.no_grad():
        return policy.network(torch.eye(N_STATES)).mean(2).numpy()


def change(settings, **changes):
    return msgspec.structs.replace(settings, **changes)


VARIANTS = {
    "plain": (change(FAST, is_double=False), change(NETWORK, is_dueling=False, has_layer_norm=False), 0.0),
    "double": (FAST, change(NETWORK, is_dueling=False), 0.0),
    "dueling": (FAST, NETWORK, 0.0),
    "prioritised": (FAST, NETWORK, 0.6),
    "quantiles": (FAST, change(NETWORK, n_quantiles=8), 0.5),
    "hard target": (change(FAST, target_tau=1.0, target_every=20), NETWORK, 0.0),
    "munchausen": (change(FAST, munchausen=MUNCHAUSEN, munchausen_temperature=1e-3), NETWORK, 0.5),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_finds_the_known_values(name):
    settings, network, alpha = VARIANTS[name]
    known = munchausen_values() if settings.munchausen else known_values()
    learner, policy, _ = make_learner(settings, network, ReplaySettings(capacity=4096, alpha=alpha, beta=1.0))
    for i in range(3000):
        learner.update(0.0)
        if i % 100 == 99 and np.abs(values_of(policy)[:, :FORBIDDEN] - known).max() < 1e-2:
            break
    np.testing.assert_allclose(values_of(policy)[:, :FORBIDDEN], known, atol=1e-2)


def test_munchausen_widens_the_gap_to_what_is_worse_and_leaves_the_best():
    known, widened = known_values(), munchausen_values()
    assert (widened[:, GO] == known[:, GO]).all()  # going on is best everywhere
    assert (widened[:, STOP] <= known[:, STOP] - 0.2).all()


def test_a_time_limit_changes_no_value():
    learner, policy, buffer = make_learner(n_episodes=0)
    rows = corridor_rows(600, np.random.default_rng(3), cut=0.5)
    assert (rows["outcome"] == Outcome.FINAL).sum() > 100
    buffer.append(rows)
    for _ in range(1500):
        learner.update(0.0)
    np.testing.assert_allclose(values_of(policy)[:, :FORBIDDEN], known_values(), atol=1e-2)


def test_n_step_returns_find_the_values_of_the_acting_policy():
    """Without corrections n steps learn the value of what was done after the first: here always going on."""
    settings = change(FAST, n_steps=3)
    learner, policy, buffer = make_learner(settings, n_episodes=0)
    rows = corridor_rows(600, np.random.default_rng(1))
    starts = np.flatnonzero(rows["is_first"])
    whole = [rows[a:b] for a, b in zip(starts, [*starts[1:], len(rows)], strict=True) if b - a == N_STATES]
    buffer.append(np.concatenate([episode for episode in whole if (episode["action"] == GO).all()]))
    for _ in range(1500):
        learner.update(0.0)
    np.testing.assert_allclose(values_of(policy)[:, GO], known_values()[:, GO], atol=1e-2)


def test_a_step_of_several_decisions_is_discounted_by_all_of_them():
    learner, policy, buffer = make_learner(n_episodes=0)
    buffer.append(corridor_rows(300, np.random.default_rng(2), n_decisions=3))
    for _ in range(2000):
        learner.update(0.0)
    best, expected = 0.0, []
    for state in reversed(range(N_STATES)):
        go = 1.0 if state == N_STATES - 1 else -0.1 + GAMMA**3 * best
        expected.append(go)
        best = max(0.2, go)
    np.testing.assert_allclose(values_of(policy)[:, GO], expected[::-1], atol=1e-2)


def test_without_its_mask_the_target_believes_in_what_is_forbidden():
    settings = change(FAST, is_target_masked=False)
    learner, policy, _ = make_learner(settings)
    with torch.no_grad():
        policy.network.head.bias[1 + FORBIDDEN] += 5.0
    masked, its_policy, _ = make_learner(FAST)
    with torch.no_grad():
        its_policy.network.head.bias[1 + FORBIDDEN] += 5.0
    for _ in range(50):
        learner.update(0.0)
        masked.update(0.0)
    assert values_of(policy)[0, GO] > values_of(its_policy)[0, GO] + 0.1


def test_more_of_the_sampling_bias_is_corrected_in_the_course_of_a_run():
    learner, _, _ = make_learner(FAST, replay=ReplaySettings(capacity=4096, beta=0.4, beta_end=1.0))
    assert [learner.beta(progress) for progress in (0.0, 0.5, 1.0)] == pytest.approx([0.4, 0.7, 1.0])


@pytest.mark.parametrize("network", [NETWORK, change(NETWORK, n_quantiles=4)])
def test_a_saved_learner_continues_like_one_that_was_not_saved(network):
    settings = change(FAST, n_steps=2)
    learner, policy, buffer = make_learner(settings, network)
    for _ in range(100):
        learner.update(0.3)
    saved = learner.state(), policy.state(), buffer.state()
    again, its_policy, its_buffer = make_learner(settings, network, seed=7)
    its_buffer.clear()
    its_buffer.append(corridor_rows(300, np.random.default_rng(0)))
    its_policy.load_state(saved[1])
    again.load(saved[0])
    its_buffer.load(saved[2])
    rngs = [np.random.default_rng(5) for _ in range(2)]
    learner._rng, again._rng = rngs  # the run saves the source of the draws
    for i in range(1000):
        assert learner.update(0.5) == again.update(0.5), i
    assert torch.equal(policy.network.parameters_flat, its_policy.network.parameters_flat)
    with learner.averaged(), again.averaged():
        assert torch.equal(policy.network.parameters_flat, its_policy.network.parameters_flat)


def test_the_average_is_of_all_weights_at_first_and_of_the_last_ones_later():
    learner, policy, _ = make_learner(change(FAST, average_tau=0.25))
    parameters = policy.network.parameters_flat
    expected = torch.zeros_like(parameters)
    for i in range(1, 9):
        learner.update(0.0)
        expected.lerp_(parameters, max(0.25, 1 / i))
        online = parameters.clone()
        with learner.averaged():
            torch.testing.assert_close(parameters, expected)
        assert torch.equal(parameters, online)


def test_a_learner_that_has_diverged_is_reported_and_keeps_the_priorities():
    learner, policy, buffer = make_learner()
    learner.update(0.0)
    before = buffer.sampler.priority_max
    with torch.no_grad():
        policy.network.parameters_flat.fill_(float("nan"))
    with pytest.raises(NonFinitePriorityError):
        learner.update(0.0)
    assert buffer.sampler.priority_max == before
