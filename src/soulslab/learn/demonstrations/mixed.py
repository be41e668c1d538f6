"""Two replay buffers that fill a batch together: what was lived, and what was shown."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from soulslab.learn.replay.elements import Batch


class Source(Protocol):
    """What transitions are drawn from; see ``replay.buffer.ReplayBuffer``."""

    @property
    def n_sampleable(self) -> int:
        """Transitions that can be drawn."""

    def make_batch(self, batch_size: int) -> Batch:
        """Return room for so many transitions."""

    def sample(self, batch: Batch, *, n_steps: int, gamma: float, beta: float, rng: np.random.Generator) -> None:
        """Fill a batch."""

    def set_priorities(self, places: NDArray[np.int64], errors: NDArray[np.float32]) -> None:
        """Say how large the errors of the transitions in these places were."""


class MixedReplay:
    """Fills a share of each batch from recorded fights and the rest from one's own; the learner sees one buffer.

    Vecerik et al. 2017, "Leveraging demonstrations for deep reinforcement learning", keep both in one buffer and let
    priorities mix them; a fixed share (Ball et al. 2023, "Efficient online reinforcement learning with offline data":
    half and half) stays what it is while one's own buffer grows a hundred times larger.
    """

    def __init__(self, own: Source, shown: Source, share: float) -> None:
        """Put two buffers together.

        Args:
            own: What the policy lives through.
            shown: The recorded fights.
            share: Of each batch from the recorded fights, 0..1; rounded to whole transitions.
        """
        self._own = own
        self._shown = shown
        self._share = share
        self._n_shown = 0

    def make_batch(self, batch_size: int) -> Batch:
        """Return room for so many transitions."""
        return self._own.make_batch(batch_size)

    def sample(self, batch: Batch, *, n_steps: int, gamma: float, beta: float, rng: np.random.Generator) -> None:
        """Fill a batch, the recorded ones first; all are recorded ones as long as nothing was lived through."""
        n = len(batch.actions)
        self._n_shown = round(self._share * n) if self._own.n_sampleable else n
        for source, part in ((self._shown, (0, self._n_shown)), (self._own, (self._n_shown, n))):
            if part[0] < part[1]:
                source.sample(batch.part(*part), n_steps=n_steps, gamma=gamma, beta=beta, rng=rng)

    def set_priorities(self, places: NDArray[np.int64], errors: NDArray[np.float32]) -> None:
        """Pass on how large the errors of the batch drawn last were.

        Args:
            places: As that batch has them, int64 (B,).
            errors: float32 (B,).
        """
        n = self._n_shown
        for source, part in ((self._shown, slice(n)), (self._own, slice(n, None))):
            if len(places[part]):
                source.set_priorities(places[part], errors[part])
