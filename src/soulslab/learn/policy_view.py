"""The computation of a policy for one decision, for display: scores, hidden layers, and the effect of each input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class PolicyView(NamedTuple):
    """The computation of one decision.

    Attributes:
        kind: ``probability`` or ``value``; see `soulslab.learn.policy_header.ActionScores`.
        scores: Score of each action, float32 (A,).
        quantiles: Quantiles of the return of each action, float32 (A, Q); Q is 0 for probabilities.
        value: Expected return: that of the critic, or of the chosen action. None if the critic sees features that are
            hidden from the actor (``network.critic_sees_hidden``), and one of them is NaN.
        hidden: Activations of each hidden layer, float32 (units,) each.
        attribution: Gradient of the chosen action's score (log-probability or value) with respect to each input, times
            the normalised input, float32 (F,). Soft bins count for the feature that they are made of.
    """

    kind: str
    scores: NDArray[np.float32]
    quantiles: NDArray[np.float32]
    value: float | None
    hidden: list[NDArray[np.float32]]
    attribution: NDArray[np.float32]


@contextmanager
def gradients() -> Iterator[None]:
    """Enable gradients, also inside of inference mode, in which actors choose their actions."""
    with torch.inference_mode(mode=False), torch.enable_grad():
        yield


def attribute(score: Tensor, inputs: Tensor) -> NDArray[np.float32]:
    """Return the gradient of a score with respect to inputs (1, F), times the inputs, float32 (F,)."""
    if inputs.shape[1] == 0:
        return np.zeros(0, np.float32)
    [gradient] = torch.autograd.grad(score, inputs)
    return to_array(gradient * inputs)


def to_array(batch: Tensor) -> NDArray[np.float32]:
    """Return the first row of a batch of one, without its gradient."""
    result: NDArray[np.float32] = batch.detach().cpu()[0].numpy()
    return result
