"""The memory of a process on Windows: ``ReadProcessMemory`` to read, ``WriteProcessMemory`` to write.

A call costs about a microsecond, and 40 under Wine, so that a batch reads parts on the same or adjacent pages by one
call. A call fails if any of its bytes cannot be read, and also once the process has begun to end: its address space is
removed only after all calls have returned. A successful read therefore needs no further check. The handle identifies
the process, because process ids are reused.

``WriteProcessMemory`` makes protected pages writable for the time of the write, so the protection is checked before.
Under Wine, ``ReadProcessMemory`` also returns the bytes of protected pages, and zeros for freed ones, so there the
protection is checked after each read.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from ctypes import wintypes
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from soulslab.errors import AttachDeniedError, MemoryAccessError, ProcessExitedError, SessionStateError, SiphonError
from soulslab.siphon.memory import Region, join_parts
from soulslab.siphon.memory.windows_regions import ADDRESS_END, PageRange, mapped_regions, query, ranges
from soulslab.siphon.win32 import (
    ERROR_ACCESS_DENIED,
    ERROR_INVALID_PARAMETER,
    ERROR_NOACCESS,
    ERROR_PARTIAL_COPY,
    error_code,
    function,
)
from soulslab.siphon.win32.process_handle import (
    PROCESS_QUERY_INFORMATION,
    PROCESS_VM_OPERATION,
    PROCESS_VM_READ,
    PROCESS_VM_WRITE,
    SYNCHRONIZE,
    close_handle,
    open_process,
    wait_for_end,
)

ACCESS = PROCESS_VM_READ | PROCESS_VM_WRITE | PROCESS_VM_OPERATION | PROCESS_QUERY_INFORMATION | SYNCHRONIZE
#: KUSER_SHARED_DATA (ntddk.h), a page that every process can read.
SHARED_DATA = 0x7FFE0000

NOT_MAPPED = "not all of it is mapped"
NOT_WRITABLE = "it is not mapped, or the process may not write it itself"

#: Largest read that keeps Python's global lock; releasing it would let a small read wait for other threads.
_MAX_LOCKED_BYTES = 1 << 16
_SCRATCH_SIZE = 4096
_N_RETRIES = 3
#: Error codes of a range that is not mapped or protected; any other code means that the process is about to end.
_UNREADABLE = (ERROR_PARTIAL_COPY, ERROR_NOACCESS, ERROR_INVALID_PARAMETER)
#: Longest time from the begin of the end of a process, when its memory cannot be read any more, to its end.
_END_WAIT_MS = 2000


class WindowsMemory:
    """The memory of one process (`soulslab.siphon.memory.Memory`).

    Raises:
        ProcessNotFoundError: The process does not exist.
        ProcessExitedError: It has ended, and a program still has a handle of it.
        AttachDeniedError: The operating system denies access; the message names the missing right.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._lock = threading.Lock()
        self._scratch = np.zeros(_SCRATCH_SIZE, np.uint8)
        self._scratch_view, self._scratch_address = self._scratch.data, self._scratch.ctypes.data
        #: Handle of the process; 0 after `close`.
        self.handle = open_process(pid, ACCESS)
        self._read_part = partial(read_function(), self.handle)
        try:
            # Anti-cheats leave the handle and remove its rights.
            self.read(SHARED_DATA, 1)
        except BaseException:
            self.close()
            raise

    def read(self, address: int, size: int) -> bytes:
        """See `Memory.read`."""
        if size > _SCRATCH_SIZE:
            buffer = bytearray(size)
            self.read_into(address, memoryview(buffer))
            return bytes(buffer)
        with self._lock:
            self._read_to(address, self._scratch_address, size)
            return self._scratch_view[:size].tobytes()

    def read_into(self, address: int, buffer: memoryview) -> None:
        """See `Memory.read_into`."""
        local = np.frombuffer(buffer, np.uint8)
        self._read_to(address, local.ctypes.data, local.size)

    def batch(self, sizes: Sequence[int], groups: Sequence[int] = ()) -> WindowsBatch:
        """See `Memory.batch`."""
        return WindowsBatch(self, sizes, groups)

    def write(self, address: int, data: bytes) -> None:
        """See `Memory.write`."""
        size = len(data)
        self._check_open(address, size)
        if not 0 <= address < ADDRESS_END - size:
            raise self.explain(address, size, ERROR_NOACCESS, "written")
        # A range that cannot be written is not written in part.
        at = _first_without(lambda pages: pages.is_writable, self.handle, address, size)
        if at < address + size:
            raise self.explain(at, address + size - at, ERROR_NOACCESS, "written")
        write = function(
            "kernel32",
            "WriteProcessMemory",
            wintypes.BOOL,
            wintypes.HANDLE,
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.c_size_t,
            ctypes.c_void_p,
        )
        if size and not write(self.handle, address, bytes(data), size, None):
            raise self.explain(address, size, error_code(), "written")

    def regions(self) -> list[Region]:
        """See `Memory.regions`."""
        self._check_open(0, 0)
        found = mapped_regions(self.handle)
        # The list is not complete if the process has ended meanwhile.
        self._check_open(0, 0)
        return found

    def close(self) -> None:
        """See `Memory.close`."""
        handle, self.handle = self.handle, 0
        if handle:
            close_handle(handle)

    def explain(self, address: int, size: int, code: int, done: str = "read") -> SiphonError:
        """Return the error for a failed read or write, by the error code of the system."""
        if not self.handle:
            return SessionStateError(f"the memory of process {self.pid} is closed; open it again")
        # A process that is about to end has no pages any more.
        is_ending = code not in _UNREADABLE or query(self.handle, SHARED_DATA) is None
        if wait_for_end(self.handle, _END_WAIT_MS if is_ending else 0):
            return ProcessExitedError(f"process {self.pid} has ended", pid=self.pid)
        if code == ERROR_ACCESS_DENIED:
            right = "PROCESS_VM_WRITE" if done == "written" else "PROCESS_VM_READ"
            return AttachDeniedError(
                f"process {self.pid} must not be accessed: the right {right} was granted and then removed, as "
                "anti-cheats and security programs do; start the game without its anti-cheat, and play offline",
                pid=self.pid,
            )
        problem = NOT_WRITABLE if done == "written" else NOT_MAPPED
        return MemoryAccessError(f"cannot be {done}: {problem}", address=address, size=size, pid=self.pid)

    def explain_read(self, address: int, size: int, code: int) -> SiphonError:
        """Return the error for a failed read, with the first address that cannot be read."""
        if self.handle and 0 <= address < ADDRESS_END - size:
            at = _first_without(lambda pages: pages.is_readable, self.handle, address, size)
            # All of it may have become readable since.
            if at < address + size:
                return self.explain(at, address + size - at, code)
        return self.explain(address, size, code)

    def _read_to(self, address: int, target: int, size: int) -> None:
        """Copy bytes to an address of this process."""
        if not self.handle or not 0 <= address < ADDRESS_END - size:
            raise self.explain(address, size, ERROR_NOACCESS)
        if not size:
            self._check_open(address, size)
            return
        call = self._read_part if size <= _MAX_LOCKED_BYTES else partial(read_function(is_large=True), self.handle)
        if not call(address, target, size, None):
            raise self.explain_read(address, size, error_code())
        if ignores_protection() and not self.are_readable([(address, address + size)]):
            raise self.explain_read(address, size, ERROR_NOACCESS)

    def are_readable(self, spans: Sequence[tuple[int, int]]) -> bool:
        """Return whether the process may read some ranges, each with its end; equal pages are queried once."""
        known: list[tuple[int, int]] = []
        for start, end in spans:
            if any(first <= start and end <= last for first, last in known):
                continue
            at = start
            for pages in ranges(self.handle, start, end):
                if not pages.is_readable:
                    return False
                known.append((pages.start, pages.end))
                at = pages.end
            if at < end:
                return False
        return True

    def _check_open(self, address: int, size: int) -> None:
        """Raise the error of a process that has ended, or of a closed memory."""
        if not self.handle or wait_for_end(self.handle) or query(self.handle, SHARED_DATA) is None:
            raise self.explain(address, size, ERROR_ACCESS_DENIED)


