"""Targets, loss and gradient against the same written down plainly with torch."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from soulslab.learn.rainbow.q_targets import (
    BLOCKED_VALUE,
    LOG_POLICY_FLOOR,
    QuantileLoss,
    greedy_targets,
    masked_log_policy,
    mean_values,
    munchausen_targets,
)

TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


class Case:
    """Random quantiles, masks, actions and rewards."""

    def __init__(self, seed: int, n_actions: int = 5, n_quantiles: int = 3, n_rows: int = 6) -> None:
        generator = torch.Generator().manual_seed(seed)
        shape = (n_rows, n_actions, n_quantiles)
        self.chooser, self.judge, self.here = (torch.randn(shape, generator=generator) for _ in range(3))
        self.blocked, self.next_blocked = (self._mask(generator, n_rows, n_actions) for _ in range(2))
        self.actions = torch.stack([torch.nonzero(~row)[0] for row in self.blocked])
        self.rewards, self.weights = torch.randn(n_rows, generator=generator), torch.rand(n_rows, generator=generator)
        self.discounts = torch.rand(n_rows, generator=generator) * (torch.rand(n_rows, generator=generator) < 0.7)
        self.taus = (torch.arange(n_quantiles) + 0.5) / n_quantiles

    @staticmethod
    def _mask(generator: torch.Generator, n_rows: int, n_actions: int) -> Tensor:
        blocked = torch.rand(n_rows, n_actions, generator=generator) < 0.5
        blocked[torch.arange(n_rows), torch.randint(n_actions, (n_rows,), generator=generator)] = False
        return blocked


CASES = st.builds(Case, st.integers(0, 2**31), st.integers(1, 6), st.integers(1, 5))


@given(CASES)
@settings(max_examples=50, deadline=None)
def test_double_learning_judges_the_best_open_action_of_the_other_network(case):
    best = case.chooser.mean(2).masked_fill(case.next_blocked, -np.inf).argmax(1)
    expected = case.rewards[:, None] + case.discounts[:, None] * case.judge[torch.arange(len(best)), best]
    found = greedy_targets(case.chooser, case.judge, case.next_blocked, case.rewards, case.discounts)
    torch.testing.assert_close(found, expected, **TOLERANCE)


@given(CASES)
@settings(max_examples=50, deadline=None)
def test_what_is_forbidden_is_worth_nothing_however_good_it_looks(case):
    tempting = torch.where(case.next_blocked.unsqueeze(2), 1e6, case.judge)
    arguments = (case.next_blocked, case.rewards, case.discounts)
    torch.testing.assert_close(
        greedy_targets(tempting, tempting, *arguments), greedy_targets(case.judge, case.judge, *arguments)
    )
    here = (case.here, case.blocked, case.actions)
    for each in (case.judge, tempting):
        found = munchausen_targets(
            here, (each, case.next_blocked), case.rewards, case.discounts, weight=0.9, temperature=0.5
        )
        assert float(found.abs().max()) < 1e5


def test_a_mask_that_forbids_everything_forbids_nothing():
    judge = torch.tensor([[[1.0], [3.0], [2.0]]])
    everything = torch.ones(1, 3, dtype=torch.bool)
    found = greedy_targets(judge, judge, everything, torch.zeros(1), torch.ones(1))
    assert found.tolist() == [[3.0]]


@given(CASES, st.floats(0.1, 1.0), st.floats(0.05, 2.0))
@settings(max_examples=50, deadline=None)
def test_munchausen_is_its_equation(case, weight, temperature):
    here_log = masked_log_policy(mean_values(case.here), case.blocked, temperature)
    bonus = (temperature * here_log.gather(1, case.actions).squeeze(1)).clamp(LOG_POLICY_FLOOR, 0.0)
    log_policy = masked_log_policy(mean_values(case.judge), case.next_blocked, temperature)
    policy = log_policy.exp()
    soft = (policy.unsqueeze(2) * (case.judge - temperature * log_policy.clamp_min(-1e4).unsqueeze(2))).sum(1)
    expected = (case.rewards + weight * bonus)[:, None] + case.discounts[:, None] * soft
    here, following = (case.here, case.blocked, case.actions), (case.judge, case.next_blocked)
    found = munchausen_targets(here, following, case.rewards, case.discounts, weight=weight, temperature=temperature)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@given(CASES)
@settings(max_examples=50, deadline=None)
def test_the_loss_and_its_gradient_are_those_of_quantile_regression(case):
    rows = torch.arange(len(case.rewards))
    targets = greedy_targets(case.chooser, case.judge, case.next_blocked, case.rewards, case.discounts)
    chosen = case.here[rows, case.actions.squeeze(1)].requires_grad_()
    u = targets.unsqueeze(1) - chosen.unsqueeze(2)  # (B, Q predicted, Q targets)
    huber = torch.where(u.abs() <= 1.0, 0.5 * u**2, u.abs() - 0.5)
    side = (case.taus.view(1, -1, 1) - (u.detach() < 0.0).float()).abs()
    expected = (case.weights * (side * huber).mean(2).sum(1)).mean()
    expected.backward()

    loss = QuantileLoss(len(rows), case.taus)
    mean_loss, q_mean, q_max, td_error = loss(case.here, case.actions, case.blocked, targets, case.weights)
    assert chosen.grad is not None
    torch.testing.assert_close(loss.gradient, chosen.grad, **TOLERANCE)
    assert mean_loss == pytest.approx(float(expected.detach()), rel=1e-4, abs=1e-6)
    errors = (targets.mean(1) - chosen.detach().mean(1)).abs()
    torch.testing.assert_close(loss.errors, errors, **TOLERANCE)
    assert td_error == pytest.approx(float(errors.mean()), rel=1e-4, abs=1e-6)
    assert q_mean == pytest.approx(float(chosen.detach().mean()), rel=1e-4, abs=1e-5)
    best = mean_values(case.here).masked_fill(case.blocked, BLOCKED_VALUE).amax(1).mean()
    assert q_max == pytest.approx(float(best), rel=1e-4, abs=1e-5)
