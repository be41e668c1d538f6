"""What the learner aims at, and how far it is off: targets, loss and its gradient.

Shapes: B batch, A actions, Q quantiles.

Sources: van Hasselt, Guez & Silver 2016 (double); Dabney et al. 2018, "Distributional reinforcement learning with
quantile regression" (targets and loss); Vieillard, Pietquin & Geist 2020, "Munchausen reinforcement learning"
(log-policy bonus and soft bootstrap). The masks are ours: what is forbidden is no choice anywhere.
"""

from __future__ import annotations

from typing import Any, Final, cast

import numba as nb
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

BLOCKED_VALUE: Final = -1e9
"""Value of a forbidden action in a choice: finite, so that no NaN can come of it."""

LOG_POLICY_FLOOR: Final = -1.0
"""Munchausen's bonus is clipped here: Vieillard et al. 2020, table 1 (l_0)."""


def greedy_bootstrap(chooser: Tensor, judge: Tensor, blocked: Tensor) -> Tensor:
    """Return the quantiles of the best open action.

    Args:
        chooser: Quantiles by which the action is chosen, float32 (B, A, Q); the online network's in double learning.
        judge: Quantiles by which it is judged, the target network's, float32 (B, A, Q).
        blocked: Where an action is forbidden, bool (B, A).

    Returns:
        float32 (B, Q).
    """
    best = mean_values(chooser).masked_fill_(blocked, BLOCKED_VALUE).argmax(1)
    return judge[torch.arange(len(best)), best]


def soft_bootstrap(judge: Tensor, blocked: Tensor, temperature: float) -> Tensor:
    """Return the quantiles of what a softmax policy over the open actions is worth, its entropy included.

    Vieillard et al. 2020, equation 4: ``sum_a pi(a) (q(a) - tau log pi(a))`` with ``pi = softmax(q / tau)``.

    Args:
        judge: The target network's quantiles, float32 (B, A, Q).
        blocked: Where an action is forbidden, bool (B, A).
        temperature: tau.

    Returns:
        float32 (B, Q).
    """
    log_policy = masked_log_policy(mean_values(judge), blocked, temperature)
    policy = log_policy.exp()
    entropy = -(policy * log_policy.clamp_min(BLOCKED_VALUE)).sum(1, keepdim=True)
    return torch.einsum("ba,baq->bq", policy, judge).add_(temperature * entropy)


def munchausen_bonus(judge: Tensor, blocked: Tensor, actions: Tensor, temperature: float) -> Tensor:
    """Return ``tau log pi(a)`` of the actions taken, clipped, float32 (B,); to be weighed with alpha.

    Args:
        judge: The target network's quantiles of the observations acted in, float32 (B, A, Q).
        blocked: Where an action was forbidden there, bool (B, A).
        actions: int64 (B, 1).
        temperature: tau.
    """
    log_policy = masked_log_policy(mean_values(judge), blocked, temperature)
    return (temperature * log_policy.gather(1, actions).squeeze(1)).clamp_(LOG_POLICY_FLOOR, 0.0)


def masked_log_policy(values: Tensor, blocked: Tensor, temperature: float) -> Tensor:
    """Return ``log softmax(values / temperature)`` over the open actions, float32 (B, A); forbidden ones far below."""
    return torch.log_softmax(values.masked_fill(blocked, BLOCKED_VALUE) / temperature, dim=1)


def mean_values(quantiles: Tensor) -> Tensor:
    """Return the mean of the return's distribution, float32 (B, A); a fresh tensor."""
    return quantiles.mean(2) if quantiles.shape[2] > 1 else quantiles.squeeze(2).clone()


class QuantileLoss:
    """Quantile Huber loss with its gradient: Dabney et al. 2018, equations 9 and 10, kappa 1.

    Attributes:
        errors: Size of each row's mean temporal-difference error, float32 (B,), of the last call.
        gradient: Gradient by the quantiles, float32 (B, Q), of the last call.
    """

    def __init__(self, batch_size: int, taus: Tensor) -> None:
        """Make room.

        Args:
            batch_size: B.
            taus: Levels of the quantiles, float32 (Q,).
        """
        self._taus = taus.numpy()
        self.errors = torch.empty(batch_size)
        self.gradient = torch.empty(batch_size, len(taus))

    def __call__(self, quantiles: Tensor, targets: Tensor, weights: Tensor) -> float:
        """Return the weighted mean loss of a batch.

        Args:
            quantiles: Of the actions taken, float32 (B, Q).
            targets: float32 (B, Q).
            weights: Importance weights, float32 (B,).
        """
        arrays = (quantiles.numpy(), targets.numpy(), weights.numpy(), self._taus)
        return cast("float", _quantile_huber(*arrays, self.errors.numpy(), self.gradient.numpy()))


@nb.njit(cache=True)
def _quantile_huber(  # type: ignore[no-untyped-def]  # noqa: ANN202
    quantiles: NDArray[Any],
    targets: NDArray[Any],
    weights: NDArray[Any],
    taus: NDArray[Any],
    errors: NDArray[Any],
    gradient: NDArray[Any],
):
    n_rows, n_quantiles = quantiles.shape
    total = 0.0
    for row in range(n_rows):
        scale = weights[row] / (n_rows * n_quantiles)
        difference, loss = 0.0, 0.0
        for i in range(n_quantiles):
            slope = 0.0
            for j in range(n_quantiles):
                u = targets[row, j] - quantiles[row, i]
                side = taus[i] if u >= 0.0 else 1.0 - taus[i]
                clipped = min(max(u, -1.0), 1.0)
                slope -= side * clipped
                loss += side * clipped * (u - 0.5 * clipped)
            gradient[row, i] = slope * scale
            difference += targets[row, i] - quantiles[row, i]
        errors[row] = abs(difference) / n_quantiles
        total += loss * scale
    return np.float64(total)
