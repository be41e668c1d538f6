"""Mapped memory and the name of the process on Windows; `soulslab.arena.window.memory.linux` has the same functions.

Sources: Microsoft, "VirtualProtect", "CreateFileW" (FILE_FLAG_DELETE_ON_CLOSE), "GetMappedFileNameW".
"""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
from contextlib import suppress
from ctypes import wintypes
from pathlib import Path
from typing import Any

from soulslab.siphon.process.published_name import publish_name
from soulslab.siphon.win32 import error_code, function

_PAGE_READONLY = 0x02
_FOLDER_PREFIX = "soulslab-arena-"

set_process_name = publish_name


class Mapping:
    """Mapped memory of this process, with its address and its size in bytes."""

    def __init__(self, pages: mmap.mmap | None) -> None:
        self._pages = pages
        self.size = 0 if pages is None else len(pages)
        self.start = 0 if pages is None else ctypes.addressof(ctypes.c_char.from_buffer(pages))

    def write(self, offset: int, data: bytes) -> None:
        """Write bytes. The caller ensures that they are inside the mapping."""
        ctypes.memmove(self.start + offset, data, len(data))

    def fill(self, offset: int, size: int, byte: int) -> None:
        """Fill a range with one byte value."""
        ctypes.memset(self.start + offset, byte, size)

    def protect(self, start: int, end: int) -> None:
        """Make the pages between two offsets read-only, as code is; the code is never executed."""
        protect = function(
            "kernel32",
            "VirtualProtect",
            wintypes.BOOL,
            ctypes.c_void_p,
            ctypes.c_size_t,
            wintypes.DWORD,
            ctypes.POINTER(wintypes.DWORD),
        )
        before = wintypes.DWORD()
        if not protect(self.start + start, end - start, _PAGE_READONLY, ctypes.byref(before)):
            windows_error: Any = ctypes.WinError  # type: ignore[attr-defined,unused-ignore]
            raise windows_error(error_code())

    def close(self) -> None:
        """Unmap it; a second call does nothing."""
        pages, self._pages, self.size = self._pages, None, 0
        if pages is not None:
            pages.close()


def map_program(name: str, size: int) -> Mapping:
    """Map a new file of that name; other programs see the name of the file.

    The mapping is private, so the file stays empty. Windows deletes the file with its last handle, however the game
    ends; the next game removes its folder. Raises `OSError`.
    """
    folder = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX))
    for former in folder.parent.glob(f"{_FOLDER_PREFIX}*"):
        if former != folder:
            with suppress(OSError):  # it contains the file of a running game
                former.rmdir()
    options: Any = os  # the flags of Windows
    file = os.open(folder / name, os.O_RDWR | os.O_CREAT | options.O_BINARY | options.O_TEMPORARY)
    try:
        os.ftruncate(file, size)
        return Mapping(mmap.mmap(file, size, access=mmap.ACCESS_COPY))
    finally:
        os.close(file)


def map_heap(size: int) -> Mapping:
    """Map zeroed memory at any address. Raises `OSError` if it fails."""
    return Mapping(mmap.mmap(-1, size) if size else None)
