"""Reading and writing the memory of another process: one Protocol, one file per platform, one fake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray


class Region(msgspec.Struct, frozen=True):
    """A mapped range of addresses.

    Attributes:
        start: First address.
        end: Address behind the last.
        is_readable: It may be read.
        is_writable: The process itself may write it.
        is_executable: It holds code.
        path: File that is mapped there; "" for none (a section of a Windows program often has none).
    """

    start: int
    end: int
    is_readable: bool
    is_writable: bool
    is_executable: bool
    path: str


class ReadBatch(Protocol):
    """A prepared scattered read of the same sizes at addresses that may change.

    Attributes:
        addresses: (n,) uint64; write the addresses here before `read`.
    """

    addresses: NDArray[np.uint64]

    def read(self) -> memoryview:
        """Read all of it in as few system calls as there can be.

        Returns:
            The bytes of each part, one behind the other; the same buffer is filled again by the next call.

        Raises:
            MemoryAccessError: One of the addresses cannot be read; the error names the first that cannot.
            ProcessExitedError: The process has ended.
        """
        ...


class Memory(Protocol):
    """The memory of one process. Addresses are those of that process; it is little-endian and 64-bit.

    Attributes:
        pid: Its process.
    """

    pid: int

    def read(self, address: int, size: int) -> bytes:
        """Return exactly `size` bytes.

        Raises:
            MemoryAccessError: Not all of them can be read.
            ProcessExitedError: The process has ended.
        """
        ...

    def read_into(self, address: int, buffer: memoryview) -> None:
        """Fill a buffer; for megabytes. Raises as `read`."""
        ...

    def batch(self, sizes: Sequence[int]) -> ReadBatch:
        """Prepare a scattered read of parts of these sizes."""
        ...

    def write(self, address: int, data: bytes) -> None:
        """Write all of the bytes, to pages that the process may write itself.

        Raises:
            MemoryAccessError: Not all of them could be written, as a page is not mapped or is protected.
            ProcessExitedError: The process has ended.
        """
        ...

    def regions(self) -> list[Region]:
        """Return what is mapped now, ascending. Raises `ProcessExitedError`."""
        ...

    def close(self) -> None:
        """Let go of the process; a second call does nothing."""
        ...
