"""Targets of the learner, its loss and the gradient of the loss.

Shapes: B batch, A actions, Q quantiles.

Sources: van Hasselt, Guez & Silver 2016 (double); Dabney et al. 2018, "Distributional reinforcement learning with
quantile regression" (targets and loss); Vieillard, Pietquin & Geist 2020, "Munchausen reinforcement learning"
(log-policy bonus and soft bootstrap). The action masks are an addition: forbidden actions are never chosen.

The kernels iterate over the rows, because for batches this small the call overhead of tensor operations exceeds the
computation.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from soulslab.learn.replay.numba_kernel import kernel

BLOCKED_VALUE: Final = -1e30
"""Value of a forbidden action in a choice: finite, so that no NaN results, and far below the values of allowed actions,
even with rewards of billions."""

LOG_POLICY_FLOOR: Final = -1.0
"""Lower limit of Munchausen's bonus: Vieillard et al. 2020, table 1 (l_0)."""


def masked_log_policy(values: Tensor, blocked: Tensor, temperature: float) -> Tensor:
    """Return ``log softmax(values / temperature)`` over the allowed actions, float32 (B, A); very low if forbidden."""
    return torch.log_softmax(values.masked_fill(blocked, BLOCKED_VALUE) / temperature, dim=1)


def mean_values(quantiles: Tensor) -> Tensor:
    """Return the mean of the distribution of the return, float32 (B, A), as a new tensor."""
    return quantiles.mean(2) if quantiles.shape[2] > 1 else quantiles.squeeze(2).clone()


def greedy_targets(chooser: Tensor, judge: Tensor, blocked: Tensor, rewards: Tensor, discounts: Tensor) -> Tensor:
    """Return rewards plus the discounted value of the best allowed next action, float32 (B, Q).

    ``chooser`` (B, A, Q) are the quantiles that choose the action, in double learning those of the online network;
    ``judge`` (B, A, Q) those of the target network that give its value. If a row forbids all actions, all count as
    allowed.
    """
    targets = torch.empty(len(judge), judge.shape[2])
    _greedy_targets(*_arrays(chooser, judge, blocked, rewards, discounts, targets))
    return targets


def munchausen_targets(
    here: tuple[Tensor, Tensor, Tensor],
    following: tuple[Tensor, Tensor],
    rewards: Tensor,
    discounts: Tensor,
    *,
    weight: float,
    temperature: float,
) -> Tensor:
    """Return rewards plus the clipped log-policy of the action plus the discounted soft next value, (B, Q).

    Vieillard et al. 2020, equation 4: ``r + alpha [tau log pi(a)] + gamma sum_b pi(b) (q(b) - tau log pi(b))`` with
    ``pi = softmax(q / tau)`` over the allowed actions of the target network. Over n steps the bonus is that of the
    first action.

    ``here`` are the quantiles (B, A, Q), the forbidden actions (B, A) and the actions taken (B, 1) of the present
    observations; ``following`` the same of the next observations, without actions.
    """
    targets = torch.empty(len(rewards), here[0].shape[2])
    _munchausen_targets(weight, temperature, *_arrays(*here, *following, rewards, discounts, targets))
    return targets


class QuantileLoss:
    """Quantile Huber loss with its gradient: Dabney et al. 2018, equations 9 and 10, kappa 1.

    Attributes:
        errors: Absolute error of the mean of each row, float32 (B,), of the last call.
        gradient: Gradient by the quantiles of the actions taken, float32 (B, Q), of the last call.
    """

    def __init__(self, batch_size: int, taus: Tensor) -> None:
        self._taus = taus
        self.errors = torch.empty(batch_size)
        self.gradient = torch.empty(batch_size, len(taus))

    def __call__(
        self, quantiles: Tensor, actions: Tensor, blocked: Tensor, targets: Tensor, weights: Tensor
    ) -> tuple[float, float, float, float]:
        """Return means over the batch, for quantiles (B, A, Q) and targets (B, Q).

        They are the weighted loss, the value of the actions taken, the value of the best allowed action, and the
        absolute error of the means.
        """
        tensors = (quantiles, actions, blocked, targets, weights, self._taus, self.errors, self.gradient)
        found: tuple[float, float, float, float] = _quantile_huber(*_arrays(*tensors))
        return found


