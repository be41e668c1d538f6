"""The memory of a process on Linux: ``process_vm_readv`` to read, ``process_vm_writev`` to write.

Reads and writes respect the page protection of the process: an unmapped or protected page is an error and not a zero,
and code and constants cannot be overwritten. ``/proc/PID/mem`` ignores the protection, so it is not used. A pidfd shows
after each read, and before each write, whether the process is still the attached one, because process ids are reused.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import select
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from soulslab.errors import (
    AttachDeniedError,
    MemoryAccessError,
    ProcessExitedError,
    ProcessNotFoundError,
    SessionStateError,
    SiphonError,
)
from soulslab.siphon.memory import Region

YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")

_ADVICE = {
    1: (
        "kernel.yama.ptrace_scope is 1, so a process may only read its children: let soulslab start the game, "
        "or run `sudo sysctl kernel.yama.ptrace_scope=0` (until the next boot), "
        "or give this Python the right: `sudo setcap cap_sys_ptrace=ep {python}`"
    ),
    2: (
        "kernel.yama.ptrace_scope is 2, so only CAP_SYS_PTRACE may read other processes: run "
        "`sudo setcap cap_sys_ptrace=ep {python}`, "
        "or `sudo sysctl kernel.yama.ptrace_scope=1` and let soulslab start the game"
    ),
    3: (
        "kernel.yama.ptrace_scope is 3, so no process may read others, and it can only be changed by a boot "
        "with another value in /etc/sysctl.d"
    ),
}
_OTHER_USER = (
    "the process belongs to another user, or was started with additional rights (setuid, capabilities): "
    "run soulslab as the user that runs the game, let soulslab start it, or give this Python the right: "
    "`sudo setcap cap_sys_ptrace=ep {python}`"
)


def denied(pid: int, yama: Path = YAMA) -> AttachDeniedError:
    """Return the error for a process that cannot be accessed, with advice (man 2 ptrace, "Ptrace access")."""
    scope = int(yama.read_text(encoding="ascii")) if yama.exists() else 0
    advice = _ADVICE.get(scope, _OTHER_USER).format(python=Path(sys.executable).resolve())
    return AttachDeniedError(f"process {pid} must not be read: {advice}", pid=pid)


def has_ended(pid: int) -> bool:
    """Return whether a process has ended, even if its parent has not reaped it yet."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return True
    # The name, in parentheses, may contain any character; the state follows it.
    return stat.rpartition(b")")[2].split()[0] in (b"Z", b"X")


@contextmanager
def examining(pid: int) -> Iterator[None]:
    """Convert the errors of reading the files of a process: `ProcessExitedError`, `AttachDeniedError`."""
    try:
        yield
    except (FileNotFoundError, ProcessLookupError) as error:
        raise _exited(pid) from error
    except PermissionError as error:
        # The files of a process that has ended, but has not been reaped, belong to root.
        raise (_exited(pid) if has_ended(pid) else denied(pid)) from error


def _exited(pid: int) -> ProcessExitedError:
    return ProcessExitedError(f"process {pid} has ended", pid=pid)


_ESCAPED = re.compile(r"\\([0-7]{3})")
#: Regions that are mapped as readable but that only the kernel can read.
_KERNEL_PAGES = ("[vvar]", "[vvar_vclock]", "[vsyscall]")


def read_regions(pid: int) -> list[Region]:
    """Return the mapped regions of a process, ascending, from ``/proc/PID/maps``; none for one that has ended.

    Raises `ProcessExitedError` if it does not exist any more, and `AttachDeniedError`.
    """
    with examining(pid):
        # File names are bytes; surrogates preserve names that are not UTF-8.
        text = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="surrogateescape")
    return [_parse_region(line) for line in text.split("\n") if line]


