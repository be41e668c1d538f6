"""AdamW over one flat tensor of parameters."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.optim.adamw import adamw

_BETAS = (0.9, 0.999)


class Rates(Protocol):
    """Step sizes of the optimiser."""

    @property
    def lr(self) -> float:
        """Learning rate."""

    @property
    def adam_epsilon(self) -> float:
        """Constant that is added to the root of the second moment."""

    @property
    def weight_decay(self) -> float:
        """Decay of the weights in a step, relative to ``lr``."""


class Adam(NamedTuple):
    """torch's fused AdamW (Loshchilov & Hutter 2019), called as a function.

    For a network this small, torch's optimiser class takes longer for hooks and groups than for the step itself.

    Attributes:
        mean: First moment, like the parameters.
        square: Second moment, like the parameters.
        n_steps: Number of steps so far, float32 scalar.
    """

    mean: Tensor
    square: Tensor
    n_steps: Tensor

    @classmethod
    def fresh(cls, parameters: Tensor) -> Adam:
        """Return the state before the first step."""
        return cls(
            torch.zeros_like(parameters), torch.zeros_like(parameters), torch.zeros((), device=parameters.device)
        )

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