class WindowsBatch:
    """A prepared scattered read (`soulslab.siphon.memory.ReadBatch`): one system call for each run of adjacent pages.

    The calls are prepared anew only when the addresses have changed.
    """

    addresses: NDArray[np.uint64]

    def __init__(self, memory: WindowsMemory, sizes: Sequence[int], groups: Sequence[int] = ()) -> None:
        self._memory = memory
        self._sizes = np.array(sizes, np.int64)
        self._groups = np.array(groups, np.int64) if len(groups) else np.zeros(len(self._sizes), np.int64)
        self.addresses = np.zeros(len(self._sizes), np.uint64)
        self._buffer = np.zeros(int(self._sizes.sum()), np.uint8)
        self._view = self._buffer.data
        self._planned: bytes | None = None
        self._scratch = np.zeros(0, np.uint8)
        self._spans: list[tuple[int, int]] = []
        self._calls: list[Callable[[], int]] = []
        self._copies: list[tuple[memoryview, memoryview]] = []

    def read(self) -> memoryview:
        """See `ReadBatch.read`."""
        if not self._memory.handle:
            raise self._memory.explain(0, 0, ERROR_NOACCESS)
        if self.addresses.tobytes() != self._planned:
            self._plan()
        if not self._read_spans():
            self._find_fault()
        for target, source in self._copies:
            target[:] = source
        return self._view

    def _plan(self) -> None:
        """Prepare the calls for the current addresses."""
        self._planned = None
        if (self.addresses >= np.uint64(ADDRESS_END) - self._sizes.astype(np.uint64)).any():
            self._read_parts()
        order = np.lexsort((self.addresses, self._groups))
        order = order[self._sizes[order] > 0]
        starts = self.addresses[order].astype(np.int64)
        span_of, spans = join_parts(
            starts.tolist(), (starts + self._sizes[order]).tolist(), self._groups[order].tolist()
        )
        n_parts = np.bincount(np.array(span_of, np.int64), minlength=len(spans))
        # A span with one part is read in place, the others by way of the scratch buffer.
        lengths = [end - start if n > 1 else 0 for (start, end), n in zip(spans, n_parts.tolist(), strict=True)]
        scratch_at = np.cumsum([0, *lengths]).tolist()
        self._scratch = np.zeros(scratch_at[-1], np.uint8)
        targets = [self._scratch.ctypes.data + at for at in scratch_at[:-1]]
        buffer_at, sizes = (np.cumsum(self._sizes) - self._sizes).tolist(), self._sizes.tolist()
        self._copies = []
        for part, start, span in zip(order.tolist(), starts.tolist(), span_of, strict=True):
            at, size = buffer_at[part], sizes[part]
            if n_parts[span] == 1:
                targets[span] = self._buffer.ctypes.data + at
                continue
            source_at = scratch_at[span] + start - spans[span][0]
            self._copies.append((self._view[at : at + size], self._scratch.data[source_at : source_at + size]))
        read = partial(read_function(), self._memory.handle)
        self._spans = spans
        self._calls = [
            partial(read, start, target, end - start, None) for (start, end), target in zip(spans, targets, strict=True)
        ]
        self._planned = self.addresses.tobytes()

    def _read_spans(self) -> bool:
        """Read all spans in their order; return whether all of their bytes could be read."""
        if not all(call() for call in self._calls):
            return False
        return not ignores_protection() or self._memory.are_readable(self._spans)

    def _read_parts(self) -> None:
        """Read the parts one by one, and so raise the error of the first one that cannot be read."""
        for address, size in zip(self.addresses.tolist(), self._sizes.tolist(), strict=True):
            self._memory.read(address, size)

    def _find_fault(self) -> None:
        """Raise the error of the first part that cannot be read; return if all parts can be read now."""
        for _ in range(_N_RETRIES):
            self._read_parts()
            # A page was being mapped or moved. The values are read again, so that their order remains.
            if self._read_spans():
                return
        address, size = int(self.addresses[0]), int(self._sizes[0])
        raise MemoryAccessError("is mapped anew all the time", address=address, size=size, pid=self._memory.pid)


def _first_without(is_fit: Callable[[PageRange], bool], handle: int, address: int, size: int) -> int:
    """Return the first address of a range whose pages are not fit; its end if all are."""
    end = address + size
    at = address
    for pages in ranges(handle, address, end):
        if not is_fit(pages):
            break
        at = min(pages.end, end)
    return at


@cache
def ignores_protection() -> bool:
    """Return whether this is Wine, whose ``ReadProcessMemory`` ignores the protection of the pages."""
    return hasattr(ctypes.PyDLL("ntdll"), "wine_get_version")


@cache
def read_function(*, is_large: bool = False) -> Callable[..., int]:
    """Return ``ReadProcessMemory(handle, address, target, size, None)``; 0 if a byte cannot be read.

    Only the one for large reads releases Python's global lock.
    """
    types = (wintypes.HANDLE, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    if is_large:
        return function("kernel32", "ReadProcessMemory", wintypes.BOOL, *types)
    call = ctypes.PyDLL("kernel32", use_last_error=True).ReadProcessMemory
    call.restype, call.argtypes = wintypes.BOOL, types
    declared: Callable[..., int] = call
    return declared
