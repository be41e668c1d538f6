"""Exclusive control of a running game on Windows: one environment at a time.

The claim is a named section of memory with the name of its holder. Windows removes it when the process that holds it
ends for any reason.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import wintypes

from soulslab.errors import ControlTakenError, ProcessError, ProcessExitedError
from soulslab.siphon.process.windows import running
from soulslab.siphon.win32 import error_code, explain, function

ERROR_ALREADY_EXISTS = 183
PAGE_READWRITE, FILE_MAP_ALL_ACCESS = 0x04, 0xF001F
_MAX_NAME_BYTES = 200


class WindowsControlClaim:
    """The claim of this process on a game, until `release` or the end of this process.

    Errors name the holder: ``soulslab/Process-v0``.

    Raises `ControlTakenError` if another environment, in this or another process, controls the game, and `ProcessError`
    if the game has ended, or the system refuses the claim.
    """

    def __init__(self, pid: int, holder: str) -> None:
        # Process ids are reused, and a process has one start.
        started = [one.started_s for one in running() if one.pid == pid]
        if not started:
            raise ProcessExitedError(f"process {pid} has ended", pid=pid)
        name = rf"Local\soulslab-game-{pid}-{started[0]:.6f}"
        create = function(
            "kernel32",
            "CreateFileMappingW",
            wintypes.HANDLE,
            *(wintypes.HANDLE, ctypes.c_void_p, wintypes.DWORD, wintypes.DWORD, wintypes.DWORD, wintypes.LPCWSTR),
        )
        # A section of the page file, in the namespace of the user's session.
        none = wintypes.HANDLE(-1)
        self._handle = create(none, None, PAGE_READWRITE, 0, _MAX_NAME_BYTES, name)
        is_taken = error_code() == ERROR_ALREADY_EXISTS
        if not self._handle:
            raise ProcessError(f"cannot claim the game of process {pid}: {explain(error_code())}", pid=pid)
        text = f"{os.getpid()} {holder}".encode()[: _MAX_NAME_BYTES - 1]
        before = self._exchange(pid, None if is_taken else text)
        if is_taken:
            self.release()
            name = _describe(before.decode("utf-8", "replace"))
            raise ControlTakenError(
                f"{name} controls the game of process {pid}; close it first, or give each environment a game of its "
                f"own (another pid, or a list of them for a vector environment)",
                holder=name,
            )

    def release(self) -> None:
        """Release the claim; a second call does nothing."""
        handle, self._handle = self._handle, None
        if handle:
            function("kernel32", "CloseHandle", wintypes.BOOL, wintypes.HANDLE)(handle)

    def _exchange(self, pid: int, text: bytes | None) -> bytes:
        """Return the name in the section, and replace it unless the new one is None."""
        types = (wintypes.HANDLE, wintypes.DWORD, wintypes.DWORD, wintypes.DWORD, ctypes.c_size_t)
        view = function("kernel32", "MapViewOfFile", ctypes.c_void_p, *types)(
            self._handle, FILE_MAP_ALL_ACCESS, 0, 0, 0
        )
        if not view:
            raise ProcessError(f"cannot read who controls the game of process {pid}: {explain(error_code())}", pid=pid)
        try:
            before = ctypes.string_at(view, _MAX_NAME_BYTES).rstrip(b"\0")
            if text is not None:
                ctypes.memmove(view, text, len(text))
            return before
        finally:
            function("kernel32", "UnmapViewOfFile", wintypes.BOOL, ctypes.c_void_p)(view)


def _describe(text: str) -> str:
    pid, _, name = text.partition(" ")
    if pid == str(os.getpid()):
        return f"another environment of this process ({name})"
    return f"{name or 'another environment'} in process {pid}" if pid else "another environment"