def _arrays(*tensors: Tensor) -> list[NDArray[Any]]:
    return [tensor.numpy() for tensor in tensors]


# --- kernels ----------------------------------------------------------------------------------------------------


@kernel
def _mean(quantiles: NDArray[Any], row: int, action: int) -> Any:
    total = 0.0
    for k in range(quantiles.shape[2]):
        total += quantiles[row, action, k]
    return total / quantiles.shape[2]


@kernel
def _best(quantiles: NDArray[Any], blocked: NDArray[Any], row: int) -> Any:
    """Return the allowed action with the largest mean, and that mean."""
    best, largest = -1, -np.inf
    is_none_open = blocked[row].all()  # then all actions count as allowed
    for action in range(quantiles.shape[1]):
        value = _mean(quantiles, row, action)
        if (is_none_open or not blocked[row, action]) and value > largest:
            best, largest = action, value
    return best, largest


@kernel
def _greedy_targets(
    chooser: NDArray[Any],
    judge: NDArray[Any],
    blocked: NDArray[Any],
    rewards: NDArray[Any],
    discounts: NDArray[Any],
    targets: NDArray[Any],
) -> None:
    for row in range(len(rewards)):
        best, _ = _best(chooser, blocked, row)
        for k in range(targets.shape[1]):
            targets[row, k] = rewards[row] + discounts[row] * judge[row, best, k]


@kernel
def _log_policy(quantiles: NDArray[Any], blocked: NDArray[Any], row: int, tau: float, out: NDArray[Any]) -> None:
    """Write the log of the softmax over the allowed actions, (A,); minus infinity for forbidden ones."""
    _, largest = _best(quantiles, blocked, row)
    total = 0.0
    is_none_open = blocked[row].all()
    for action in range(len(out)):
        out[action] = -np.inf
        if is_none_open or not blocked[row, action]:
            out[action] = (_mean(quantiles, row, action) - largest) / tau
            total += np.exp(out[action])
    out -= np.log(total)


@kernel
def _munchausen_targets(
    weight: float,
    tau: float,
    here: NDArray[Any],
    here_blocked: NDArray[Any],
    actions: NDArray[Any],
    following: NDArray[Any],
    following_blocked: NDArray[Any],
    rewards: NDArray[Any],
    discounts: NDArray[Any],
    targets: NDArray[Any],
) -> None:
    log_policy = np.empty(here.shape[1])
    for row in range(len(rewards)):
        _log_policy(here, here_blocked, row, tau, log_policy)
        bonus = max(tau * log_policy[actions[row, 0]], LOG_POLICY_FLOOR)
        targets[row] = rewards[row] + weight * bonus
        _log_policy(following, following_blocked, row, tau, log_policy)
        for action in range(len(log_policy)):
            share = np.exp(log_policy[action]) * discounts[row]
            if share > 0.0:
                entropy = tau * log_policy[action]
                for k in range(targets.shape[1]):
                    targets[row, k] += share * (following[row, action, k] - entropy)


@kernel
def _quantile_huber(
    quantiles: NDArray[Any],
    actions: NDArray[Any],
    blocked: NDArray[Any],
    targets: NDArray[Any],
    weights: NDArray[Any],
    taus: NDArray[Any],
    errors: NDArray[Any],
    gradient: NDArray[Any],
) -> Any:
    n_rows, n_quantiles = targets.shape
    total, q_mean, q_max, td_error = 0.0, 0.0, 0.0, 0.0
    for row in range(n_rows):
        action = actions[row, 0]
        scale = weights[row] / (n_rows * n_quantiles)
        difference, loss = 0.0, 0.0
        for i in range(n_quantiles):
            predicted, slope = quantiles[row, action, i], 0.0
            for j in range(n_quantiles):
                u = targets[row, j] - predicted
                side = taus[i] if u >= 0.0 else 1.0 - taus[i]
                clipped = min(max(u, -1.0), 1.0)
                slope -= side * clipped
                loss += side * clipped * (u - 0.5 * clipped)
            gradient[row, i] = slope * scale
            difference += targets[row, i] - predicted
        errors[row] = abs(difference) / n_quantiles
        total += loss * scale
        td_error += errors[row] / n_rows
        q_mean += _mean(quantiles, row, action) / n_rows
        q_max += _best(quantiles, blocked, row)[1] / n_rows
    return total, q_mean, q_max, td_error
