"""Access to the memory of another process: a Protocol, a module per platform, and reads of many places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.errors import MemoryAccessError

Bytes: TypeAlias = NDArray[np.uint8]

#: Bytes read at a time; fits into the processor's cache, and makes the cost of system calls negligible.
CHUNK_BYTES = 1 << 20
PAGE_BYTES = 4096


class Region(msgspec.Struct, frozen=True):
    """A mapped address range; `end` is the address after the last.

    `is_writable` states whether the process itself may write it. `path` is the file that is mapped there; "" for none
    (a section of a Windows program often has none).
    """

    start: int
    end: int
    is_readable: bool
    is_writable: bool
    is_executable: bool
    path: str


class ReadBatch(Protocol):
    """A prepared scattered read of fixed sizes; set `addresses`, (n,) uint64, before `read`."""

    addresses: NDArray[np.uint64]

    def read(self) -> memoryview:
        """Read all parts in as few system calls as possible; return their bytes, which the next call overwrites.

        Raises `MemoryAccessError` with the first address that cannot be read, and `ProcessExitedError`.
        """


class Memory(Protocol):
    """The memory of one process, which is little-endian and 64-bit; addresses are those of that process."""

    pid: int

    def read(self, address: int, size: int) -> bytes:
        """Return exactly `size` bytes. Raises `MemoryAccessError` if some cannot be read, `ProcessExitedError`."""

    def read_into(self, address: int, buffer: memoryview) -> None:
        """Fill a buffer; for large reads. Raises as `read`."""

    def batch(self, sizes: Sequence[int], groups: Sequence[int] = ()) -> ReadBatch:
        """Prepare a scattered read of parts of some sizes.

        `groups`, (n,) and ascending, sets the order: a part is read after the parts of all smaller groups, and the
        parts of one group in any order. Without groups, all parts are read in any order.
        """

    def write(self, address: int, data: bytes) -> None:
        """Write bytes to pages that the process may write itself.

        Raises `MemoryAccessError` if a page is not mapped or is protected, and `ProcessExitedError`.
        """

    def regions(self) -> list[Region]:
        """Return the mapped regions, ascending. Raises `ProcessExitedError`."""

    def close(self) -> None:
        """Release the process; a second call does nothing."""


def join_parts(
    starts: Sequence[int], ends: Sequence[int], groups: Sequence[int]
) -> tuple[list[int], list[tuple[int, int]]]:
    """Join parts on the same or adjacent pages into spans, which are readable if all parts are.

    Args:
        starts: (n,) address of each part, ascending within a group.
        ends: (n,) address after each part, which is not empty.
        groups: (n,) ascending; a span joins only parts of one group.

    Returns:
        (n,) index of the span of each part; start and end of each span.
    """
    span_of: list[int] = []
    spans: list[tuple[int, int]] = []
    group = -1
    for start, end, of in zip(starts, ends, groups, strict=True):
        if of == group and start // PAGE_BYTES <= (spans[-1][1] - 1) // PAGE_BYTES + 1:
            spans[-1] = (spans[-1][0], max(spans[-1][1], end))
        else:
            spans.append((start, end))
            group = of
        span_of.append(len(spans) - 1)
    return span_of, spans


def chunks(
    memory: Memory, regions: Iterable[Region], extra: int = 0, chunk_bytes: int = 0
) -> Iterator[tuple[int, Bytes]]:
    """Yield address and bytes of pieces of regions: at most `CHUNK_BYTES` + `extra`, in a buffer that is reused.

    The `extra` bytes after a piece are read with it, if they exist, so that no value is split. Unreadable parts are
    skipped, because a game may free memory at any time.
    """
    step = chunk_bytes or CHUNK_BYTES
    buffer = np.empty(step + extra, np.uint8)
    for region in regions:
        for start in range(region.start, region.end, step):
            size = min(step + extra, region.end - start)
            try:
                memory.read_into(start, buffer[:size].data)
            except MemoryAccessError:
                yield from readable_runs(memory, start, start + size)
            else:
                yield start, buffer[:size]


def readable_runs(memory: Memory, start: int, end: int) -> Iterator[tuple[int, Bytes]]:
    """Yield address and bytes of each readable part of a range; slow, because it reads page by page."""
    run = bytearray()
    # From the first byte to the end of its page, then whole pages.
    for at in (start, *range(start - start % PAGE_BYTES + PAGE_BYTES, end, PAGE_BYTES)):
        try:
            run += memory.read(at, min(PAGE_BYTES - at % PAGE_BYTES, end - at))
        except MemoryAccessError:
            if run:
                yield at - len(run), np.frombuffer(run, np.uint8)
            run = bytearray()
    if run:
        yield end - len(run), np.frombuffer(run, np.uint8)


def read_scattered(memory: Memory, addresses: NDArray[np.uint64], size: int) -> tuple[Bytes, NDArray[np.bool_]]:
    """Return the bytes at (n,) addresses, (n, size) uint8, and which of them could be read; the others are 0."""
    data, is_readable = np.zeros((addresses.size, size), np.uint8), np.ones(addresses.size, np.bool_)
    batch = memory.batch([size] * addresses.size)
    batch.addresses[:] = addresses
    try:
        data[:] = np.frombuffer(batch.read(), np.uint8).reshape(-1, size)
    except MemoryAccessError:
        for i, address in enumerate(addresses.tolist()):
            try:
                data[i] = np.frombuffer(memory.read(address, size), np.uint8)
            except MemoryAccessError:
                is_readable[i] = False  # freed by the game
    return data, is_readable
