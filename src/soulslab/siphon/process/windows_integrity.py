"""Integrity levels of processes: Windows refuses input from a program to one with a higher level (UIPI).

Sources: Microsoft, "Mandatory Integrity Control", "GetTokenInformation function"; ``SendInput`` does not report the
refusal ("Remarks" of "SendInput function"), so the levels are compared beforehand.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import wintypes

from soulslab.siphon.win32 import ERROR_ACCESS_DENIED, error_code, explain, function

#: Level of a program that a user starts, of one run as administrator, and of a service (winnt.h).
MEDIUM, HIGH, SYSTEM = 0x2000, 0x3000, 0x4000

_QUERY_LIMITED_INFORMATION = 0x1000
_TOKEN_QUERY = 0x0008
_TOKEN_INTEGRITY_LEVEL = 25

_BOOL, _DWORD, _HANDLE = wintypes.BOOL, wintypes.DWORD, wintypes.HANDLE
_BYTE_POINTER, _DWORD_POINTER = ctypes.POINTER(ctypes.c_ubyte), ctypes.POINTER(_DWORD)


def integrity_level(pid: int) -> int:
    """Return the integrity level of a process. Raises `OSError` with the code of Windows in ``errno``."""
    with _token(pid) as token:
        label = (ctypes.c_size_t * 32)()
        read = function(
            "advapi32", "GetTokenInformation", _BOOL, _HANDLE, _DWORD, ctypes.c_void_p, _DWORD, _DWORD_POINTER
        )
        if not read(token, _TOKEN_INTEGRITY_LEVEL, label, ctypes.sizeof(label), _DWORD()):
            raise OSError(error_code(), explain(error_code()))
        # The label starts with the address of a security identifier; its last number is the level.
        identifier = label[0]
        n_numbers = function("advapi32", "GetSidSubAuthorityCount", _BYTE_POINTER, ctypes.c_void_p)(identifier)[0]
        number = function("advapi32", "GetSidSubAuthority", _DWORD_POINTER, ctypes.c_void_p, _DWORD)
        return int(number(identifier, n_numbers - 1)[0])


def why_refused(pid: int) -> str:
    """Return why Windows refuses input from this process to another one; "" if it does not."""
    own_pid = function("kernel32", "GetCurrentProcessId", _DWORD)()
    try:
        own, other = integrity_level(own_pid), integrity_level(pid)
    except OSError as error:
        if error.errno != ERROR_ACCESS_DENIED:
            return ""  # the process has ended, which other checks report
        return (
            f"Windows does not let this program ask for the rights of process {pid}, so the game probably runs as "
            f"administrator or another user; run soulslab with the same rights"
        )
    if own >= other:
        return ""
    return (
        f"process {pid} has more rights than this program (integrity level {other:#x} instead of {own:#x}), and "
        f"Windows discards input to it; run soulslab as administrator as well, or the game without"
    )


@contextmanager
def _token(pid: int) -> Iterator[int]:
    """Open the access token of a process."""
    close = function("kernel32", "CloseHandle", _BOOL, _HANDLE)
    opened = function("kernel32", "OpenProcess", _HANDLE, _DWORD, _BOOL, _DWORD)
    process = opened(_QUERY_LIMITED_INFORMATION, False, pid)
    if not process:
        raise OSError(error_code(), explain(error_code()))
    try:
        token = _HANDLE()
        open_token = function("advapi32", "OpenProcessToken", _BOOL, _HANDLE, _DWORD, ctypes.POINTER(_HANDLE))
        if not open_token(process, _TOKEN_QUERY, token):
            raise OSError(error_code(), explain(error_code()))
        try:
            yield token.value or 0
        finally:
            close(token)
    finally:
        close(process)
