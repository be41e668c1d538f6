"""One file of memory that two processes map: a header that says what it is, a few counters, and data.

The file outlives both processes, so that whoever dies takes nothing along. What is relied on: an aligned number of 64
bits is read and written in one piece (true of x86-64 and of 64-bit ARM, whose compilers make one instruction of it),
and each counter has one writer. That stores become visible in their order is true of x86-64 (Intel SDM volume 3,
"Memory Ordering"), and nothing here may be wrong where it is not: data carry checksums, and data whose checksum is not
right have not come yet.
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
# Each counter has a cache line of its own, so that no writer slows the other down; the data begin with a page.
_COUNTERS_AT: Final = 256
_LINE: Final = 64
_DATA_AT: Final = 4096


class Block:
    """A mapped file.

    Attributes:
        path: The file.
        token: Random number of the memory that it belongs to.
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
        """Set a counter; all that was written before is there for whoever sees it (x86-64)."""
        self.counters[counter] = value


def create_block(path: Path, kind: str, layout: str, n_data: int, token: int) -> Block:
    """Make a file of memory, in the place of one that may be there.

    Args:
        path: The file.
        kind: What it is for, at most 16 letters.
        layout: How its data are laid out; who opens it must say the same.
        n_data: Bytes of data.
        token: Random number of the memory that it belongs to.

    Raises:
        ChannelError: There is no room, or the folder cannot be written.
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


def open_block(path: Path, kind: str, layout: str) -> Block:
    """Map a file that is there.

    Args:
        path: The file.
        kind: What it has to be for.
        layout: How its data have to be laid out.

    Raises:
        ChannelError: It cannot be opened, is damaged, of another version, or laid out in another way.
    """
    with _touching(path, "opened"), path.open("r+b") as file:
        n_bytes = os.fstat(file.fileno()).st_size
        if n_bytes < _DATA_AT:
            raise ChannelError(path, f"is no memory of an actor ({n_bytes} bytes); remove it")
        mapped = mmap.mmap(file.fileno(), 0)
    header: Any = np.frombuffer(mapped, _HEADER, 1)[0]
    if header["magic"] != _MAGIC or header["kind"] != kind.encode():
        raise ChannelError(path, f"is no memory of an actor for {kind}; remove it")
    if header["version"] != VERSION:
        raise ChannelError(
            path,
            f"has version {header['version']}, this soulslab knows {VERSION}; end its actor, or remove the file and "
            "with it the steps that no checkpoint has yet",
        )
    if header["digest"].tobytes() != _digest(layout):
        raise ChannelError(
            path,
            "is laid out for other observations, actions or settings; go on with those that the run was started with, "
            "or remove the file and with it the steps that no checkpoint has yet",
        )
    if n_bytes != _DATA_AT + int(header["n_data"]):
        raise ChannelError(path, f"has {n_bytes} bytes in place of {_DATA_AT + int(header['n_data'])}; remove it")
    return Block(path, mapped)


def block_size(n_data: int) -> int:
    """Return the size of a file with so much data, in bytes."""
    return _DATA_AT + n_data


def _digest(layout: str) -> bytes:
    return hashlib.sha256(layout.encode()).digest()


def _reserve(fd: int, n_bytes: int) -> None:
    """Give a file its size and its room; a page that is missing later would end the process that writes to it."""
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
