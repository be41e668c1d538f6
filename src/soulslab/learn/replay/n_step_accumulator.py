"""N-step transitions, computed when they are drawn.

Shapes: B batch, F features, A actions, S bytes per row, K frames stacked, P points of a frame, C its channels.

Nothing is stored per n-step transition. If the n-step returns were computed when the steps arrive, as is usual, the
newest n - 1 steps of each environment would have to wait outside of the buffer, and each observation would be stored
twice. ``python -m benchmarks replay`` measures the cost of reading n consecutive rows of one stream.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from soulslab.learn.replay.numba_kernel import kernel
from soulslab.learn.replay.row_ring import Link, Ring
from soulslab.learn.replay.step_rows import Batch, StepShape, Transitions

_NOTHING = int(Link.NOTHING)
_END = int(Link.END)


#: A `Batch` as arrays that share its memory, with observations as bytes, because they are only copied: features are
#: uint8 (B, 4 * F), pixels uint8 (B, P, K, C), and actions int64 (B,).
BatchArrays: TypeAlias = Transitions[NDArray[Any]]


class Accumulator:
    """Computes the transitions that start at given places of a ring."""

    def __init__(self, ring: Ring, shape: StepShape) -> None:
        self._ring = ring
        self._blocked_at = (ring.rows.dtype.fields or {})["blocked"][1]
        self._frames: NDArray[np.uint8] | None = None
        self._stack = (0, 0, 0)  # P, K, C
        if shape.pixels is not None:
            # A single frame is copied as if it had more points of one channel.
            channels = shape.pixels.n_channels if shape.frame_stack > 1 else 1
            self._frames = ring.rows["pixels"].reshape(len(ring.rows), -1)
            self._stack = self._frames.shape[1] // channels, shape.frame_stack, channels

    def view(self, batch: Batch) -> BatchArrays:
        """Return a batch from ``ReplayBuffer.make_batch``, or a part of one, as arrays that share its memory."""
        n = len(batch.places)
        columns: list[Any] = [column.numpy() if column is not None else None for column in batch]
        arrays = BatchArrays(*columns)
        return arrays._replace(
            features=arrays.features.view(np.uint8),
            pixels=arrays.pixels.reshape(n, *self._stack) if arrays.pixels is not None else None,
            actions=arrays.actions.reshape(n),
            next_features=arrays.next_features.view(np.uint8),
            next_pixels=arrays.next_pixels.reshape(n, *self._stack) if arrays.next_pixels is not None else None,
        )

    def fill(self, batch: BatchArrays, n_steps: int, gamma: float) -> None:
        """Write the transitions of at most n steps that start at ``batch.places``, except for the weights.

        A terminated episode has no next observation: its last observation is used instead, with discount 0.
        """
        ring, places = self._ring, batch.places
        ends = np.empty(len(places), np.int64)
        heads, length = ring.heads, ring.n_per_stream
        accumulate(heads, length, places, n_steps, gamma, batch.actions, batch.rewards, batch.discounts, ends)
        self.copy(places, batch.features, batch.blocked, batch.pixels)
        self.copy(ends, batch.next_features, batch.next_blocked, batch.next_pixels)

    def copy(
        self,
        places: NDArray[np.int64],
        features: NDArray[np.uint8],
        blocked: NDArray[np.bool_],
        pixels: NDArray[np.uint8] | None,
    ) -> None:
        """Copy the observations at places, int64 (B,), to arrays as those of :meth:`view`."""
        ring = self._ring
        _copy_observations(ring.bytes, places, self._blocked_at, features, blocked)
        if self._frames is not None and pixels is not None:
            pixels = pixels.reshape(len(places), *self._stack)
            _copy_frames(self._frames, ring.heads, ring.n_per_stream, places, pixels)


@kernel
def accumulate(
    heads: NDArray[Any],
    length: int,
    places: NDArray[np.int64],
    n_steps: int,
    gamma: float,
    actions: NDArray[np.int64],
    rewards: NDArray[np.float32],
    discounts: NDArray[np.float32],
    ends: NDArray[np.int64],
) -> None:
    """Write the n-step return from each place on, and the place of its next observation to ``ends``.

    The n-step return of Sutton & Barto 2018, "Reinforcement Learning", equation 7.1, with ``gamma**k`` instead of gamma
    for a step that took k decisions. A step that terminated ends it with discount 0. It ends early, and bootstraps, at
    the final observation of a truncated episode, and at the last known observation of a stream or of an incomplete
    episode.
    """
    for i in range(len(places)):  # a separate loop, so that the memory accesses overlap
        actions[i] = heads[places[i]]["action"]
    for i in range(len(places)):
        place = places[i]
        start = place - place % length
        total, discount = 0.0, 1.0
        for _ in range(n_steps):
            link = heads[place]["link"]
            if link == _NOTHING:
                break
            total += discount * heads[place]["reward"]
            if link == _END:
                discount = 0.0
                break
            discount *= gamma ** np.int64(heads[place]["n_decisions"])
            place = place + 1 if place + 1 < start + length else start
        rewards[i] = total
        discounts[i] = discount
        ends[i] = place


@kernel
def _copy_observations(
    rows: NDArray[np.uint8],
    places: NDArray[np.int64],
    blocked_at: int,
    features: NDArray[np.uint8],
    blocked: NDArray[np.bool_],
) -> None:
    """Copy the features, which are at the start of a row, and unpack the forbidden actions."""
    n_bytes = features.shape[1]
    for i in range(len(places)):
        place = places[i]  # slicing the row instead would count references, which is ten times slower than the copy
        for j in range(n_bytes):
            features[i, j] = rows[place, j]
    for i in range(len(places)):  # a separate loop, so that the memory accesses overlap
        place = places[i]
        for j in range(blocked.shape[1]):
            blocked[i, j] = (rows[place, blocked_at + (j >> 3)] >> (7 - (j & 7))) & 1


@kernel
def _copy_frames(
    frames: NDArray[np.uint8],
    heads: NDArray[Any],
    length: int,
    places: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> None:
    """Stack the frames (E * L, P * C) that end at each place, oldest first, in ``out`` (B, P, K, C)."""
    _, n_points, n_frames, n_channels = out.shape
    for i in range(len(places)):
        place = places[i]
        start = place - place % length
        for k in range(n_frames - 1, -1, -1):
            if n_channels == 1:  # the same as below, but six times faster
                for point in range(n_points):
                    out[i, point, k, 0] = frames[place, point]
            else:
                for point in range(n_points):
                    for channel in range(n_channels):
                        out[i, point, k, channel] = frames[place, point * n_channels + channel]
            if not heads[place]["is_first"]:  # the first frame of an episode is repeated
                place = place - 1 if place > start else start + length - 1
