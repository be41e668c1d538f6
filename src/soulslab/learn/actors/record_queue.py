"""A queue of records in shared memory, from one process to one other, that loses nothing when either dies.

Records are numbered from 0 for ever. The writer owns ``HEAD``, the number of the next record: it writes records first
and moves it then, so a writer that is killed leaves whole records or none. The reader owns ``FREED``: below it nothing
is needed any more. What the reader has taken but not freed stays, so a reader that is killed takes it again. Each
record is stored with its number and a checksum over both: where a processor shows stores out of their order, a record
that is not all there is seen as one that has not come yet.
"""

from __future__ import annotations

import time
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from soulslab.errors import ChannelError
from soulslab.learn.actors.memory_block import Block, create_block, open_block

DAMAGED_AFTER_S: Final = 5.0
"""A record that is announced and still not right after so long (s) will never be."""

_HEAD, _DROPPED, _FREED = range(3)
_STAMP: Final = np.dtype([("number", "<u8"), ("checksum", "<u8")])


class Ring:
    """A queue; one process may write to it and one may read.

    Attributes:
        capacity: Records that it holds.
    """

    def __init__(self, block: Block, item_type: np.dtype[Any]) -> None:
        """Use a block; see `create_ring` and `open_ring`."""
        self._block = block
        self._item_type = item_type
        size = slot_size(item_type)
        self.capacity = len(block.data) // size
        self._slots = block.data.reshape(self.capacity, size)
        stamp_size = _STAMP.itemsize
        self._stamps = self._slots[:, :stamp_size].view(_STAMP)[:, 0]
        self._items = self._slots[:, stamp_size : stamp_size + item_type.itemsize]
        self._position = 0
        self._stuck_at = (-1, 0.0)

    @property
    def token(self) -> int:
        """Random number of the memory that it belongs to."""
        return self._block.token

    @property
    def head(self) -> int:
        """Number of the record that is written next."""
        return self._block.get(_HEAD)

    @property
    def freed(self) -> int:
        """Number of the oldest record that is still there to be taken."""
        return self._block.get(_FREED)

    @property
    def position(self) -> int:
        """Number of the record that this reader takes next."""
        return self._position

    @property
    def n_dropped(self) -> int:
        """Records that the writer had to drop."""
        return self._block.get(_DROPPED)

    def push(self, items: NDArray[Any]) -> bool:
        """Append records, all or none; tell whether there was room.

        Args:
            items: Of the item type, (n,).
        """
        n, head = len(items), self.head
        if head + n - self.freed > self.capacity:
            return False
        raw = np.ascontiguousarray(items).view(np.uint8).reshape(n, self._item_type.itemsize)
        for i in range(n):
            number, slot = head + i, (head + i) % self.capacity
            self._items[slot] = raw[i]
            self._stamps[slot] = (number, _checksum(raw[i], number))
        self._block.set(_HEAD, head + n)
        return True

    def count_dropped(self, n: int) -> None:
        """Note that the writer dropped so many records."""
        self._block.set(_DROPPED, self.n_dropped + n)

    def take(self) -> NDArray[Any]:
        """Return copies of the records that have come since the last call, oldest first.

        Raises:
            ChannelError: A record is damaged for good.
        """
        n = self.head - self._position
        if n <= 0:
            return np.empty(0, self._item_type)
        slots = (self._position + np.arange(n)) % self.capacity
        raw, stamps = self._items[slots], self._stamps[slots]
        n_right = self._n_right(raw, stamps)
        if n_right < n:
            self._check_stuck(self._position + n_right)
        self._position += n_right
        # Steps that wait for a checkpoint may fill half of it; then the oldest, which this process has, make room.
        self.free(self._position - self.capacity // 2)
        return raw[:n_right].reshape(-1).view(self._item_type)

    def go_to(self, position: int) -> int:
        """Take from this record on; return how many of those after it are gone.

        Raises:
            ChannelError: So many were never written.
        """
        if position > self.head:
            raise ChannelError(
                self._block.path,
                f"has {self.head} records, but a checkpoint has seen {position}; it belongs to another run: remove it",
            )
        self._position = max(position, self.freed)
        return self._position - position

    def free(self, position: int) -> None:
        """Let the records before this one go; they are safe with the reader."""
        if position > self.freed:
            self._block.set(_FREED, position)

    def _n_right(self, raw: NDArray[np.uint8], stamps: NDArray[Any]) -> int:
        """Return how many records, from the oldest on, are what they were written as."""
        for i, (number, checksum) in enumerate(stamps.tolist()):
            if number != self._position + i or checksum != _checksum(raw[i], number):
                return i
        return len(raw)

    def _check_stuck(self, number: int) -> None:
        now = time.monotonic()
        if self._stuck_at[0] != number:
            self._stuck_at = (number, now)
        elif now - self._stuck_at[1] > DAMAGED_AFTER_S:
            raise ChannelError(
                self._block.path,
                f"record {number} is damaged; remove the file and with it the steps that no checkpoint has yet",
            )


def create_ring(path: Path, kind: str, item_type: np.dtype[Any], capacity: int, token: int) -> Ring:
    """Make an empty queue of records of this type; for the rest see `create_block`."""
    return Ring(create_block(path, kind, str(item_type.descr), slot_size(item_type) * capacity, token), item_type)


def open_ring(path: Path, kind: str, item_type: np.dtype[Any]) -> Ring:
    """Open a queue; for the rest see `open_block`."""
    return Ring(open_block(path, kind, str(item_type.descr)), item_type)


def slot_size(item_type: np.dtype[Any]) -> int:
    """Return what a record takes, in bytes: a multiple of 8, so that each number lies aligned."""
    return _STAMP.itemsize + -(-item_type.itemsize // 8) * 8


def _checksum(raw: NDArray[np.uint8], number: int) -> int:
    return zlib.crc32(raw.data, number & 0xFFFFFFFF)
