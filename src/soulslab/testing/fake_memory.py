"""Memory made of byte arrays with the semantics of a real process, for tests."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from soulslab.errors import MemoryAccessError, ProcessExitedError, SessionStateError
from soulslab.siphon.memory import Region


class FakeMemory:
    """Memory of a process that does not exist (`soulslab.siphon.memory.Memory`).

    ::

        memory = FakeMemory()
        code = memory.map(0x140000000, bytearray(0x1000), is_executable=True)
        code[0x10:0x14] = b"..."   # the array is the memory

    Attributes:
        pid: Reported process id.
        n_reads: Number of reads; a batch counts as one.
        has_ended: Whether the process has ended.
    """

    def __init__(self, pid: int = 1) -> None:
        self.pid = pid
        self.n_reads = 0
        self._starts: list[int] = []
        self._maps: list[tuple[Region, bytearray]] = []
        self.has_ended = False
        self._is_closed = False

    def map(
        self,
        address: int,
        data: bytearray,
        *,
        is_readable: bool = True,
        is_writable: bool = True,
        is_executable: bool = False,
        path: str = "",
    ) -> bytearray:
        """Map bytes at an address that is not mapped yet, and return them; changing them changes the memory."""
        region = Region(address, address + len(data), is_readable, is_writable, is_executable, path)
        index = bisect_right(self._starts, address)
        before = self._maps[index - 1][0].end if index else 0
        behind = self._starts[index] if index < len(self._starts) else 2**64
        if not data or address < before or region.end > behind:
            raise ValueError(f"{address:#x} to {region.end:#x} is empty or overlaps what is mapped")
        self._starts.insert(index, address)
        self._maps.insert(index, (region, data))
        return data

    def unmap(self, address: int) -> None:
        """Unmap the bytes at an address."""
        index = self._starts.index(address)
        del self._starts[index], self._maps[index]

    def read(self, address: int, size: int) -> bytes:
        """See `Memory.read`."""
        self.n_reads += 1
        return self._read(address, size)

    def read_into(self, address: int, buffer: memoryview) -> None:
        """See `Memory.read_into`."""
        buffer.cast("B")[:] = self.read(address, buffer.nbytes)

    def batch(self, sizes: Sequence[int], groups: Sequence[int] = ()) -> FakeBatch:  # noqa: ARG002
        """See `Memory.batch`; the parts are read in their order, which suits all groups."""
        return FakeBatch(self, sizes)

    def write(self, address: int, data: bytes) -> None:
        """See `Memory.write`."""
        self._read(address, len(data))
        done = 0
        while done < len(data):
            region, target = self._find(address + done, len(data) - done, "written")
            if not region.is_writable:
                raise MemoryAccessError(
                    "cannot be written: the process may not write it itself",
                    address=address + done,
                    size=len(data) - done,
                    pid=self.pid,
                )
            at = address + done - region.start
            part = data[done : done + len(target) - at]
            target[at : at + len(part)] = part
            done += len(part)

    def regions(self) -> list[Region]:
        """See `Memory.regions`."""
        self._check_open()
        return [region for region, _ in self._maps]

    def close(self) -> None:
        """See `Memory.close`."""
        self._is_closed = True

    def _read(self, address: int, size: int) -> bytes:
        self._check_open()
        found = b""
        while len(found) < size:
            region, source = self._find(address + len(found), size - len(found), "read")
            at = address + len(found) - region.start
            found += source[at : at + size - len(found)]
        return found

    def _find(self, address: int, size: int, done: str) -> tuple[Region, bytearray]:
        """Return the mapping at an address."""
        index = bisect_right(self._starts, address) - 1
        if index >= 0:
            region, data = self._maps[index]
            if address < region.end and region.is_readable:
                return region, data
        raise MemoryAccessError(f"cannot be {done}: not all of it is mapped", address=address, size=size, pid=self.pid)

    def _check_open(self) -> None:
        if self._is_closed:
            raise SessionStateError(f"the memory of process {self.pid} is closed; open it again")
        if self.has_ended:
            raise ProcessExitedError(f"process {self.pid} has ended", pid=self.pid)


class FakeBatch:
    """A prepared scattered read (`soulslab.siphon.memory.ReadBatch`) of (n,) uint64 addresses."""

    addresses: NDArray[np.uint64]

    def __init__(self, memory: FakeMemory, sizes: Sequence[int]) -> None:
        self._memory = memory
        self._sizes = list(sizes)
        self.addresses = np.zeros(len(sizes), np.uint64)
        self._view = memoryview(bytearray(sum(sizes)))

    def read(self) -> memoryview:
        """See `ReadBatch.read`."""
        memory = self._memory
        memory.n_reads += 1
        memory._check_open()
        at = 0
        for address, size in zip(self.addresses.tolist(), self._sizes, strict=True):
            self._view[at : at + size] = memory._read(address, size)
            at += size
        return self._view
