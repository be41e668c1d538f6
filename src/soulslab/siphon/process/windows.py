"""Running processes on Windows; `soulslab.siphon.process.linux` has the same functions.

Processes are listed by the Tool Help library. Their paths and start times need only the right
`PROCESS_QUERY_LIMITED_INFORMATION`, which also programs of other users and protected programs grant. Sources:
Microsoft, "Tool Help Library", "QueryFullProcessImageNameW", "GetProcessTimes", "Restart Manager".
"""

from __future__ import annotations

import ctypes
import errno
import logging
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from ctypes import wintypes
from pathlib import Path
from typing import Any

from soulslab.errors import AttachDeniedError, ProcessError, ProcessExitedError, ProcessNotFoundError
from soulslab.siphon.memory.windows import WindowsMemory
from soulslab.siphon.process.image import file_name
from soulslab.siphon.process.published_name import published_name
from soulslab.siphon.process.running_process import RunningProcess
from soulslab.siphon.win32 import error_code, explain, function
from soulslab.siphon.win32.process_handle import (
    PROCESS_QUERY_LIMITED_INFORMATION,
    SYNCHRONIZE,
    close_handle,
    open_process,
)

_TH32CS_SNAPPROCESS = 0x2
_INVALID_HANDLE = ctypes.c_void_p(-1).value
_MAX_PATH = 32768
_PYTHON = "python"
#: Between 1601 (FILETIME) and 1970, in seconds.
_EPOCH_S = 11_644_473_600
#: Session of the system's services; one of them, as an anti-cheat's, serves the programs of all users.
_SERVICES = 0
_GENERIC_READ, _FILE_SHARE_READ, _OPEN_EXISTING = 0x80000000, 0x1, 3
_ERROR_SHARING_VIOLATION = 32
_MAX_USERS = 64
_SESSION_KEY_SIZE = 33

_log = logging.getLogger(__name__)


class _ProcessEntry(ctypes.Structure):
    """``PROCESSENTRY32W`` (tlhelp32.h)."""

    _fields_ = (
        ("size", wintypes.DWORD),
        ("usage", wintypes.DWORD),
        ("pid", wintypes.DWORD),
        ("heap", ctypes.c_size_t),
        ("module", wintypes.DWORD),
        ("n_threads", wintypes.DWORD),
        ("parent", wintypes.DWORD),
        ("priority", wintypes.LONG),
        ("flags", wintypes.DWORD),
        ("name", wintypes.WCHAR * 260),
    )


class _FileUser(ctypes.Structure):
    """``RM_PROCESS_INFO`` (restartmanager.h)."""

    _fields_ = (
        ("pid", wintypes.DWORD),
        ("started", wintypes.DWORD * 2),
        ("application", wintypes.WCHAR * 256),
        ("service", wintypes.WCHAR * 64),
        ("kind", ctypes.c_int),
        ("status", wintypes.ULONG),
        ("session", wintypes.DWORD),
        ("is_restartable", wintypes.BOOL),
    )


def running() -> Iterator[RunningProcess]:
    """Yield the running processes, with their paths as command lines."""
    for pid, name in list(_listed()):
        try:
            with _opened(pid) as handle:
                path = _path(handle, pid)
                own = _name(pid, path)
                yield RunningProcess(pid, own, own, (path,), _started_s(handle))
        except (ProcessNotFoundError, ProcessExitedError):
            continue  # it ended while we looked
        except AttachDeniedError as denial:
            # Its name is known all the same, which identifies an anti-cheat.
            _log.debug("process %d is described by its name only: %s", pid, denial)
            yield RunningProcess(pid, name, name, (), 0.0)


def name_of(pid: int) -> str:
    """Return the name that a process has published, or the file name of its program. Raises as `modules_of`."""
    return _name(pid, executable_of(pid))


def modules_of(pid: int) -> set[str]:
    """Return the file names of all files that a process has mapped.

    Raises `ProcessExitedError`, also if the process does not exist any more, and `AttachDeniedError`.
    """
    try:
        memory = WindowsMemory(pid)
    except ProcessNotFoundError as error:
        raise ProcessExitedError(f"process {pid} has ended", pid=pid) from error
    with closing(memory):
        return {file_name(region.path) for region in memory.regions() if region.path}


def has_ended(pid: int) -> bool:
    """Return whether a process has ended, even if a program still has a handle of it."""
    try:
        with _opened(pid):
            return False
    except AttachDeniedError:
        return False
    except (ProcessNotFoundError, ProcessExitedError):
        return True


def executable_of(pid: int) -> str:
    """Return the path of the program of a process. Raises as `modules_of`."""
    try:
        with _opened(pid) as handle:
            return _path(handle, pid)
    except ProcessNotFoundError as error:
        raise ProcessExitedError(f"process {pid} has ended", pid=pid) from error


def belong_together(pid: int, other: int) -> bool:
    """Return whether two processes may share a login session, or the other one is a service for all sessions."""
    ours, theirs = _session(pid), _session(other)
    return theirs in (_SERVICES, ours)


