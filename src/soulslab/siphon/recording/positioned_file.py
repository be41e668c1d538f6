"""Reads and writes at a position of a file, and locks that readers and writers of a file share, on all platforms."""

from __future__ import annotations

import ctypes
import os
from ctypes import wintypes

from soulslab.siphon.win32 import error_code, explain, function

# winbase.h and winerror.h.
_LOCKFILE_FAIL_IMMEDIATELY, _LOCKFILE_EXCLUSIVE_LOCK, _ERROR_LOCK_VIOLATION = 1, 2, 33
#: Locked byte on Windows. A lock there denies access to the locked bytes, so it is far behind the end of any file.
_LOCKED_BYTE = 1 << 62
#: Windows changes line ends of files that are not binary.
BINARY: int = getattr(os, "O_BINARY", 0)
NOT_INHERITED: int = getattr(os, "O_CLOEXEC", 0) or getattr(os, "O_NOINHERIT", 0)


class _Overlapped(ctypes.Structure):
    """OVERLAPPED: the position of an operation."""

    _fields_ = (
        ("internal", ctypes.c_void_p * 2),
        ("low", wintypes.DWORD),
        ("high", wintypes.DWORD),
        ("event", wintypes.HANDLE),
    )


def read_at(fd: int, n: int, position: int) -> bytes:
    """Read up to `n` bytes; on Windows it moves the position of the file."""
    if os.name != "nt":
        return os.pread(fd, n, position)
    os.lseek(fd, position, os.SEEK_SET)
    return os.read(fd, n)


def write_at(fd: int, data: memoryview, position: int) -> int:
    """Write bytes and return how many were written; on Windows it moves the position of the file."""
    if os.name != "nt":
        return os.pwrite(fd, data, position)
    os.lseek(fd, position, os.SEEK_SET)
    return os.write(fd, data)


def lock_file(fd: int, *, is_shared: bool) -> bool:
    """Lock a file until it is closed; return False if a lock of another process or descriptor prevents it.

    Shared locks do not prevent each other.
    """
    if os.name != "nt":
        import fcntl  # noqa: PLC0415  (does not exist on Windows)

        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
    import msvcrt  # noqa: PLC0415  (exists on Windows only)

    handle = msvcrt.get_osfhandle(fd)  # type: ignore[attr-defined,unused-ignore]
    place = _Overlapped(low=_LOCKED_BYTE & 0xFFFFFFFF, high=_LOCKED_BYTE >> 32)
    flags = _LOCKFILE_FAIL_IMMEDIATELY | (0 if is_shared else _LOCKFILE_EXCLUSIVE_LOCK)
    types = (wintypes.HANDLE, *[wintypes.DWORD] * 4, ctypes.POINTER(_Overlapped))
    call = function("kernel32", "LockFileEx", wintypes.BOOL, *types)
    if call(handle, flags, 0, 1, 0, ctypes.byref(place)):
        return True
    code = error_code()
    if code == _ERROR_LOCK_VIOLATION:
        return False
    raise OSError(f"a file cannot be locked: {explain(code)}")
