"""Adam, for all learners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim.adamw import adamw

from soulslab.learn.archive import Tensors

_BETA_1: Final = 0.9
_BETA_2: Final = 0.999


class Adam:
    """torch's fused AdamW (Loshchilov & Hutter 2019), called as a function; without weight decay it is Adam.

    An object of `torch.optim.Adam` imports torch's compiler, which takes a second of every start of a run. For small
    networks, its hooks and parameter groups also take longer than the step itself.

    Attributes:
        means: Mean of the gradients of each parameter, of its shape.
        squares: Mean of the squared gradients of each parameter, of its shape.
        n_steps: Number of steps for each parameter, float32 ().
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        """Start without any step; ``parameters`` are the tensors that a step changes."""
        self._parameters = list(parameters)
        # The fused step iterates over memory: the moments must have the memory layout of their parameter.
        self.means = [torch.zeros_like(each, requires_grad=False) for each in self._parameters]
        self.squares = [torch.zeros_like(each, requires_grad=False) for each in self._parameters]
        self.n_steps = [torch.zeros((), device=each.device) for each in self._parameters]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor], *, lr: float, epsilon: float, weight_decay: float = 0.0) -> None:
        """Take one step, in place; ``gradients`` belong to the parameters in their order."""
        adamw(
            self._parameters,
            list(gradients),
            self.means,
            self.squares,
            [],
            self.n_steps,
            fused=True,
            amsgrad=False,
            beta1=_BETA_1,
            beta2=_BETA_2,
            lr=lr,
            weight_decay=weight_decay,
            eps=epsilon,
            maximize=False,
        )

    def state(self) -> Tensors:
        """Return copies of all tensors, named as in the state of `torch.optim.Adam`."""
        return {
            f"{i}/{name}": tensor.cpu().numpy().copy()
            for name, tensors in self._by_name().items()
            for i, tensor in enumerate(tensors)
        }

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `state` returned; raises KeyError for a missing tensor, RuntimeError for another size."""
        for name, tensors in self._by_name().items():
            for i, tensor in enumerate(tensors):
                tensor.copy_(torch.from_numpy(np.array(state[f"{i}/{name}"])).reshape(tensor.shape))

    def _by_name(self) -> dict[str, list[Tensor]]:
        return {"step": self.n_steps, "exp_avg": self.means, "exp_avg_sq": self.squares}
