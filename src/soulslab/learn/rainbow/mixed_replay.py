"""Two replay buffers that fill a batch together: what was lived, and what was shown."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from soulslab.learn.replay.buffer import ReplayBuffer
from soulslab.learn.replay.elements import Batch, StepShape
from soulslab.learn.replay.settings import ReplaySettings


class Source(Protocol):
    """What transitions are drawn from; see ``replay.buffer.ReplayBuffer``."""

    @property
    def n_sampleable(self) -> int:
        """Transitions that can be drawn."""

    def make_batch(self, batch_size: int) -> Batch:
        """Return room for so many transitions."""

    def sample(self, batch: Batch, *, n_steps: int, gamma: float, beta: float, rng: np.random.Generator) -> None:
        """Fill a batch."""

    def priorities(self, places: Tensor) -> NDArray[np.float64]:
        """Return the priorities of the transitions in these places, float64 (B,)."""

    def set_priorities(self, places: Tensor, errors: Tensor) -> None:
        """Say how large the errors of the transitions in these places were."""


class MixedReplay:
    """Fills a share of each batch from recorded fights and the rest from one's own; the learner sees one buffer.

    Vecerik et al. 2017, "Leveraging demonstrations for deep reinforcement learning", keep both in one buffer and let
    priorities mix them; a fixed share (Ball et al. 2023, "Efficient online reinforcement learning with offline data":
    half and half) stays what it is while one's own buffer grows a hundred times larger.

    Attributes:
        own: What the policy lives through.
        shown: The recorded fights.
    """

    def __init__(self, own: Source, shown: Source, share: float) -> None:
        """Put two buffers together.

        Args:
            own: What the policy lives through.
            shown: The recorded fights; must not be empty.
            share: Of each batch from the recorded fights, 0..1; rounded to whole transitions.
        """
        self.own = own
        self.shown = shown
        self._share = share
        self._batch: Batch | None = None
        self._n_shown = 0
        self._parts: list[tuple[Source, Batch]] = []

    def make_batch(self, batch_size: int) -> Batch:
        """Return room for so many transitions."""
        return self.own.make_batch(batch_size)

    def sample(self, batch: Batch, *, n_steps: int, gamma: float, beta: float, rng: np.random.Generator) -> None:
        """Fill a batch, the recorded ones first; all are recorded ones as long as nothing was lived through."""
        for source, part in self._split(batch):
            source.sample(part, n_steps=n_steps, gamma=gamma, beta=beta, rng=rng)

    def priorities(self, places: Tensor) -> NDArray[np.float64]:
        """Return the priorities of the batch drawn last, float64 (B,).

        Args:
            places: As that batch has them, int64 (B,).
        """
        found, start = [], 0
        for source, part in self._parts:
            stop = start + len(part.places)
            found.append(source.priorities(places[start:stop]))
            start = stop
        return np.concatenate(found)

    def set_priorities(self, places: Tensor, errors: Tensor) -> None:
        """Pass on how large the errors of the batch drawn last were.

        Args:
            places: As that batch has them, int64 (B,).
            errors: float32 (B,).
        """
        start = 0
        for source, part in self._parts:
            stop = start + len(part.places)
            source.set_priorities(places[start:stop], errors[start:stop])
            start = stop

    def _split(self, batch: Batch) -> list[tuple[Source, Batch]]:
        """Return who fills which part; kept, as the batch is the same and the buffers know its parts again."""
        n = len(batch.actions)
        n_shown = round(self._share * n) if self.own.n_sampleable else n
        if batch is not self._batch or n_shown != self._n_shown:
            self._batch, self._n_shown = batch, n_shown
            halves = ((self.shown, batch.part(0, n_shown)), (self.own, batch.part(n_shown, n)))
            self._parts = [(source, part) for source, part in halves if len(part.actions)]
        return self._parts


def shown_replay(rows: NDArray[Any], shape: StepShape, settings: ReplaySettings) -> ReplayBuffer:
    """Return a buffer that holds recorded fights, and drops none of them.

    Args:
        rows: From :func:`soulslab.learn.demonstrations.reading.read_demonstrations`.
        shape: Sizes of a step.
        settings: Of one's own buffer; how it draws is taken over.

    Raises:
        NonFiniteError: A reward or an observation is NaN or infinite.
    """
    replay = ReplayBuffer(shape, msgspec.structs.replace(settings, capacity=len(rows), is_mapped=False), 1)
    replay.append(rows)
    return replay
