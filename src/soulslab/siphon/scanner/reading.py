"""Reading large parts of a process's memory in pieces, skipping unreadable parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from soulslab.errors import MemoryAccessError
from soulslab.siphon.memory import Memory, Region

#: Bytes read at a time; fits into the processor's cache, and makes the cost of system calls negligible.
CHUNK_BYTES = 1 << 20
PAGE_BYTES = 4096

Bytes = NDArray[np.uint8]


def writable_regions(memory: Memory, *, with_stacks: bool = False) -> list[Region]:
    """Return the regions that may hold a game's values: readable and writable ones.

    Values on the stack of the main thread exist only for moments; `with_stacks` includes it.
    """
    return [
        region
        for region in memory.regions()
        if region.is_readable
        and region.is_writable
        and (with_stacks or region.path != "[stack]")
        # Memory of a graphics card and similar: slow, and reading may have side effects.
        and (not region.path.startswith("/dev/") or region.path.startswith(("/dev/shm/", "/dev/zero")))  # noqa: S108
    ]


def chunks(memory: Memory, regions: Iterable[Region], extra: int = 0) -> Iterator[tuple[int, Bytes]]:
    """Yield address and bytes of pieces of regions: at most `CHUNK_BYTES` + `extra`, in a buffer that is reused.

    The `extra` bytes after a piece are read with it, if they exist, so that no value is split. Unreadable parts are
    skipped, because a game may free memory at any time.
    """
    buffer = np.empty(CHUNK_BYTES + extra, np.uint8)
    for region in regions:
        for start in range(region.start, region.end, CHUNK_BYTES):
            size = min(CHUNK_BYTES + extra, region.end - start)
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
