"""The mapped regions of a process on Windows, with the files that are mapped there.

Sources: Microsoft, "VirtualQueryEx", "MEMORY_BASIC_INFORMATION", "Memory Protection Constants", "Obtaining a File Name
From a File Handle".
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from ctypes import wintypes
from string import ascii_uppercase

from soulslab.siphon.memory import Region
from soulslab.siphon.win32 import function

#: Upper bound of the addresses of a process on Windows (8 TB before Windows 8.1, 128 TB since).
ADDRESS_END = 2**47

_COMMITTED = 0x1000
_MAPPED, _IMAGE = 0x40000, 0x1000000
_NO_ACCESS, _GUARD = 0x01, 0x100
#: PAGE_READONLY, PAGE_READWRITE, PAGE_WRITECOPY, and the same with PAGE_EXECUTE_ (winnt.h).
_READABLE = 0x02 | 0x04 | 0x08 | 0x20 | 0x40 | 0x80
_WRITABLE = 0x04 | 0x08 | 0x40 | 0x80
_EXECUTABLE = 0x10 | 0x20 | 0x40 | 0x80
_MAX_PATH = 32768
#: Prefixes of names of the object manager: Wine's for a path, Windows' for a network share.
_OBJECT_PREFIX, _SHARE_PREFIX = "\\??\\", "\\Device\\Mup\\"


class PageRange(ctypes.Structure):
    """Pages with equal state and protection (``MEMORY_BASIC_INFORMATION`` of 64-bit programs)."""

    _fields_ = (
        ("start", ctypes.c_uint64),
        ("allocation", ctypes.c_uint64),
        ("allocation_protection", wintypes.DWORD),
        ("partition", wintypes.WORD),
        ("size", ctypes.c_uint64),
        ("state", wintypes.DWORD),
        ("protection", wintypes.DWORD),
        ("kind", wintypes.DWORD),
    )
    start: int
    allocation: int
    size: int
    state: int
    protection: int
    kind: int

    @property
    def end(self) -> int:
        """Address after the last."""
        return self.start + self.size

    @property
    def is_readable(self) -> bool:
        """Whether the process may read the pages.

        A guard page is not readable: the first access, also of another process, removes the guard, and then the stack
        that it guards cannot grow any more.
        """
        return self._allows(_READABLE)

    @property
    def is_writable(self) -> bool:
        """Whether the process may write the pages."""
        return self._allows(_WRITABLE)

    @property
    def is_executable(self) -> bool:
        """Whether the process may execute the pages."""
        return self._allows(_EXECUTABLE)

    def _allows(self, protections: int) -> bool:
        is_guarded = self.protection & (_GUARD | _NO_ACCESS)
        return self.state == _COMMITTED and not is_guarded and bool(self.protection & protections)


def query(handle: int, address: int) -> PageRange | None:
    """Return the pages from the one of an address on; None if there are none, or the process has ended."""
    call = function(
        "kernel32",
        "VirtualQueryEx",
        ctypes.c_size_t,
        wintypes.HANDLE,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_size_t,
    )
    found = PageRange()
    return found if call(handle, address, ctypes.byref(found), ctypes.sizeof(found)) else None


def ranges(handle: int, start: int = 0, end: int = ADDRESS_END) -> Iterator[PageRange]:
    """Yield all pages of an address range, also those that are free or reserved; none of a process that has ended."""
    while start < end:
        found = query(handle, start)
        # The range may have been freed in part since the last call, but each call makes progress.
        if found is None or found.end <= start:
            return
        yield found
        start = found.end


def mapped_regions(handle: int) -> list[Region]:
    """Return the mapped regions of a process, ascending; none if it has ended.

    The handle needs `PROCESS_QUERY_INFORMATION` and `PROCESS_VM_READ`.
    """
    devices = _devices()
    paths: dict[int, str] = {}
    regions = []
    for found in ranges(handle):
        if found.state != _COMMITTED:
            continue
        path = ""
        if found.kind in (_IMAGE, _MAPPED):
            # All pages of an allocation belong to one file.
            if found.allocation not in paths:
                paths[found.allocation] = _mapped_path(handle, found.start, devices)
            path = paths[found.allocation]
        regions.append(
            Region(found.start, found.end, found.is_readable, found.is_writable, found.is_executable, path),
        )
    return regions


def _mapped_path(handle: int, address: int, devices: Mapping[str, str]) -> str:
    """Return the path of the file that is mapped at an address; "" for shared memory without a file."""
    call = function(
        "kernel32",
        "K32GetMappedFileNameW",
        wintypes.DWORD,
        wintypes.HANDLE,
        ctypes.c_void_p,
        ctypes.c_void_p,
        wintypes.DWORD,
    )
    text = ctypes.create_unicode_buffer(_MAX_PATH)
    call(handle, address, text, _MAX_PATH)
    return user_path(text.value, devices)


def user_path(name: str, devices: Mapping[str, str]) -> str:
    r"""Return the path of a file by its name in the object manager: ``C:\x`` for ``\Device\HarddiskVolume3\x``."""
    if name.startswith(_OBJECT_PREFIX):
        return name.removeprefix(_OBJECT_PREFIX)
    if name.startswith(_SHARE_PREFIX):
        return "\\\\" + name.removeprefix(_SHARE_PREFIX)
    for device, drive in devices.items():
        if name.startswith(f"{device}\\"):
            return drive + name.removeprefix(device)
    return name


def _devices() -> dict[str, str]:
    """Return the drive letter, with a colon, of each device."""
    drives = int(function("kernel32", "GetLogicalDrives", wintypes.DWORD)())
    call = function("kernel32", "QueryDosDeviceW", wintypes.DWORD, wintypes.LPCWSTR, ctypes.c_void_p, wintypes.DWORD)
    text = ctypes.create_unicode_buffer(_MAX_PATH)
    found = {}
    for i, letter in enumerate(ascii_uppercase):
        if drives >> i & 1 and call(f"{letter}:", text, _MAX_PATH):
            found[text.value] = f"{letter}:"
    return found
