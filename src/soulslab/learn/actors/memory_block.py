"""A file of memory that two processes map: a header that identifies it, some counters, and data.

The file outlives both processes, so the data survive a crash of either. Two properties are assumed: an aligned number
of 64 bits is read and written atomically (true of x86-64 and of 64-bit ARM, where it is one instruction), and each
counter has one writer. On x86-64 other processes see stores in their order (Intel SDM volume 3, "Memory Ordering"). The
format is also safe where they do not: data carry checksums, and data with a wrong checksum count as not yet written.
"""

from __future__ import annotations

import hashlib
import mmap
import os
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
    """A mapped file of memory.

    Attributes:
        path: The file.
        token: Random number that identifies the memory.
        counters: uint64 (N_COUNTERS,), all 0 at first; each has one writer.
        data: uint8 (n,), all 0 at first.
    """

    def __init__(self, path: Path, mapped: mmap.mmap) -> None:
        """Wrap a mapped file; see `create_block` and `open_block`."""
        self.path = path
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


def create_block(path: Path, kind: str, layout: str, n_data: int, token: int) -> MemoryBlock:
    """Make a file of memory; an existing one is replaced.

    Args:
        path: The file.
        kind: Purpose of the block, at most 16 ASCII characters.
        layout: Description of the layout of the data; `open_block` must be given the same.
        n_data: Size of the data in bytes.
        token: Random number that identifies the memory.

    Raises:
        ChannelError: There is not enough space, or the folder cannot be written.
    """
    header = np.zeros(1, _HEADER)
    header[0] = (_MAGIC, VERSION, kind.encode(), np.frombuffer(_digest(layout), np.uint8), token, n_data)
    temporary = path.with_name(f".{path.name}.tmp")
    with _touching(path, "made"):
        try:
            with temporary.open("wb") as file:
                _reserve(file.fileno(), _DATA_AT + n_data)
                file.write(header.tobytes())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    return open_block(path, kind, layout)


def open_block(path: Path, kind: str, layout: str) -> MemoryBlock:
    """Map an existing file of memory.

    Args:
        path: The file.
        kind: Expected purpose of the block.
        layout: Expected layout of the data.

    Raises:
        ChannelError: The file cannot be opened, is damaged, or has another version or layout.
    """
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


def block_size(n_data: int) -> int:
    """Return the size in bytes of a file with ``n_data`` bytes of data."""
    return _DATA_AT + n_data


def _digest(layout: str) -> bytes:
    return hashlib.sha256(layout.encode()).digest()


def _reserve(fd: int, n_bytes: int) -> None:
    """Allocate the space of a file; a process that later writes to a missing page would be killed."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, n_bytes)
        return
    os.ftruncate(fd, n_bytes)


@contextmanager
def _touching(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ChannelError(
            path, f"could not be {what}: {error.strerror or error}; it is the memory between actor and learner"
        ) from error