def writers_of(path: Path) -> tuple[int, ...]:
    """Return the processes that have a file open, if one of them may write; it must not be copied or replaced then.

    Raises `FileNotFoundError` without the file, and `PermissionError` if the processes cannot be determined.
    """
    create = function(
        "kernel32",
        "CreateFileW",
        wintypes.HANDLE,
        wintypes.LPCWSTR,
        wintypes.DWORD,
        wintypes.DWORD,
        ctypes.c_void_p,
        wintypes.DWORD,
        wintypes.DWORD,
        wintypes.HANDLE,
    )
    # This fails if the file is open for writing, because we do not share it with writers.
    handle = create(str(path), _GENERIC_READ, _FILE_SHARE_READ, None, _OPEN_EXISTING, 0, None)
    if handle != _INVALID_HANDLE:
        close_handle(handle)
        return ()
    code = error_code()
    if code != _ERROR_SHARING_VIOLATION:
        windows_error: Callable[[int], OSError] = ctypes.WinError  # type: ignore[attr-defined,unused-ignore]
        raise windows_error(code)
    pids = _users_of(path)
    if not pids:
        raise PermissionError(errno.EACCES, "it is open for writing in a process that Windows does not name", str(path))
    return pids


def _listed() -> Iterator[tuple[int, str]]:
    """Yield id and name of the program of each process, except for the idle process."""
    snapshot = function("kernel32", "CreateToolhelp32Snapshot", wintypes.HANDLE, wintypes.DWORD, wintypes.DWORD)
    first, following = (
        function("kernel32", name, wintypes.BOOL, wintypes.HANDLE, ctypes.POINTER(_ProcessEntry))
        for name in ("Process32FirstW", "Process32NextW")
    )
    handle = snapshot(_TH32CS_SNAPPROCESS, 0)
    if handle == _INVALID_HANDLE:
        raise ProcessError(f"the processes cannot be listed: {explain(error_code())}")
    try:
        entry = _ProcessEntry(size=ctypes.sizeof(_ProcessEntry))
        is_there = first(handle, ctypes.byref(entry))
        while is_there:
            if entry.pid:
                yield entry.pid, entry.name
            is_there = following(handle, ctypes.byref(entry))
    finally:
        close_handle(handle)


@contextmanager
def _opened(pid: int) -> Iterator[int]:
    """A context with a handle for questions about a process. Raises as `open_process`."""
    handle = open_process(pid, PROCESS_QUERY_LIMITED_INFORMATION | SYNCHRONIZE)
    try:
        yield handle
    finally:
        close_handle(handle)


def _path(handle: int, pid: int) -> str:
    """Return the path of a program. Raises `ProcessExitedError`: only a process that ends has none."""
    call = function(
        "kernel32",
        "QueryFullProcessImageNameW",
        wintypes.BOOL,
        wintypes.HANDLE,
        wintypes.DWORD,
        ctypes.c_void_p,
        ctypes.POINTER(wintypes.DWORD),
    )
    text, size = ctypes.create_unicode_buffer(_MAX_PATH), wintypes.DWORD(_MAX_PATH)
    if not call(handle, 0, text, ctypes.byref(size)):
        raise ProcessExitedError(f"process {pid} ends: {explain(error_code())}", pid=pid)
    return text.value


def _name(pid: int, path: str) -> str:
    """Return the name of a process by the path of its program; only the built-in fight, in Python, publishes one."""
    name = file_name(path)
    return (published_name(pid) if name.casefold().startswith(_PYTHON) else "") or name


def _started_s(handle: int) -> float:
    """Return the start of a process in seconds since 1970; 0 if it is unknown."""
    pointer = ctypes.POINTER(ctypes.c_uint64)
    call = function("kernel32", "GetProcessTimes", wintypes.BOOL, wintypes.HANDLE, *[pointer] * 4)
    times = [ctypes.c_uint64() for _ in range(4)]
    if not call(handle, *map(ctypes.byref, times)):
        return 0.0
    return times[0].value / 1e7 - _EPOCH_S


def _session(pid: int) -> int | None:
    """Return the login session of a process; None if it has ended."""
    call = function("kernel32", "ProcessIdToSessionId", wintypes.BOOL, wintypes.DWORD, ctypes.POINTER(wintypes.DWORD))
    session = wintypes.DWORD()
    return session.value if call(pid, ctypes.byref(session)) else None


def _users_of(path: Path) -> tuple[int, ...]:
    """Return the processes that have a file open, by the Restart Manager; none if it does not know them."""
    key = ctypes.create_unicode_buffer(_SESSION_KEY_SIZE)
    session, needed, reasons = wintypes.DWORD(), wintypes.UINT(), wintypes.DWORD()
    users, n_users = (_FileUser * _MAX_USERS)(), wintypes.UINT(_MAX_USERS)
    files = (wintypes.LPCWSTR * 1)(str(path))
    if _restart_manager("RmStartSession", ctypes.byref(session), 0, key):
        return ()
    try:
        if _restart_manager("RmRegisterResources", session, 1, files, 0, None, 0, None):
            return ()
        lists = (ctypes.byref(needed), ctypes.byref(n_users), users, ctypes.byref(reasons))
        if _restart_manager("RmGetList", session, *lists):
            return ()
        return tuple(sorted({user.pid for user in users[: n_users.value]}))
    finally:
        _restart_manager("RmEndSession", session)


def _restart_manager(name: str, *arguments: Any) -> int:
    """Call a function of the Restart Manager; return its error code, 0 for success."""
    types = {
        "RmStartSession": (ctypes.c_void_p, wintypes.DWORD, ctypes.c_void_p),
        "RmRegisterResources": (
            wintypes.DWORD,
            wintypes.UINT,
            ctypes.c_void_p,
            wintypes.UINT,
            ctypes.c_void_p,
            wintypes.UINT,
            ctypes.c_void_p,
        ),
        "RmGetList": (wintypes.DWORD, *[ctypes.c_void_p] * 4),
        "RmEndSession": (wintypes.DWORD,),
    }
    return int(function("rstrtmgr", name, wintypes.DWORD, *types[name])(*arguments))
