"""Handles of processes on Windows: opening, the end of the process, and the reason of a denied access.

A handle identifies a process for as long as it is open; process ids are reused. Sources: Microsoft, "Process Security
and Access Rights", "OpenProcess", "GetProcessInformation".
"""

from __future__ import annotations

import ctypes
from ctypes import wintypes

from soulslab.errors import AttachDeniedError, ProcessError, ProcessExitedError, ProcessNotFoundError
from soulslab.siphon.win32 import ERROR_ACCESS_DENIED, ERROR_INVALID_PARAMETER, error_code, explain, function

PROCESS_VM_OPERATION, PROCESS_VM_READ, PROCESS_VM_WRITE = 0x0008, 0x0010, 0x0020
PROCESS_QUERY_INFORMATION, PROCESS_QUERY_LIMITED_INFORMATION = 0x0400, 0x1000
SYNCHRONIZE = 0x100000
_RIGHTS = {
    PROCESS_VM_READ: "PROCESS_VM_READ",
    PROCESS_VM_WRITE: "PROCESS_VM_WRITE",
    PROCESS_VM_OPERATION: "PROCESS_VM_OPERATION",
    PROCESS_QUERY_INFORMATION: "PROCESS_QUERY_INFORMATION",
    PROCESS_QUERY_LIMITED_INFORMATION: "PROCESS_QUERY_LIMITED_INFORMATION",
    SYNCHRONIZE: "SYNCHRONIZE",
}
_MAX_PID = 2**32 - 1
_WAIT_OBJECT_0, _WAIT_TIMEOUT = 0, 258
#: ProcessProtectionLevelInfo of PROCESS_INFORMATION_CLASS, and PROTECTION_LEVEL_NONE (processthreadsapi.h).
_PROTECTION_LEVEL, _UNPROTECTED = 7, 0xFFFFFFFE
#: TOKEN_QUERY, and TokenElevation of TOKEN_INFORMATION_CLASS (winnt.h).
_TOKEN_QUERY, _TOKEN_ELEVATION = 0x0008, 20

_PROTECTED = (
    "Windows protects this process, as anti-cheats request it, and no program may access it: start the game itself "
    "without its anti-cheat launcher, and play offline"
)
_ELEVATED = (
    "the process runs as administrator (at a higher integrity level) and soulslab does not: start the game without "
    "administrator rights, or run soulslab as administrator, too"
)
_OTHER = (
    "run soulslab as the user that runs the game and with the same rights (as administrator if the game runs so); if "
    "both are equal, an anti-cheat or a security program denies the access: start the game without it, and play offline"
)


def open_process(pid: int, access: int) -> int:
    """Open a process and return its handle, which `close_handle` closes.

    Args:
        pid: Process id.
        access: Rights of the handle, as ``PROCESS_VM_READ | SYNCHRONIZE``. `SYNCHRONIZE` has to be among them.

    Raises:
        ProcessNotFoundError: The process does not exist.
        ProcessExitedError: It has ended, but a program still has a handle of it.
        AttachDeniedError: The system denies a right; the message names it.
    """
    if not 0 < pid <= _MAX_PID:
        raise ProcessNotFoundError(f"{pid} is not a process id", pid=pid)
    handle = _try_open(pid, access)
    if not handle:
        raise _explain_open(pid, access, error_code())
    # Windows ignores the two lowest bits of a process id.
    problem = _explain_open(pid, access, ERROR_INVALID_PARAMETER) if process_id(handle) != pid else None
    if problem is None and wait_for_end(handle):
        problem = ProcessExitedError(f"process {pid} has ended", pid=pid)
    if problem is not None:
        close_handle(handle)
        raise problem
    return handle


def _explain_open(pid: int, access: int, code: int) -> ProcessError:
    """Return the error for a process that cannot be opened."""
    if code == ERROR_INVALID_PARAMETER:
        return ProcessNotFoundError(f"process {pid} does not exist; is the game running?", pid=pid)
    if code == ERROR_ACCESS_DENIED:
        return denied(pid, access)
    return ProcessError(f"process {pid} cannot be opened: {explain(code)}", pid=pid)


