"""Behaviour cloning for action values: increases the values of recorded actions relative to other allowed actions.

The loss is the cross-entropy of a softmax policy over the values of the allowed actions::

    -log softmax(Q(s, .) / temperature)[a_shown]

The large margin loss of DQfD (Hester et al. 2018, "Deep Q-learning from demonstrations", equation 2) gave half the win
rate. Cloning continues during learning: after cloning only at the start, learning lost the recorded behaviour, because
values of actions without experience are arbitrary, and the largest of twenty arbitrary values exceeds that of the
recorded action. ``docs/demonstrations.md`` has the measurements.

Shapes: B batch, F features, A actions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soulslab.learn.adam import Adam
from soulslab.learn.archive import Tensors
from soulslab.learn.rainbow.q_policy import QPolicy
from soulslab.learn.rainbow.q_targets import BLOCKED_VALUE, masked_log_policy, mean_values
from soulslab.learn.rainbow.rainbow_settings import DemonstrationSettings
from soulslab.learn.replay.replay_buffer import ReplayBuffer

#: Function of features (B, F) and pixels (or None) that returns the value of each action, float32 (B, A).
Values: TypeAlias = Callable[[Tensor, Tensor | None], Tensor]

BATCH_SIZE: Final = 64
_ADAM_EPSILON: Final = 1e-8
_LAST: Final = 100
"""Number of last updates of the initial cloning over which its result is averaged."""


class Cloned(NamedTuple):
    """Result of updates of cloning, as means over them: the loss (nats) and the agreement before the update.

    ``agreement`` is the share of the recorded actions that had the largest value of the allowed ones, 0..1.
    """

    loss: float
    agreement: float


class Cloner:
    """Makes updates of behaviour cloning, at the start of a run and during learning."""

    def __init__(
        self,
        values: Values,
        parameters: Iterable[nn.Parameter],
        shown: ReplayBuffer,
        rng: np.random.Generator,
        settings: DemonstrationSettings,
    ) -> None:
        """Make the optimiser for the parameters of differentiable values; their gradients will be overwritten.

        ``shown`` holds the recorded episodes, from which ``rng`` draws.
        """
        self._values = values
        self._shown = shown
        self._rng = rng
        self._temperature = settings.cloning_temperature
        self._lr = settings.cloning_lr
        self._parameters = list(parameters)
        self._adam = Adam(self._parameters)
        self._batch = shown.make_batch(BATCH_SIZE)

    def update(self, weight: float = 1.0) -> Cloned:
        """Make one update of cloning; ``weight`` is a factor of the learning rate, 0..1.

        Raises ReplayError if the buffer holds no recorded episodes.
        """
        batch = self._batch
        # Here all recorded steps have the same weight and rewards do not matter; priorities are only for the learner.
        self._shown.sample(batch, n_steps=1, gamma=1.0, beta=0.0, rng=self._rng)
        for parameter in self._parameters:
            if parameter.grad is not None:  # it may be a part of the learner's gradients, so it is kept
                parameter.grad.zero_()
        with torch.enable_grad():
            values = self._values(batch.features, batch.pixels)
            loss = cloning_loss(values, batch.actions, batch.blocked, self._temperature)
            torch.autograd.backward(loss)
        gradients = [each.grad for each in self._parameters if each.grad is not None]
        self._adam.step(gradients, lr=self._lr * weight, epsilon=_ADAM_EPSILON)
        best = values.detach().masked_fill(batch.blocked, BLOCKED_VALUE).argmax(1)
        return Cloned(float(loss.detach()), float((best == batch.actions.squeeze(1)).float().mean()))

    def state(self) -> Tensors:
        """Return copies of what :meth:`load` needs; the random generator is not included."""
        return self._adam.state()

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what :meth:`state` returned."""
        self._adam.load(state)


def cloner_of(
    policy: QPolicy, shown: ReplayBuffer, rng: np.random.Generator, settings: DemonstrationSettings, shift_px: int = 0
) -> Cloner:
    """Return a cloner for the values of a policy whose normaliser has observed the recorded features.

    ``shift_px`` is the largest random shift of the pixels; see `LearnerSettings`.
    """
    network = policy.network
    # One flat parameter that shares its memory with the modules of the network and with the learner.
    flat = nn.Parameter(network.parameters_flat)
    flat.grad = network.gradients_flat

    def values(features: Tensor, pixels: Tensor | None) -> Tensor:
        on_device = policy.place_pixels(pixels, shift_px, len(features), rng)
        return mean_values(network(policy.normalise(features).to(policy.device), on_device)).cpu()

    return Cloner(values, [flat], shown, rng, settings)


def clone(cloner: Cloner, n_updates: int) -> Cloned:
    """Make the updates of cloning at the start of a run, at least one; return the means over the last 100."""
    found = [cloner.update() for _ in range(n_updates)][-_LAST:]
    return Cloned(*(float(mean) for mean in np.mean(found, axis=0)))


def cloning_weight(settings: DemonstrationSettings, env_steps: int) -> float:
    """Return the weight of cloning during learning after ``env_steps`` game decisions, 0..1; it decreases linearly.

    The learned policy may become better than the recorded one, and cloning then limits it. Cloning must end early and
    be combined with random actions: actions that cloning suppresses are not tried, so their values stay arbitrary, and
    the longer this lasts the longer it takes to correct them.
    """
    return max(0.0, 1.0 - env_steps / settings.cloning_decisions)


def cloning_loss(values: Tensor, actions: Tensor, blocked: Tensor, temperature: float) -> Tensor:
    """Return the mean cross-entropy of the recorded actions (B, 1) under a softmax over the allowed ones, float32 ().

    ``values`` and ``blocked`` are (B, A); the temperature of the softmax is in the units of the values.
    """
    return -masked_log_policy(values, blocked, temperature).gather(1, actions).mean()
