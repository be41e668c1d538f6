"""Behaviour cloning for action values: what was shown shall be worth more than any other open action.

The loss is the cross-entropy of a softmax policy over the values of the open actions::

    -log softmax(Q(s, .) / temperature)[a_shown]

DQfD's large margin (Hester et al. 2018, "Deep Q-learning from demonstrations", equation 2) was tried beside it and won
half as often. Cloning has to go on beside learning: after a warm start alone, learning unlearns it, for the values of
what nobody has done yet are made up, and the best of twenty made-up values looks better than what was shown.
``docs/demonstrations.md`` has the numbers.

Shapes: B batch, F features, A actions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soulslab.learn.archive import Tensors
from soulslab.learn.rainbow.mixed_replay import Source
from soulslab.learn.rainbow.policy import QPolicy
from soulslab.learn.rainbow.settings import DemonstrationSettings
from soulslab.learn.rainbow.targets import BLOCKED_VALUE, masked_log_policy, mean_values

#: (features as they were recorded (B, F), pixels or None) to the value of each action, float32 (B, A).
Values: TypeAlias = Callable[[Tensor, Tensor | None], Tensor]

BATCH_SIZE: Final = 64
_LAST: Final = 100
"""The last updates of a warm start, which its result is the mean of."""


class Cloned(NamedTuple):
    """What updates of cloning found, as means over them.

    Attributes:
        loss: Cross-entropy of the shown actions (nats).
        agreement: Share of the shown actions that were the best open ones before the update, 0..1.
    """

    loss: float
    agreement: float


class Cloner:
    """Moves action values towards what was shown, a batch at a time, as a warm start and beside learning."""

    def __init__(
        self,
        values: Values,
        parameters: Iterable[nn.Parameter],
        shown: Source,
        rng: np.random.Generator,
        settings: DemonstrationSettings,
    ) -> None:
        """Set up the optimiser.

        Args:
            values: The action values, differentiable.
            parameters: What they depend on; their gradients are overwritten.
            shown: The recorded fights.
            rng: Source of the draws.
            settings: Temperature and learning rate.
        """
        self._values = values
        self._shown = shown
        self._rng = rng
        self._temperature = settings.cloning_temperature
        self._lr = settings.cloning_lr
        self._optimiser = torch.optim.Adam(list(parameters), lr=self._lr)
        self._batch = shown.make_batch(BATCH_SIZE)

    def update(self, weight: float = 1.0) -> Cloned:
        """Take one step towards what was shown.

        Args:
            weight: Share of the learning rate, for cloning that fades.

        Raises:
            ReplayError: Nothing was shown.
        """
        batch = self._batch
        # Priorities are the learner's; here every recorded step counts alike, and rewards do not matter.
        self._shown.sample(batch, n_steps=1, gamma=1.0, beta=0.0, rng=self._rng)
        self._optimiser.zero_grad(set_to_none=False)
        with torch.enable_grad():
            values = self._values(batch.features, batch.pixels)
            loss = cloning_loss(values, batch.actions, batch.blocked, self._temperature)
            torch.autograd.backward(loss)
        self._optimiser.param_groups[0]["lr"] = self._lr * weight
        self._optimiser.step()
        best = values.detach().masked_fill(batch.blocked, BLOCKED_VALUE).argmax(1)
        return Cloned(float(loss.detach()), float((best == batch.actions.squeeze(1)).float().mean()))

    def state(self) -> Tensors:
        """Return copies of what :meth:`load` needs; the generator of the draws is the caller's."""
        tensors: Tensors = {}
        for i, kept in self._optimiser.state_dict()["state"].items():
            tensors |= {f"{i}/{name}": value.numpy().copy() for name, value in kept.items()}
        return tensors

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what :meth:`state` returned."""
        kept: dict[int, dict[str, Tensor]] = {}
        for key, array in state.items():
            i, _, name = key.partition("/")
            kept.setdefault(int(i), {})[name] = torch.from_numpy(np.array(array))
        self._optimiser.load_state_dict({**self._optimiser.state_dict(), "state": kept})


def cloner_of(policy: QPolicy, shown: Source, rng: np.random.Generator, settings: DemonstrationSettings) -> Cloner:
    """Return what moves a policy's values towards what was shown.

    Args:
        policy: Its normaliser should have seen the recorded features (``policy.observe``).
        shown: The recorded fights.
        rng: Source of the draws.
        settings: See `Cloner`.
    """
    network = policy.network
    # One flat parameter, on the memory that the network's modules and the learner use too.
    flat = nn.Parameter(network.parameters_flat)
    flat.grad = network.gradients_flat

    def values(features: Tensor, pixels: Tensor | None) -> Tensor:
        network.silence()
        return mean_values(network(policy.normalise(features), pixels))

    return Cloner(values, [flat], shown, rng, settings)


def clone(cloner: Cloner, n_updates: int) -> Cloned:
    """Begin warm: take so many steps towards what was shown, before anything was lived through.

    Args:
        cloner: Takes them.
        n_updates: At least 1.

    Returns:
        What the last 100 of them found.
    """
    found = [cloner.update() for _ in range(n_updates)][-_LAST:]
    return Cloned(*(float(mean) for mean in np.mean(found, axis=0)))


def cloning_weight(settings: DemonstrationSettings, env_steps: int) -> float:
    """Return how much cloning beside learning counts after so many game decisions, 0..1; it fades linearly.

    Who was shown something may become better than who showed it, and is held back by it then. It must fade soon, and
    beside some random actions: what cloning keeps down is never tried, so its values are made up, and the longer
    nothing else is lived through the longer it takes to put them right.
    """
    return max(0.0, 1.0 - env_steps / settings.cloning_decisions)


def cloning_loss(values: Tensor, actions: Tensor, blocked: Tensor, temperature: float) -> Tensor:
    """Return the mean cross-entropy of the shown actions under a softmax over the open ones, float32 ().

    Args:
        values: float32 (B, A).
        actions: What was shown, int64 (B, 1).
        blocked: Where an action was forbidden, bool (B, A).
        temperature: In the units of the values.
    """
    return -masked_log_policy(values, blocked, temperature).gather(1, actions).mean()
