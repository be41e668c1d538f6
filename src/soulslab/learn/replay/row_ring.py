"""The newest steps of each environment, in order.

Shapes: E streams (environments), L rows per stream, S bytes per row, K frames stacked.

Stream e owns the places ``e * L`` to ``e * L + L - 1`` and overwrites them cyclically. The running number of a row
counts the rows of its stream, from 0; row ``r`` is at place ``e * L + r % L``.
"""

from __future__ import annotations

import enum
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from soulslab.errors import ConfigError
from soulslab.learn.archive import writing
from soulslab.learn.replay.numba_kernel import kernel
from soulslab.learn.replay.step_rows import Outcome, StepShape, as_bytes, row_type

# numba supports enumerations, but plain numbers compile in half the time.
_TERMINATED: Final = int(Outcome.TERMINATED)
_TRUNCATED: Final = int(Outcome.TRUNCATED)
_FINAL: Final = int(Outcome.FINAL)


class Link(enum.IntEnum):
    """What follows a row; a transition can start at any row but those with `NOTHING`."""

    NOTHING = 0
    """Unknown: the row is the newest, or not a step, or the episode is incomplete, or its frames are overwritten."""
    NEXT = 1
    """The next row of the stream."""
    END = 2
    """No row, because the episode terminated."""


_NOTHING: Final = int(Link.NOTHING)
_NEXT: Final = int(Link.NEXT)
_END: Final = int(Link.END)

_COPIED: Final = ("reward", "n_decisions", "action", "outcome", "is_first")

HEAD: Final = np.dtype(
    [
        ("reward", "<f4"),
        ("n_decisions", "<u2"),
        ("action", "<i2"),
        ("outcome", "u1"),
        ("is_first", "u1"),
        ("link", "u1"),
    ],
    align=True,
)
"""The part of each row that is needed to compute an n-step return, and its `Link`. It is small, so that five steps fit
into one cache line; the cost is then negligible compared to copying the two observations of a transition."""


