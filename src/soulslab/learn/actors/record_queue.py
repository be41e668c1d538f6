"""A queue of records in shared memory, from one process to another, that survives the death of either.

Records are numbered from 0. The writer owns the counter ``HEAD``, the number of the next record: it writes records
before it advances the counter, so a writer that is killed leaves complete records only. The reader owns the counter
``FREED``: records below it are no longer needed. Records that were taken but not freed stay, so a reader that was
killed takes them again. Each record is stored with its number and a checksum over both: if a processor makes stores
visible out of order, an incomplete record counts as not yet written.
"""

from __future__ import annotations

import time
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from soulslab.errors import ChannelError
from soulslab.learn.actors.memory_block import MemoryBlock, create_block, open_block

DAMAGED_AFTER_S: Final = 5.0
"""A record is damaged if it is announced and its checksum is still wrong after this time (s)."""

_HEAD, _DROPPED, _FREED = range(3)
_STAMP: Final = np.dtype([("number", "<u8"), ("checksum", "<u8")])


class RecordQueue:
    """A queue; one process may write to it and one may read.

    Attributes:
        capacity: Number of records that fit into the queue.
    """

    def __init__(self, block: MemoryBlock, item_type: np.dtype[Any]) -> None:
        """Use a block; see `create_queue` and `open_queue`."""
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
        """Random number that identifies the memory."""
        return self._block.token

    @property
    def head(self) -> int:
        """Number of the next record to be written."""
        return self._block.get(_HEAD)

    @property
    def freed(self) -> int:
        """Number of the oldest record that can still be taken."""
        return self._block.get(_FREED)

    @property
    def position(self) -> int:
        """Number of the next record that this reader takes."""
        return self._position

    @property
    def n_dropped(self) -> int:
        """Number of records that the writer dropped."""
        return self._block.get(_DROPPED)

    def push(self, items: NDArray[Any]) -> bool:
        """Append all records, or none if there is not enough space.

        Args:
            items: Records of the item type, (n,).

        Returns:
            Whether there was enough space.
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
        """Count ``n`` records that the writer dropped."""
        self._block.set(_DROPPED, self.n_dropped + n)

    def take(self) -> NDArray[Any]:
        """Return copies of the records that have arrived since the last call, oldest first.

        Raises:
            ChannelError: A record is damaged.
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
        # Records that wait for a checkpoint may fill half of the queue; then the oldest of them are freed.
        self.free(self._position - self.capacity // 2)
        return raw[:n_right].reshape(-1).view(self._item_type)

    def go_to(self, position: int) -> int:
        """Continue with the record of this number; return how many records from there on are lost.

        Raises:
            ChannelError: No record of this number has been written.
        """
        if position > self.head:
            raise ChannelError(
                self._block.path,
                f"has {self.head} records, but a checkpoint refers to record {position}; it belongs to another run: "
                "remove it",
            )
        self._position = max(position, self.freed)
        return self._position - position

    def free(self, position: int) -> None:
        """Free the records before this one, which the reader has saved."""
        if position > self.freed:
            self._block.set(_FREED, position)

    def _n_right(self, raw: NDArray[np.uint8], stamps: NDArray[Any]) -> int:
        """Return the number of consecutive valid records, starting with the oldest."""
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
                f"record {number} is damaged; remove the file, which loses the steps after the last checkpoint",
            )


def create_queue(path: Path, kind: str, item_type: np.dtype[Any], capacity: int, token: int) -> RecordQueue:
    """Make an empty queue for records of this type; see `create_block`."""
    return RecordQueue(
        create_block(path, kind, str(item_type.descr), slot_size(item_type) * capacity, token), item_type
    )


def open_queue(path: Path, kind: str, item_type: np.dtype[Any]) -> RecordQueue:
    """Open a queue; see `open_block`."""
    return RecordQueue(open_block(path, kind, str(item_type.descr)), item_type)


def slot_size(item_type: np.dtype[Any]) -> int:
    """Return the size of a record in the queue in bytes: a multiple of 8, so that the numbers are aligned."""
    return _STAMP.itemsize + -(-item_type.itemsize // 8) * 8


def _checksum(raw: NDArray[np.uint8], number: int) -> int:
    return zlib.crc32(raw.data, number & 0xFFFFFFFF)