def close_handle(handle: int) -> None:
    """Close a handle."""
    function("kernel32", "CloseHandle", wintypes.BOOL, wintypes.HANDLE)(handle)


def process_id(handle: int) -> int:
    """Return the process id of a handle."""
    return int(function("kernel32", "GetProcessId", wintypes.DWORD, wintypes.HANDLE)(handle))


def wait_for_end(handle: int, wait_ms: int = 0) -> bool:
    """Wait up to `wait_ms` for the end of a process; return whether it has ended.

    The handle needs the right `SYNCHRONIZE`. Raises `OSError` if the handle is invalid.
    """
    wait = function("kernel32", "WaitForSingleObject", wintypes.DWORD, wintypes.HANDLE, wintypes.DWORD)
    state = wait(handle, wait_ms)
    if state not in (_WAIT_OBJECT_0, _WAIT_TIMEOUT):
        raise OSError(f"waiting for the end of a process failed: {explain(error_code())}")
    return bool(state == _WAIT_OBJECT_0)


def denied(pid: int, access: int) -> AttachDeniedError:
    """Return the error for a process that denies rights; it names them and says how to get access."""
    missing = [name for right, name in _RIGHTS.items() if access & right and not _is_granted(pid, right)]
    rights = ", ".join(missing) or "these rights together"
    return AttachDeniedError(f"process {pid} must not be accessed: Windows denies {rights}; {_advice(pid)}", pid=pid)


def _try_open(pid: int, access: int) -> int:
    """Return a handle; 0 if the process cannot be opened."""
    call = function("kernel32", "OpenProcess", wintypes.HANDLE, wintypes.DWORD, wintypes.BOOL, wintypes.DWORD)
    return int(call(access, False, pid) or 0)


def _is_granted(pid: int, right: int) -> bool:
    handle = _try_open(pid, right)
    if handle:
        close_handle(handle)
    return bool(handle)


def _advice(pid: int) -> str:
    handle = _try_open(pid, PROCESS_QUERY_LIMITED_INFORMATION)
    if not handle:
        return _OTHER
    try:
        if _is_protected(handle):
            return _PROTECTED
        current = function("kernel32", "GetCurrentProcess", wintypes.HANDLE)
        return _ELEVATED if _is_elevated(handle) and not _is_elevated(current()) else _OTHER
    finally:
        close_handle(handle)


def _is_protected(handle: int) -> bool:
    """Return whether Windows protects a process; False if it does not say so (before Windows 8.1)."""
    call = function(
        "kernel32",
        "GetProcessInformation",
        wintypes.BOOL,
        wintypes.HANDLE,
        ctypes.c_int,
        ctypes.c_void_p,
        wintypes.DWORD,
    )
    level = wintypes.DWORD(_UNPROTECTED)
    is_known = call(handle, _PROTECTION_LEVEL, ctypes.byref(level), ctypes.sizeof(level))
    return bool(is_known) and level.value != _UNPROTECTED


def _is_elevated(handle: int) -> bool:
    """Return whether a process runs as administrator; True if its token must not be read, which only others are."""
    open_token = function(
        "advapi32", "OpenProcessToken", wintypes.BOOL, wintypes.HANDLE, wintypes.DWORD, ctypes.c_void_p
    )
    information = function(
        "advapi32",
        "GetTokenInformation",
        wintypes.BOOL,
        wintypes.HANDLE,
        ctypes.c_int,
        ctypes.c_void_p,
        wintypes.DWORD,
        ctypes.c_void_p,
    )
    token = wintypes.HANDLE()
    if not open_token(handle, _TOKEN_QUERY, ctypes.byref(token)):
        return True
    try:
        elevation, size = wintypes.DWORD(), wintypes.DWORD()
        length = ctypes.sizeof(elevation)
        is_known = information(token, _TOKEN_ELEVATION, ctypes.byref(elevation), length, ctypes.byref(size))
        return not is_known or bool(elevation.value)
    finally:
        close_handle(token.value or 0)
