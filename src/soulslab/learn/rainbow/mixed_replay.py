"""Batches from two replay buffers: the transitions of the policy, and recorded ones."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from soulslab.learn.replay.replay_buffer import ReplayBuffer
from soulslab.learn.replay.replay_settings import ReplaySettings
from soulslab.learn.replay.step_rows import Batch, StepShape


class TransitionSource(Protocol):
    """Source of transitions: one replay buffer, or two that fill a batch together."""

    def make_batch(self, batch_size: int) -> Batch:
        """Allocate a batch of ``batch_size`` transitions."""

    def sample(self, batch: Batch, *, n_steps: int, gamma: float, beta: float, rng: np.random.Generator) -> None:
        """Fill a batch with random transitions."""

    def priorities(self, places: Tensor) -> NDArray[np.float64]:
        """Return the priorities of the transitions at these places, float64 (B,)."""

    def set_priorities(self, places: Tensor, errors: Tensor) -> None:
        """Set the priorities of the transitions at these places from their errors."""


class CountedSource(TransitionSource, Protocol):
    """Source of transitions whose number is known; see ``replay_buffer.ReplayBuffer``."""

    @property
    def n_sampleable(self) -> int:
        """Number of transitions that can be drawn."""


class MixedReplay:
    """Draws a fixed share of each batch from recorded episodes and the rest from the policy's transitions.

    Vecerik et al. 2017, "Leveraging demonstrations for deep reinforcement learning", store both in one buffer and mix
    them by priority. With a fixed share (Ball et al. 2023, "Efficient online reinforcement learning with offline data":
    one half) the mixture does not change while the policy's buffer grows a hundred times larger.

    Attributes:
        own: Transitions of the policy.
        shown: Recorded transitions.
    """

    def __init__(self, own: CountedSource, shown: CountedSource, share: float) -> None:
        """Combine two sources.

        Args:
            own: Transitions of the policy.
            shown: Recorded transitions; must not be empty.
            share: Share of each batch from the recorded ones, 0..1; rounded to whole transitions.
        """
        self.own = own
        self.shown = shown
        self._share = share
        self._batch: Batch | None = None
        self._n_shown = 0
        self._parts: list[tuple[CountedSource, Batch]] = []

    def make_batch(self, batch_size: int) -> Batch:
        """Allocate a batch of ``batch_size`` transitions."""
        return self.own.make_batch(batch_size)

    def sample(self, batch: Batch, *, n_steps: int, gamma: float, beta: float, rng: np.random.Generator) -> None:
        """Fill a batch, recorded transitions first; all are recorded ones while the policy has no transitions."""
        for source, part in self._split(batch):
            source.sample(part, n_steps=n_steps, gamma=gamma, beta=beta, rng=rng)

    def priorities(self, places: Tensor) -> NDArray[np.float64]:
        """Return the priorities of the last batch, float64 (B,).

        Args:
            places: Places of the transitions of that batch, int64 (B,).
        """
        found, start = [], 0
        for source, part in self._parts:
            stop = start + len(part.places)
            found.append(source.priorities(places[start:stop]))
            start = stop
        return np.concatenate(found)

    def set_priorities(self, places: Tensor, errors: Tensor) -> None:
        """Set the priorities of the last batch from its errors.

        Args:
            places: Places of the transitions of that batch, int64 (B,).
            errors: float32 (B,).
        """
        start = 0
        for source, part in self._parts:
            stop = start + len(part.places)
            source.set_priorities(places[start:stop], errors[start:stop])
            start = stop

    def _split(self, batch: Batch) -> list[tuple[CountedSource, Batch]]:
        """Return the part of the batch for each source; cached, because the same batch is used again and again."""
        n = len(batch.actions)
        n_shown = round(self._share * n) if self.own.n_sampleable else n
        if batch is not self._batch or n_shown != self._n_shown:
            self._batch, self._n_shown = batch, n_shown
            halves = ((self.shown, batch.part(0, n_shown)), (self.own, batch.part(n_shown, n)))
            self._parts = [(source, part) for source, part in halves if len(part.actions)]
        return self._parts


def shown_replay(rows: NDArray[Any], shape: StepShape, settings: ReplaySettings) -> ReplayBuffer:
    """Return a replay buffer that holds all recorded episodes.

    Args:
        rows: From :func:`soulslab.learn.demonstrations.reading.read_demonstrations`.
        shape: Sizes of a step.
        settings: Settings of the policy's replay buffer, except for the capacity.

    Raises:
        NonFiniteError: A reward or an observation is NaN or infinite.
    """
    replay = ReplayBuffer(shape, msgspec.structs.replace(settings, capacity=len(rows), is_mapped=False), 1)
    replay.append(rows)
    return replay
