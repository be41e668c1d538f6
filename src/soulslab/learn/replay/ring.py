"""The newest steps of each environment, in the order in which they were lived.

Shapes: E streams (environments), L rows per stream, S bytes per row, K frames stacked.

Stream e owns the places ``e * L`` to ``e * L + L - 1`` and writes them round and round. The running number of a row
counts the rows that its stream has ever had, from 0; row ``r`` lies at place ``e * L + r % L``.
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
from soulslab.learn.replay.elements import Outcome, StepShape, as_bytes, row_type
from soulslab.learn.replay.kernel import kernel

#: Rows that one call of the kernel takes in; bounds the memory that their events need.
_BLOCK: Final = 1024

# numba knows enumerations, but numbers compile in half the time.
_TERMINATED: Final = int(Outcome.TERMINATED)
_TRUNCATED: Final = int(Outcome.TRUNCATED)
_FINAL: Final = int(Outcome.FINAL)


class Link(enum.IntEnum):
    """What comes after a row; a transition can begin at it unless that is nothing."""

    NOTHING = 0
    """Its successor is not known: it is the newest, or no step, or the episode broke off, or its frames are lost."""
    NEXT = 1
    """The next row of the stream."""
    END = 2
    """Nothing, as the episode terminated."""


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
"""What a walk along a stream reads of each row, and its `Link`; five steps fit into one fetch from memory, so walking
costs next to nothing beside copying the two observations at its ends."""


class Ring:
    """Rows of E streams, the oldest of each overwritten first.

    Attributes:
        rows: Record array (E * L,) of ``elements.row_type``.
        bytes: The same memory, uint8 (E * L, S).
        heads: What is needed of each row without its observation, record array (E * L,) of `HEAD`.
        written: Rows that each stream has ever had, int64 (E,).
        n_per_stream: L.
    """

    def __init__(self, shape: StepShape, capacity: int, n_streams: int, path: Path | None = None) -> None:
        """Make room for rows; memory is taken from the system as it fills.

        Args:
            shape: Sizes of a step.
            capacity: Rows of all streams together; each gets ``capacity // n_streams``.
            n_streams: E.
            path: File to keep the rows in, instead of memory; overwritten, and gone with the process.

        Raises:
            ConfigError: The capacity is too small for so many streams.
            CheckpointError: The file cannot be made, or the disk has no room for it.
        """
        self.n_per_stream = capacity // n_streams
        needed = max(2, shape.frame_stack + 1)  # a step and what followed, and the frames before it
        if self.n_per_stream < needed:
            raise ConfigError(
                f"{capacity} steps for {n_streams} environments leave {self.n_per_stream} to each, but a transition "
                f"needs {needed}; set it to {needed * n_streams} at least",
                path="replay.capacity",
            )
        n = self.n_per_stream * n_streams
        dtype = row_type(shape)
        self.rows = np.zeros(n, dtype) if path is None else _map(path, n, dtype)
        self.bytes = as_bytes(self.rows)
        self.heads = np.zeros(n, HEAD)
        self.written = np.zeros(n_streams, np.int64)
        self._n_frames = shape.frame_stack
        # What follows the last column only fills up the row, with anything.
        self._n_filled = max(field[1] + field[0].itemsize for field in (dtype.fields or {}).values())
        self._events = np.empty(_BLOCK * (shape.frame_stack + 2), np.int64)

    def __len__(self) -> int:
        """Return how many rows are kept."""
        return int(np.minimum(self.written, self.n_per_stream).sum())

    def append(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """Take in rows, those of each stream in order.

        Args:
            rows: Record array (n,), without gaps, that has passed ``incoming.check_rows``.

        Returns:
            What changed for the samplers, int64 (m,), in this order: a place where a transition can begin from now
            on, or ``~place`` where none can any more.
        """
        data, heads, streams = as_bytes(rows), _heads(rows), rows["stream"]
        found = []
        for i in range(0, len(rows), _BLOCK):
            n_events = _append(
                self.bytes,
                self.heads,
                self.written,
                data[i : i + _BLOCK],
                heads[i : i + _BLOCK],
                streams[i : i + _BLOCK],
                self._n_filled,
                self._n_frames,
                self._events,
            )
            found.append(self._events[:n_events].copy())
        return found[0] if len(found) == 1 else np.concatenate([np.empty(0, np.int64), *found])

    def oldest(self) -> NDArray[np.int64]:
        """Return the running number of the oldest row of each stream, int64 (E,)."""
        return np.maximum(self.written - self.n_per_stream, 0)

    def places(self, stream: int, first: int, n: int) -> NDArray[np.int64]:
        """Return where n rows of a stream lie, from running number ``first`` on, int64 (n,)."""
        return stream * self.n_per_stream + np.arange(first, first + n) % self.n_per_stream

    def beginnings(self) -> NDArray[np.int64]:
        """Return the places where a transition can begin, ascending, int64 (m,)."""
        return np.flatnonzero(self.heads["link"])

    def restore(self, written: NDArray[np.int64]) -> None:
        """Find all links anew, after the rows were put into their places.

        Args:
            written: Rows that each stream has ever had, int64 (E,).
        """
        self.written[:] = written
        self.heads[:] = _heads(self.rows)
        _relink(self.heads, self.written, self._n_frames)


def _map(path: Path, n: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return zeroed rows (n,) in a file whose room is reserved now: a mapped page that finds the disk full kills."""
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
                # Without its name nobody else can overwrite it, and whatever ends the process, its room is free again.
                # Windows does not let go of a name in use; there it stays, and the folder's next run takes it over.
                with suppress(PermissionError):
                    path.unlink()


