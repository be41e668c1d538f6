"""Updates of Rainbow for a network with a recurrent layer, from sequences of steps.

Kapturowski et al. 2019, "Recurrent experience replay in distributed reinforcement learning" (R2D2): the state of the
recurrent layer is computed from the stored one on, without a gradient during the burn-in; both networks use their own
states. The gradient flows through all learned steps. A sequence has the priority
``eta * max |error| + (1 - eta) * mean |error|`` over its learned steps (section 2.3).

Shapes: S sequences, T learned steps, n steps of a return, M units of the recurrent layer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from soulslab.learn.rainbow.q_learner import BaseLearner, Measured
from soulslab.learn.rainbow.q_network import QNetwork
from soulslab.learn.rainbow.q_policy import QPolicy
from soulslab.learn.rainbow.q_targets import QuantileLoss
from soulslab.learn.rainbow.rainbow_settings import QLearningSettings
from soulslab.learn.replay.sequence_replay import SequenceBatch, SequenceReplay
from soulslab.learn.settings import ReplaySettings


class _Inputs(NamedTuple):
    """Inputs of the network for some steps of a batch, as arguments of `QNetwork.see_steps`."""

    features: Tensor
    pixels: Tensor | None
    memory: Tensor
    is_first: Tensor

    def steps(self, first: int, end: int, memory: Tensor) -> _Inputs:
        """Return the inputs of some steps, before which the recurrent layer has another state."""
        rows = slice(first * len(memory), end * len(memory))
        pixels = self.pixels[rows] if self.pixels is not None else None
        return _Inputs(self.features[rows], pixels, memory, self.is_first[first:end])


class RecurrentLearner(BaseLearner):
    """A learner that draws sequences."""

    _replay: SequenceReplay

    def __init__(
        self,
        settings: QLearningSettings,
        replay_settings: ReplaySettings,
        policy: QPolicy,
        replay: SequenceReplay,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(settings, replay_settings, policy, rng)
        self._replay = replay
        self._sequences = replay.make_sequences(max(1, round(settings.batch_size / replay.sequence_steps)))
        self._places = self._sequences.places
        self._loss = QuantileLoss(len(self._sequences.actions), policy.network.taus)

    @torch.no_grad()
    def _learn_from_replay(self, beta: float) -> Measured:
        settings, network, batch = self._settings, self._policy.network, self._sequences
        self._replay.draw(batch, gamma=settings.gamma, beta=beta, rng=self._rng)
        online, judge = self._estimate(batch)
        known = batch.is_known.nonzero().squeeze(1)
        blocked = batch.blocked[self._replay.burn_in_steps * len(batch.places) :]
        here = (judge[known], blocked[known], batch.actions[known]) if settings.munchausen else None
        ends = batch.ends[known]
        following = ((online if settings.is_double else judge)[ends], judge[ends], blocked[ends])
        targets = self._bootstrap(here, following, batch.rewards[known], batch.discounts[known])
        weights = batch.weights.repeat(self._replay.sequence_steps)[known]
        found = self._loss(online[known], batch.actions[known], blocked[known], targets, weights)
        gradient = torch.zeros_like(self._loss.gradient)
        gradient[known] = self._loss.gradient[: len(known)]
        network.backward(gradient, batch.actions)
        self._replay.set_priorities(batch.places, self._sequence_errors(known))
        return self._descend(found)

    def _estimate(self, batch: SequenceBatch) -> tuple[Tensor, Tensor]:
        """Return the quantiles of the online and the target network, each ((T + n) * S, A, Q), on the CPU."""
        network, device, n_sequences = self._policy.network, self._policy.device, len(batch.places)
        # All steps of a sequence have the same shift, which differs between the two networks.
        pixels = self._place_pixels(batch.pixels, n_sequences)
        target_pixels = self._place_pixels(batch.pixels, n_sequences) if self._settings.shift_px else pixels
        features = self._policy.normalise(batch.features).to(device)
        inputs = _Inputs(features, pixels, batch.memory.to(device), batch.is_first.to(device))
        first, length = self._replay.burn_in_steps, self._replay.length
        end = first + self._replay.sequence_steps
        memory = _burn_in(network, inputs, first)
        with torch.enable_grad():
            seen, memory = network.see_steps(*inputs.steps(first, end, memory))
        more, _ = network.see_steps(*inputs.steps(end, length, memory))
        online = network.estimate_both(seen, more)
        inputs = inputs._replace(pixels=target_pixels)
        seen, _ = self._target.see_steps(*inputs.steps(first, length, _burn_in(self._target, inputs, first)))
        return online.cpu(), self._target.estimate(seen).cpu()

    def _sequence_errors(self, known: Tensor) -> Tensor:
        """Return the weighted largest and mean error of each sequence, float32 (S,), for the known learned steps."""
        n_steps, eta = self._replay.sequence_steps, self._replay_settings.eta
        errors = torch.zeros(len(self._loss.errors))
        errors[known] = self._loss.errors[: len(known)]
        errors = errors.view(n_steps, -1)
        n_known = self._sequences.is_known.view(n_steps, -1).sum(0).clamp(min=1)
        return eta * errors.amax(0) + (1.0 - eta) * errors.sum(0) / n_known


def _burn_in(network: QNetwork, inputs: _Inputs, n_steps: int) -> Tensor:
    """Return the state of the recurrent layer after the first steps, float32 (S, M)."""
    if not n_steps:
        return inputs.memory
    return network.see_steps(*inputs.steps(0, n_steps, inputs.memory))[1]
