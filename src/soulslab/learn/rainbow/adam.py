"""AdamW over one flat tensor of parameters."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.optim.adamw import adamw

_BETAS = (0.9, 0.999)


class Rates(Protocol):
    """How far a step goes."""

    @property
    def lr(self) -> float:
        """Learning rate."""

    @property
    def adam_epsilon(self) -> float:
        """What the root of the second moment is divided by at least."""

    @property
    def weight_decay(self) -> float:
        """Share of ``lr`` by which the weights shrink in a step."""


class Adam(NamedTuple):
    """torch's fused AdamW (Loshchilov & Hutter 2019), called as a function.

    Its class spends longer on hooks and groups than the step takes for a network this small.

    Attributes:
        mean: First moment, like the parameters.
        square: Second moment, like the parameters.
        n_steps: Steps taken, float32 without axes.
    """

    mean: Tensor
    square: Tensor
    n_steps: Tensor

    @classmethod
    def fresh(cls, parameters: Tensor) -> Adam:
        """Return the state before the first step."""
        return cls(torch.zeros_like(parameters), torch.zeros_like(parameters), torch.zeros(()))

    def step(self, parameters: Tensor, gradients: Tensor, rates: Rates) -> None:
        """Take one step, in place."""
        beta1, beta2 = _BETAS
        adamw(
            [parameters],
            [gradients],
            [self.mean],
            [self.square],
            [],
            [self.n_steps],
            fused=True,
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            lr=rates.lr,
            weight_decay=rates.weight_decay,
            eps=rates.adam_epsilon,
            maximize=False,
        )
