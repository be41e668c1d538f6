"""Memory that two processes map: `MemoryBlock`, a file with a header, counters and data, and `RecordQueue` in it.

The file outlives both processes, so the data survive a crash of either. Two properties are assumed: an aligned number
of 64 bits is read and written atomically (true of x86-64 and of 64-bit ARM, where it is one instruction), and each
counter has one writer. On x86-64 other processes see stores in their order (Intel SDM volume 3, "Memory Ordering"). The
format is also safe where they do not: data carry checksums, and data with a wrong checksum count as not yet written.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from soulslab.errors import ChannelError

VERSION: Final = 1
N_COUNTERS: Final = 16

_MAGIC: Final = b"soulapar"
_HEADER: Final = np.dtype(
    [("magic", "S8"), ("version", "<u8"), ("kind", "S16"), ("digest", "u1", (32,)), ("token", "<u8"), ("n_data", "<u8")]
)
# Each counter has its own cache line, so that writers do not slow each other down; the data start at a page boundary.
_COUNTERS_AT: Final = 256
_LINE: Final = 64
_DATA_AT: Final = 4096


class MemoryBlock:
    """A mapped file of memory; counters, uint64, and data, uint8 (n,), are all 0 at first.

    Each counter has one writer. ``token`` is a random number that identifies the memory.
    """

    def __init__(self, path: Path, mapped: mmap.mmap) -> None:
        self.path = path
        self._mapped = mapped
        header = np.frombuffer(mapped, _HEADER, 1)[0]
        self.token = int(header["token"])
        lines = np.frombuffer(mapped, "<u8", N_COUNTERS * _LINE // 8, _COUNTERS_AT)
        self.counters: NDArray[np.uint64] = lines.reshape(N_COUNTERS, -1)[:, 0]
        self.data: NDArray[np.uint8] = np.frombuffer(mapped, np.uint8, int(header["n_data"]), _DATA_AT)

    def get(self, counter: int) -> int:
        """Return a counter."""
        return int(self.counters[counter])

    def set(self, counter: int, value: int) -> None:
        """Set a counter; a process that reads the new value sees everything written before it (x86-64)."""
        self.counters[counter] = value

    def close(self) -> None:
        """Unmap the file, of which no other array may be left; a second call does nothing."""
        self.counters, self.data = np.empty(0, np.uint64), np.empty(0, np.uint8)
        self._mapped.close()


def create_block(path: Path, kind: str, layout: str, n_data: int, token: int) -> MemoryBlock:
    """Make a file of memory of this kind (at most 16 ASCII characters); an existing one is replaced.

    ``layout`` describes the data, and `open_block` must be given the same. ``token`` is a random number that identifies
    the memory. Raises ChannelError without enough space.
    """
    header = np.zeros(1, _HEADER)
    header[0] = (_MAGIC, VERSION, kind.encode(), np.frombuffer(_digest(layout), np.uint8), token, n_data)
    temporary = path.with_name(f".{path.name}.tmp")
    with _touching(path, "made"):
        try:
            with temporary.open("wb") as file:
                if hasattr(os, "posix_fallocate"):  # a process that later writes to a missing page would be killed
                    os.posix_fallocate(file.fileno(), 0, _DATA_AT + n_data)
                else:
                    os.ftruncate(file.fileno(), _DATA_AT + n_data)
                file.write(header.tobytes())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    return open_block(path, kind, layout)


def open_block(path: Path, kind: str, layout: str) -> MemoryBlock:
    """Map a file of memory; raises ChannelError if it is damaged or has another kind, version or layout."""
    with _touching(path, "opened"), path.open("r+b") as file:
        n_bytes = os.fstat(file.fileno()).st_size
        if n_bytes < _DATA_AT:
            raise ChannelError(path, f"is not shared memory of an actor ({n_bytes} bytes); remove it")
        mapped = mmap.mmap(file.fileno(), 0)
    header: Any = np.frombuffer(mapped, _HEADER, 1)[0]
    if header["magic"] != _MAGIC or header["kind"] != kind.encode():
        raise ChannelError(path, f"is not shared memory of an actor for {kind}; remove it")
    if header["version"] != VERSION:
        raise ChannelError(
            path,
            f"has version {header['version']}, but this soulslab reads version {VERSION}; end its actor, or remove the "
            "file, which loses the steps after the last checkpoint",
        )
    if header["digest"].tobytes() != _digest(layout):
        raise ChannelError(
            path,
            "has the layout of other observations, actions or settings; resume the run with its original settings, "
            "or remove the file, which loses the steps after the last checkpoint",
        )
    if n_bytes != _DATA_AT + int(header["n_data"]):
        raise ChannelError(path, f"has {n_bytes} bytes instead of {_DATA_AT + int(header['n_data'])}; remove it")
    return MemoryBlock(path, mapped)


def _digest(layout: str) -> bytes:
    return hashlib.sha256(layout.encode()).digest()


@contextmanager
def _touching(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ChannelError(
            path, f"could not be {what}: {error.strerror or error}; it is the memory between actor and learner"
        ) from error


DAMAGED_AFTER_S: Final = 5.0
"""A record is damaged if it is announced and its checksum is still wrong after this time (s)."""

_HEAD, _DROPPED, _FREED = range(3)
_STAMP: Final = np.dtype([("number", "<u8"), ("checksum", "<u8")])


class RecordQueue:
    """A queue of records from one process to another; one may write to it and one may read.

    Records are numbered from 0. The writer owns the counter of the next record: it writes records before it advances
    the counter, so a writer that is killed leaves complete records only. The reader owns the counter of freed records.
    Records that were taken but not freed stay, so a reader that was killed takes them again. Each record is stored with
    its number and a checksum over both: if a processor makes stores visible out of order, an incomplete record counts
    as not yet written. ``position`` is the number of the next record that this reader takes.
    """

    def __init__(self, block: MemoryBlock, item_type: np.dtype[Any]) -> None:
        """Use a block whose size is a multiple of `slot_size`."""
        self._block = block
        self._item_type = item_type
        size = slot_size(item_type)
        self.capacity = len(block.data) // size
        self._slots = block.data.reshape(self.capacity, size)
        stamp_size = _STAMP.itemsize
        self._stamps = self._slots[:, :stamp_size].view(_STAMP)[:, 0]
        self._items = self._slots[:, stamp_size : stamp_size + item_type.itemsize]
        self.position = 0
        self._stuck_at = (-1, 0.0)

    @property
    def head(self) -> int:
        """Number of the next record to be written."""
        return self._block.get(_HEAD)

    @property
    def freed(self) -> int:
        """Number of the oldest record that can still be taken."""
        return self._block.get(_FREED)

    @property
    def n_dropped(self) -> int:
        """Number of records that the writer dropped."""
        return self._block.get(_DROPPED)

    def push(self, items: NDArray[Any]) -> bool:
        """Append all records, (n,), or none if there is not enough space; return whether there was."""
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

    def take(self, until: int | None = None) -> NDArray[Any]:
        """Return copies of the records since the last call, oldest first, up to record ``until`` (exclusive).

        Raises ChannelError if one is damaged.
        """
        n = (self.head if until is None else until) - self.position
        if n <= 0:
            return np.empty(0, self._item_type)
        slots = (self.position + np.arange(n)) % self.capacity
        raw, stamps = self._items[slots], self._stamps[slots]
        n_right = self._n_right(raw, stamps)
        if n_right < n:
            self._check_stuck(self.position + n_right)
        self.position += n_right
        # Records that wait for a checkpoint may fill half of the queue; then the oldest of them are freed.
        self.free(self.position - self.capacity // 2)
        return raw[:n_right].reshape(-1).view(self._item_type)

    def go_to(self, position: int) -> int:
        """Continue with this record, which must have been written; return how many from there on are lost."""
        if position > self.head:
            raise ChannelError(
                self._block.path,
                f"has {self.head} records, but a checkpoint refers to record {position}; it belongs to another run: "
                "remove it",
            )
        self.position = max(position, self.freed)
        return self.position - position

    def free(self, position: int) -> None:
        """Free the records before this one, which the reader has saved."""
        if position > self.freed:
            self._block.set(_FREED, position)

    def close(self) -> None:
        """Unmap the memory; a second call does nothing."""
        self._slots = self._items = np.empty((0, 0), np.uint8)
        self._stamps = np.empty(0, _STAMP)
        self._block.close()

    def _n_right(self, raw: NDArray[np.uint8], stamps: NDArray[Any]) -> int:
        """Return the number of consecutive valid records, starting with the oldest."""
        for i, (number, checksum) in enumerate(stamps.tolist()):
            if number != self.position + i or checksum != _checksum(raw[i], number):
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


def slot_size(item_type: np.dtype[Any]) -> int:
    """Return the size of a record in the queue in bytes: a multiple of 8, so that the numbers are aligned."""
    return _STAMP.itemsize + -(-item_type.itemsize // 8) * 8


def _checksum(raw: NDArray[np.uint8], number: int) -> int:
    return zlib.crc32(raw.data, number & 0xFFFFFFFF)
