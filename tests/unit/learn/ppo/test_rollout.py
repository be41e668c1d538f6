import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from soulslab.learn.ppo.rollout import Rollout, generalised_advantages


def naive_advantages(rollout, gae_lambda):
    """Equation 16 of Schulman et al. 2016 as it is written: a sum over the future of each transition."""
    n_steps, n_envs = rollout.rewards.shape
    advantages = np.zeros((n_steps, n_envs))
    for n in range(n_envs):
        for t in range(n_steps):
            weight = 1.0
            for later in range(t, n_steps):
                done = rollout.dones[later, n]
                after = rollout.bootstrap[later, n] if done else rollout.values[later + 1, n]
                discount = rollout.discounts[later, n]
                delta = rollout.rewards[later, n] + discount * after - rollout.values[later, n]
                advantages[t, n] += weight * delta
                if done:
                    break
                weight *= discount * gae_lambda
    return advantages


def random_rollout(seed, n_steps, n_envs):
    rng = np.random.default_rng(seed)
    rollout = Rollout(n_steps, n_envs, 2, 3)
    rollout.rewards[:] = rng.normal(size=(n_steps, n_envs))
    rollout.values[:] = rng.normal(size=(n_steps + 1, n_envs))
    rollout.discounts[:] = 0.97 ** rng.integers(1, 6, (n_steps, n_envs))
    rollout.dones[:] = rng.random((n_steps, n_envs)) < 0.2
    is_truncated = rollout.dones & (rng.random((n_steps, n_envs)) < 0.5)
    rollout.bootstrap[:] = np.where(is_truncated, rng.normal(size=(n_steps, n_envs)), 0.0)
    return rollout


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 5), st.floats(0.0, 1.0))
def test_recursion_equals_the_sum(seed, n_steps, n_envs, gae_lambda):
    rollout = random_rollout(seed, n_steps, n_envs)
    expected = naive_advantages(rollout, gae_lambda)
    np.testing.assert_allclose(generalised_advantages(rollout, gae_lambda), expected, atol=1e-10)


def naive_v_trace(rollout, gae_lambda):
    """Equation 1 of Espeholt et al. 2018 as it is written, with c_i = lambda * rho_i: the target of each value."""
    n_steps, n_envs = rollout.rewards.shape
    targets = np.zeros((n_steps, n_envs))
    for n in range(n_envs):
        for s in range(n_steps):
            targets[s, n], weight = rollout.values[s, n], 1.0
            for t in range(s, n_steps):
                done = rollout.dones[t, n]
                after = rollout.bootstrap[t, n] if done else rollout.values[t + 1, n]
                delta = rollout.rewards[t, n] + rollout.discounts[t, n] * after - rollout.values[t, n]
                targets[s, n] += weight * rollout.weights[t, n] * delta
                if done:
                    break
                weight *= rollout.discounts[t, n] * gae_lambda * rollout.weights[t, n]
    return targets


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 5), st.floats(0.0, 1.0))
def test_with_weights_the_targets_are_those_of_v_trace(seed, n_steps, n_envs, gae_lambda):
    rollout = random_rollout(seed, n_steps, n_envs)
    rollout.weights[:] = np.minimum(np.random.default_rng(seed).exponential(size=(n_steps, n_envs)), 1.0)
    advantages = generalised_advantages(rollout, gae_lambda)
    targets = rollout.weights * advantages + rollout.values[:-1]
    np.testing.assert_allclose(targets, naive_v_trace(rollout, gae_lambda), atol=1e-10)


def test_lambda_one_without_values_gives_the_discounted_return():
    rollout = Rollout(3, 1, 1, 2)
    rollout.rewards[:, 0] = [1.0, 2.0, 4.0]
    rollout.discounts[:] = 0.5
    rollout.dones[2] = True
    np.testing.assert_allclose(generalised_advantages(rollout, 1.0)[:, 0], [3.0, 4.0, 4.0])


def test_a_terminated_episode_does_not_see_the_next_one():
    rollout = Rollout(2, 1, 1, 2)
    rollout.discounts[:] = 0.9
    rollout.rewards[1] = 100.0
    rollout.values[1:] = 50.0
    rollout.dones[0] = True
    assert generalised_advantages(rollout, 0.95)[0, 0] == 0.0


def test_select_takes_the_same_transition_from_every_array():
    rollout = Rollout(4, 3, 2, 5, pixels=(1, 2, 1))
    flat = torch.arange(12)
    rollout.obs[:] = flat.view(4, 3, 1)
    rollout.actions[:] = flat.view(4, 3, 1)
    rollout.log_probs[:] = flat.view(4, 3)
    rollout.pixels[:] = flat.view(4, 3, 1, 1, 1)
    rollout.blocked[2, 1, 4] = True
    index = torch.tensor([7, 0, 11])
    batch = rollout.select(index)
    assert batch.pixels[:, 0, 1, 0].tolist() == [7, 0, 11]
    assert batch.obs[:, 0].tolist() == batch.actions[:, 0].tolist() == batch.log_probs.tolist() == [7, 0, 11]
    assert batch.blocked.nonzero().tolist() == [[0, 4]]