def _parse_region(line: str) -> Region:
    """Parse a line of ``/proc/PID/maps``: ``start-end rwxp offset device inode   path``."""
    addresses, access, _, _, _, *path = line.split(maxsplit=5)
    start, end = addresses.split("-")
    name = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), path[0]) if path else ""
    is_file = name.startswith("/")
    return Region(
        start=int(start, 16),
        end=int(end, 16),
        is_readable=access[0] == "r" and name not in _KERNEL_PAGES,
        is_writable=access[1] == "w",
        is_executable=access[2] == "x",
        path=name.removesuffix(" (deleted)") if is_file else "",
    )


#: Maximum number of parts of one call of ``process_vm_readv`` (IOV_MAX, limits.h).
MAX_PARTS = 1024
#: Upper bound of the addresses of a process; the kernel's half of the address space begins above.
ADDRESS_END = 2**63

NOT_MAPPED = "not all of it is mapped"

_SCRATCH_SIZE = 4096
_N_RETRIES = 3
_PART = np.dtype([("address", "<u8"), ("size", "<u8")])


class LinuxMemory:
    """The memory of one process (`soulslab.siphon.memory.Memory`).

    Raises:
        ProcessNotFoundError: The process does not exist.
        ProcessExitedError: It has ended, and its parent has not reaped it yet.
        AttachDeniedError: The operating system denies access; the message explains how to get it.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._lock = threading.Lock()
        self._scratch = np.zeros(_SCRATCH_SIZE, np.uint8)
        self._scratch_view = self._scratch.data
        self._part = (ctypes.c_uint64 * 2)()
        self._local = (ctypes.c_uint64 * 2)(self._scratch.ctypes.data, _SCRATCH_SIZE)
        readv = _native("process_vm_readv", ctypes.PyDLL)
        self._read_part = partial(readv, pid, ctypes.addressof(self._local), 1, ctypes.addressof(self._part), 1, 0)
        self._pidfd = _open_pidfd(pid)
        try:
            with examining(pid):
                os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC))
            poll = select.poll()
            poll.register(self._pidfd, select.POLLIN)
            #: Reports, in a third of a microsecond, whether the process has ended or this object was closed.
            self.check: Callable[[], list[tuple[int, int]]] = partial(poll.poll, 0)
        except BaseException:
            self.close()
            raise
        if self.check():
            self.close()
            raise _exited(pid)

    def read(self, address: int, size: int) -> bytes:
        """See `Memory.read`."""
        if size > _SCRATCH_SIZE or not 0 <= address < ADDRESS_END:
            buffer = bytearray(size)
            self.read_into(address, memoryview(buffer))
            return bytes(buffer)
        with self._lock:
            self._part[0] = address
            self._part[1] = size
            if self._read_part() == size and not self.check():
                return self._scratch_view[:size].tobytes()
            raise self.explain(address, size, ctypes.get_errno())

    def read_into(self, address: int, buffer: memoryview) -> None:
        """See `Memory.read_into`."""
        local = np.frombuffer(buffer, np.uint8)
        if not 0 <= address < ADDRESS_END - local.size:
            raise self.explain(address, local.size, errno.EFAULT)
        self._transfer("process_vm_readv", address, local, "read")
        if self.check():
            raise self.explain(address, local.size, errno.ESRCH)

    def batch(self, sizes: Sequence[int], groups: Sequence[int] = ()) -> LinuxBatch:  # noqa: ARG002
        """See `Memory.batch`; the kernel reads the parts in their order, which suits all groups."""
        return LinuxBatch(self, sizes)

    def write(self, address: int, data: bytes) -> None:
        """See `Memory.write`."""
        # A range that cannot be read is not written in part.
        self.read(address, len(data))
        self._transfer("process_vm_writev", address, np.frombuffer(data, np.uint8), "written")

    def _transfer(self, name: str, address: int, local: NDArray[np.uint8], what: str) -> None:
        """Copy between this process and the other one, in as many calls as the kernel needs."""
        call = _native(name)
        start, size, done = local.ctypes.data, local.size, 0
        while done < size:
            ours = (ctypes.c_uint64 * 2)(start + done, size - done)
            theirs = (ctypes.c_uint64 * 2)(address + done, size - done)
            n = call(self.pid, ctypes.addressof(ours), 1, ctypes.addressof(theirs), 1, 0)
            if n <= 0:
                raise self.explain(address + done, size - done, ctypes.get_errno(), what)
            done += n

    def regions(self) -> list[Region]:
        """See `Memory.regions`."""
        found = read_regions(self.pid)
        if self.check() or not found:
            raise self.explain(0, 0, errno.ESRCH)
        return found

    def close(self) -> None:
        """See `Memory.close`."""
        self.check = lambda: [(-1, 0)]
        if self._pidfd >= 0:
            os.close(self._pidfd)
        self._pidfd = -1

    def explain(self, address: int, size: int, code: int, done: str = "read") -> SiphonError:
        """Return the error for a failed read or write, by the error code of the system."""
        if self._pidfd < 0:
            return SessionStateError(f"the memory of process {self.pid} is closed; open it again")
        if code == errno.ESRCH or self.check():
            return _exited(self.pid)
        if code in (errno.EPERM, errno.EACCES):
            return denied(self.pid)
        problem = "it is not mapped, or the process may not write it itself" if done == "written" else NOT_MAPPED
        return MemoryAccessError(f"cannot be {done}: {problem}", address=address, size=size, pid=self.pid)


class LinuxBatch:
    """A prepared scattered read (`soulslab.siphon.memory.ReadBatch`): one system call for 1024 parts."""

    addresses: NDArray[np.uint64]

    def __init__(self, memory: LinuxMemory, sizes: Sequence[int]) -> None:
        self._memory = memory
        self._parts = np.zeros(len(sizes), _PART)
        self._parts["size"] = sizes
        self.addresses = self._parts["address"]
        ends = np.concatenate(([0], np.cumsum(self._parts["size"], dtype=np.int64)))
        self._buffer = np.zeros(int(ends[-1]), np.uint8)
        self._view = self._buffer.data
        readv = _native("process_vm_readv", ctypes.PyDLL)
        self._locals = []
        self._calls = []
        for first in range(0, len(sizes), MAX_PARTS):
            last = min(first + MAX_PARTS, len(sizes))
            expected = int(ends[last] - ends[first])
            local = (ctypes.c_uint64 * 2)(self._buffer.ctypes.data + int(ends[first]), expected)
            self._locals.append(local)
            parts = self._parts[first:].ctypes.data
            call = partial(readv, memory.pid, ctypes.addressof(local), 1, parts, last - first, 0)
            self._calls.append((call, expected))

    def read(self) -> memoryview:
        """See `ReadBatch.read`."""
        for call, expected in self._calls:
            if call() != expected:
                self._find_fault(call, expected)
        if self._memory.check():
            raise self._memory.explain(0, 0, errno.ESRCH)
        return self._view

    def _find_fault(self, call: Callable[[], int], expected: int) -> None:
        """Raise the error of the first part that cannot be read; return if all parts can be read now."""
        for _ in range(_N_RETRIES):
            for address, size in self._parts.tolist():
                self._memory.read(address, size)
            # A page was being mapped or moved.
            if call() == expected:
                return
        address, size = self._parts[0].tolist()
        raise MemoryAccessError("is mapped anew all the time", address=address, size=size, pid=self._memory.pid)


def _open_pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except (ProcessLookupError, OverflowError) as error:
        raise ProcessNotFoundError(f"process {pid} does not exist; is the game running?", pid=pid) from error
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise ProcessNotFoundError(f"{pid} is not a process id", pid=pid) from error


@cache
def _native(name: str, library: type[ctypes.CDLL] = ctypes.CDLL) -> Callable[..., int]:
    """Return ``process_vm_readv`` or ``process_vm_writev``; with `ctypes.PyDLL`, for small reads, it keeps the GIL."""
    call = getattr(library(None, use_errno=True), name)
    call.restype = ctypes.c_ssize_t
    pointer, count = ctypes.c_void_p, ctypes.c_ulong
    call.argtypes = [ctypes.c_int, pointer, count, pointer, count, count]
    declared: Callable[..., int] = call
    return declared
