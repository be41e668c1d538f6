"""First priorities of transitions, from the values with which their actions were chosen.

A prioritised sampler gives a new transition the largest priority so far, because its error is unknown. An actor that
evaluates the network to choose an action knows the value of this action and that of the best one, so the error can be
computed without another evaluation (Horgan et al. 2018, "Distributed prioritized experience replay", algorithm 1).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from soulslab.learn.replay.n_step_accumulator import accumulate
from soulslab.learn.replay.row_ring import Link, Ring

_TAKEN: Final = 0
_BEST: Final = 1


class FirstPriorities:
    """Values of the actions of the rows of a ring; NaN where they are unknown."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._values = np.full((len(ring.rows), 2), np.nan, np.float32)

    @property
    def n_bytes(self) -> int:
        """Size in memory (bytes)."""
        return self._values.nbytes

    def clear(self) -> None:
        """Forget all values."""
        self._values[:] = np.nan

    def compute(self, rows: NDArray[Any], n_steps: int, gamma: float) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the places of transitions, int64 (m,), and their absolute errors, float32 (m,), after an append.

        ``rows`` (n,) were just appended to the ring. The transitions are the new ones, and those of at most n steps
        that the rows have extended. The error is ``|n-step return + discount * best value - action value|``, with the
        steps that are known. Transitions are left out if the values of their first or next observation are unknown, for
        example because an action was random.
        """
        ring = self._ring
        new, places = self._store(rows, n_steps)
        places = places[ring.heads["link"][places] != Link.NOTHING]
        returns, discounts = (np.empty(len(places), np.float32) for _ in range(2))
        actions, ends = (np.empty(len(places), np.int64) for _ in range(2))
        accumulate(ring.heads, ring.n_per_stream, places, n_steps, gamma, actions, returns, discounts, ends)
        following = np.where(discounts > 0.0, self._values[ends, _BEST], 0.0)
        with np.errstate(over="ignore", invalid="ignore"):  # by values that no network computes
            errors = np.abs(returns + discounts * following - self._values[places, _TAKEN])
        # An older episode that was complete may have newer priorities, from updates.
        is_set = np.isfinite(errors) & np.isin(ends, new)
        return places[is_set], errors[is_set]

    def _store(self, rows: NDArray[Any], n_steps: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Store the values of rows; return their places, and these with those of the n rows before in each stream."""
        ring, streams = self._ring, rows["stream"]
        values = np.column_stack([rows["action_value"], rows["best_value"]])
        values[rows["is_valued"] == 0] = np.nan
        new, places = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for stream in np.flatnonzero(np.bincount(streams)).tolist():
            kept = np.flatnonzero(streams == stream)[-ring.n_per_stream :]  # the others are overwritten
            end = int(ring.written[stream])
            new.append(ring.places(stream, end - len(kept), len(kept)))
            self._values[new[-1]] = values[kept]
            first = max(end - len(kept) - n_steps, int(ring.oldest()[stream]))
            places.append(ring.places(stream, first, end - first))
        return np.concatenate(new), np.concatenate(places)
