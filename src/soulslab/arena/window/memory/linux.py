"""Mapped memory at chosen addresses, and the name of the process, on Linux.

Python's ``mmap`` does not support chosen addresses, so the memory is mapped with the C library (man 2 mmap).
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from setproctitle import setproctitle

from soulslab.arena.window.memory.placement import PREFERRED_BASE
from soulslab.errors import LayoutError

_NO_REPLACE, _NO_RESERVE = 0x100000, 0x4000
_READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
#: Alternative base addresses of a program if the preferred one is not free.
_BASE_STEP, _N_BASES = 0x1_0000_0000, 64
_FAILED = ctypes.c_void_p(-1).value


class Mapping:
    """Mapped memory of this process, with its address and its size in bytes."""

    def __init__(self, start: int, size: int) -> None:
        self.start = start
        self.size = size

    def write(self, offset: int, data: bytes) -> None:
        """Write bytes. The caller ensures that they are inside the mapping."""
        ctypes.memmove(self.start + offset, data, len(data))

    def fill(self, offset: int, size: int, byte: int) -> None:
        """Fill a range with one byte value."""
        ctypes.memset(self.start + offset, byte, size)

    def protect(self, start: int, end: int) -> None:
        """Make the pages between two offsets readable and executable but not writable, as code is."""
        libc, address, size = _libc(), ctypes.c_void_p(self.start + start), ctypes.c_size_t(end - start)
        # If the file's system is mounted noexec, read-only pages are sufficient, because the code is never executed.
        if libc.mprotect(address, size, mmap.PROT_READ | mmap.PROT_EXEC) and libc.mprotect(
            address, size, mmap.PROT_READ
        ):
            error = ctypes.get_errno()
            raise OSError(error, f"cannot protect {end - start} bytes at {address.value:#x}: {os.strerror(error)}")

    def close(self) -> None:
        """Unmap it; a second call does nothing."""
        if self.size:
            _libc().munmap(ctypes.c_void_p(self.start), ctypes.c_size_t(self.size))
            self.size = 0


def map_program(name: str, size: int) -> Mapping:
    """Map a new, sparse file of that name at an address of programs; the name appears in ``/proc/PID/maps``.

    The mapping is private: the file stays empty and is unlinked at once, so no file is left behind however the game
    ends. The mapping keeps the name. Raises `LayoutError` if no address is free, or `OSError`.
    """
    with TemporaryDirectory(prefix="soulslab-arena-") as folder:
        file = Path(folder, name).open("wb+")  # noqa: SIM115
    with file:
        os.truncate(file.fileno(), size)
        for i in range(_N_BASES):
            flags = mmap.MAP_PRIVATE | _NO_REPLACE
            start = _mmap(PREFERRED_BASE + i * _BASE_STEP, size, flags, file.fileno())
            if start == PREFERRED_BASE + i * _BASE_STEP:
                return Mapping(start, size)
            Mapping(start, size if start else 0).close()  # before Linux 4.17 the address is only a hint
    raise LayoutError(f"no address is free for {size} bytes of {name}; start the game in a separate process")


def map_heap(size: int) -> Mapping:
    """Map zeroed memory at any address; pages that are not touched take no memory. Raises `OSError` if it fails."""
    if not size:
        return Mapping(0, 0)
    start = _mmap(0, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE, -1)
    return Mapping(start, size)


def _mmap(address: int, size: int, flags: int, file: int) -> int:
    """Return the address of a new mapping; 0 if the address was not free."""
    libc = _libc()
    start = libc.mmap(address, size, _READ_WRITE, flags, file, 0)
    if start == _FAILED:
        error = ctypes.get_errno()
        if error == errno.EEXIST:
            return 0
        raise OSError(error, f"cannot map {size} bytes at {address:#x}: {os.strerror(error)}")
    return int(start)


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
    return libc


_PR_SET_NAME = 15


def set_process_name(name: str) -> None:
    """Set the name of this process, as if a program with that name (``eldenring.exe``) had been started.

    The command line becomes the name, and so does the short name (``comm``), of which Linux keeps 15 characters (man 2
    prctl, PR_SET_NAME).
    """
    if len(name) < sum(len(argument) + 1 for argument in sys.orig_argv):
        # The environment follows the command line in memory, and a long name would overwrite it. Programs that attach
        # to the window read its display from there.
        os.environ.setdefault("SPT_NOENV", "1")
    setproctitle(name)
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)