class Ring:
    """Rows of E streams; the oldest row of a stream is overwritten first.

    Attributes:
        rows: Record array (E * L,) of ``step_rows.row_type``.
        bytes: The same memory, uint8 (E * L, S).
        heads: The values of each row without its observation, record array (E * L,) of `HEAD`.
        written: Number of rows that were written to each stream, int64 (E,).
        n_per_stream: Number of rows per stream, L.
    """

    def __init__(self, shape: StepShape, capacity: int, n_streams: int, path: Path | None = None) -> None:
        """Allocate the rows; the system assigns the memory as it fills.

        Each of the E streams gets ``capacity // n_streams`` rows. ``path`` is a file for the rows instead of memory; it
        is overwritten, and removed when the process ends. Raises ConfigError for a too small capacity, CheckpointError
        without enough space on the disk.
        """
        self.n_per_stream = capacity // n_streams
        needed = max(2, shape.frame_stack + 1)  # a step, its successor, and the frames before it
        if self.n_per_stream < needed:
            raise ConfigError(
                f"{capacity} steps for {n_streams} environments are {self.n_per_stream} for each, but a transition "
                f"needs {needed}; set it to at least {needed * n_streams}",
                path="replay.capacity",
            )
        n = self.n_per_stream * n_streams
        dtype = row_type(shape)
        self.rows = _map(path, n, dtype) if path is not None else np.zeros(n, dtype)
        self.bytes = as_bytes(self.rows)
        self.heads = np.zeros(n, HEAD)
        self.written = np.zeros(n_streams, np.int64)
        self._n_frames = shape.frame_stack
        # The bytes after the last column are padding.
        self._n_filled = max(field[1] + field[0].itemsize for field in (dtype.fields or {}).values())

    def __len__(self) -> int:
        return int(np.minimum(self.written, self.n_per_stream).sum())

    def append(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """Append contiguous rows (n,) that ``ReplayBuffer`` validated, those of each stream in order.

        Returns the changes for the samplers, int64 (m,), in order: a place at which a transition can start from now on,
        or ``~place`` for a place at which none can start any more.
        """
        new = as_bytes(rows), _heads(rows), rows["stream"]
        events = np.empty(len(rows) * (self._n_frames + 2), np.int64)
        n_events = _append(self.bytes, self.heads, self.written, *new, self._n_filled, self._n_frames, events)
        return events[:n_events]

    def oldest(self) -> NDArray[np.int64]:
        """Return the running number of the oldest row of each stream, int64 (E,)."""
        return np.maximum(self.written - self.n_per_stream, 0)

    def places(self, stream: int, first: int, n: int) -> NDArray[np.int64]:
        """Return the places of n rows of a stream, starting with running number ``first``, int64 (n,)."""
        return stream * self.n_per_stream + np.arange(first, first + n) % self.n_per_stream

    def beginnings(self) -> NDArray[np.int64]:
        """Return the places at which a transition can start, ascending, int64 (m,)."""
        return np.flatnonzero(self.heads["link"])

    def restore(self, written: NDArray[np.int64]) -> None:
        """Compute all links after this number of rows of each stream, int64 (E,), was written to the places."""
        self.written[:] = written
        self.heads[:] = _heads(self.rows)
        _relink(self.heads, self.written, self._n_frames)


def _map(path: Path, n: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return zeroed rows (n,) in a file whose space is allocated now; a page without space would kill the process."""
    n_bytes = n * dtype.itemsize
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w+b") as file:
            try:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, n_bytes)
                else:
                    file.truncate(n_bytes)
                return np.asarray(np.memmap(file, dtype, "r+", shape=(n,)))
            finally:
                # Without a name, no other process can overwrite the file, and its space is freed with the process.
                # Windows does not remove a file in use; there it stays until the next run of the folder reuses it.
                with suppress(PermissionError):
                    path.unlink()


def _heads(rows: NDArray[Any]) -> NDArray[Any]:
    """Return the heads of rows, with `NOTHING` as link."""
    heads = np.zeros(len(rows), HEAD)
    for name in _COPIED:
        heads[name] = rows[name]
    return heads


@kernel
def _append(
    rows: NDArray[np.uint8],
    heads: NDArray[Any],
    written: NDArray[np.int64],
    new: NDArray[np.uint8],
    new_heads: NDArray[Any],
    streams: NDArray[np.uint16],
    n_filled: int,
    n_frames: int,
    events: NDArray[np.int64],
) -> int:
    """Write rows and update the links; return the number of events."""
    length = len(heads) // len(written)
    n_events = 0
    for i in range(len(new)):
        stream = np.int64(streams[i])  # mixing unsigned and signed integers would give floats
        start, number = stream * length, written[stream]
        here = start + number % length
        if heads[here]["link"] != _NOTHING:
            events[n_events] = ~here
            n_events += 1
        for j in range(n_filled):
            rows[here, j] = new[i, j]
        heads[here] = new_heads[i]
        written[stream] = number + 1
        # First the rows whose stacks may contain an overwritten frame, then the row before and the new row.
        oldest = max(0, number + 1 - length)
        for k in range(n_frames + 1):
            each = oldest + k if k < n_frames - 1 else max(0, number - n_frames + k)
            place = start + each % length
            link = _link(heads, start, length, each, number + 1, n_frames)
            if link != heads[place]["link"]:
                heads[place]["link"] = link
                events[n_events] = place if link != _NOTHING else ~place
                n_events += 1
    return n_events


@kernel
def _relink(heads: NDArray[Any], written: NDArray[np.int64], n_frames: int) -> None:
    """Compute the links of all rows; those of the heads must be `NOTHING`."""
    length = len(heads) // len(written)
    for stream in range(len(written)):
        start, end = stream * length, written[stream]
        for number in range(max(0, end - length), end):
            heads[start + number % length]["link"] = _link(heads, start, length, number, end, n_frames)


@kernel
def _link(
    heads: NDArray[Any],
    start: np.int64 | int,
    length: int,
    number: np.int64 | int,
    end: np.int64 | int,
    n_frames: int,
) -> int:
    """Return the link of one row; its stream starts at place ``start`` and has had ``end`` rows."""
    outcome = heads[start + number % length]["outcome"]
    if outcome == _FINAL:
        return _NOTHING
    if outcome != _TERMINATED:
        after = start + (number + 1) % length
        if number + 1 >= end or heads[after]["is_first"]:
            return _NOTHING
        if (outcome == _TRUNCATED) != (heads[after]["outcome"] == _FINAL):
            return _NOTHING
    for back in range(n_frames - 1):  # check whether all frames of its stack are still stored
        if heads[start + (number - back) % length]["is_first"]:
            break
        if number - back - 1 < max(0, end - length):
            return _NOTHING
    return _END if outcome == _TERMINATED else _NEXT
