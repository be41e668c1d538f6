"""Access to the memory of another process: one Protocol, one module per platform, one fake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray


class Region(msgspec.Struct, frozen=True):
    """A mapped address range.

    Attributes:
        start: First address.
        end: Address after the last.
        is_readable: Whether it may be read.
        is_writable: Whether the process itself may write it.
        is_executable: Whether it contains code.
        path: File that is mapped there; "" for none (a section of a Windows program often has none).
    """

    start: int
    end: int
    is_readable: bool
    is_writable: bool
    is_executable: bool
    path: str


class ReadBatch(Protocol):
    """A prepared scattered read of fixed sizes at changeable addresses.

    Attributes:
        addresses: (n,) uint64; set the addresses here before `read`.
    """

    addresses: NDArray[np.uint64]

    def read(self) -> memoryview:
        """Read all parts in as few system calls as possible.

        Returns:
            The bytes of the parts, concatenated; the next call overwrites the buffer.

        Raises:
            MemoryAccessError: An address cannot be read; the error names the first one.
            ProcessExitedError: The process has ended.
        """


class Memory(Protocol):
    """The memory of one process, which is little-endian and 64-bit; addresses are those of that process.

    Attributes:
        pid: Process id.
    """

    pid: int

    def read(self, address: int, size: int) -> bytes:
        """Return exactly `size` bytes.

        Raises:
            MemoryAccessError: Some bytes cannot be read.
            ProcessExitedError: The process has ended.
        """

    def read_into(self, address: int, buffer: memoryview) -> None:
        """Fill a buffer; for large reads. Raises as `read`."""

    def batch(self, sizes: Sequence[int]) -> ReadBatch:
        """Prepare a scattered read of parts of some sizes."""

    def write(self, address: int, data: bytes) -> None:
        """Write bytes to pages that the process may write itself.

        Raises:
            MemoryAccessError: Some bytes cannot be written, because a page is not mapped or is protected.
            ProcessExitedError: The process has ended.
        """

    def regions(self) -> list[Region]:
        """Return the mapped regions, ascending. Raises `ProcessExitedError`."""

    def close(self) -> None:
        """Release the process; a second call does nothing."""