def _heads(rows: NDArray[Any]) -> NDArray[Any]:
    """Return the heads of rows, linked to nothing."""
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
    """Write rows and keep the links; return how many events there were."""
    length = len(heads) // len(written)
    n_events = 0
    for i in range(len(new)):
        stream = np.int64(streams[i])  # unsigned and signed would make floats
        start, number = stream * length, written[stream]
        here = start + number % length
        if heads[here]["link"] != _NOTHING:
            events[n_events] = ~here
            n_events += 1
        for j in range(n_filled):
            rows[here, j] = new[i, j]
        heads[here] = new_heads[i]
        written[stream] = number + 1
        oldest = number + 1 - length
        if oldest >= 0:
            for lost in range(oldest, oldest + n_frames - 1):  # their stacks reached back to what is gone
                place = start + lost % length
                if heads[place]["is_first"]:
                    break
                if heads[place]["link"] != _NOTHING:
                    heads[place]["link"] = _NOTHING
                    events[n_events] = ~place
                    n_events += 1
        for each in range(max(number - 1, 0), number + 1):
            place = start + each % length
            link = _link(heads, start, length, each, number + 1, n_frames)
            if link != heads[place]["link"]:
                heads[place]["link"] = link
                events[n_events] = place
                n_events += 1
    return n_events


@kernel
def _relink(heads: NDArray[Any], written: NDArray[np.int64], n_frames: int) -> None:
    """Find the links of all rows; those of the heads must be nothing."""
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
    """Return the link of one row; its stream begins at place ``start`` and has had ``end`` rows."""
    outcome = heads[start + number % length]["outcome"]
    if outcome == _FINAL:
        return _NOTHING
    if outcome != _TERMINATED:
        after = start + (number + 1) % length
        if number + 1 >= end or heads[after]["is_first"]:
            return _NOTHING
        if (outcome == _TRUNCATED) != (heads[after]["outcome"] == _FINAL):
            return _NOTHING
    for back in range(n_frames - 1):  # are all frames of its stack still there?
        if heads[start + (number - back) % length]["is_first"]:
            break
        if number - back - 1 < max(0, end - length):
            return _NOTHING
    return _END if outcome == _TERMINATED else _NEXT
