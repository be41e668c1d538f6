"""Threads of a process on Windows (Microsoft, "Thread32First", "GetThreadTimes")."""

from __future__ import annotations

import ctypes
from ctypes import wintypes

from soulslab.errors import ProcessError
from soulslab.siphon.win32 import error_code, explain, function
from soulslab.siphon.win32.process_handle import close_handle

_TH32CS_SNAPTHREAD, _THREAD_QUERY_LIMITED_INFORMATION = 0x4, 0x0800
_INVALID_HANDLE = ctypes.c_void_p(-1).value


class _ThreadEntry(ctypes.Structure):  # THREADENTRY32
    _fields_ = (
        ("size", wintypes.DWORD),
        ("usage", wintypes.DWORD),
        ("thread_id", wintypes.DWORD),
        ("process_id", wintypes.DWORD),
        ("priority", wintypes.LONG),
        ("delta_priority", wintypes.LONG),
        ("flags", wintypes.DWORD),
    )


def thread_ids(pid: int) -> list[int]:
    """Return the ids of the threads of a process; none for one that has ended. Raises `ProcessError`."""
    create = function("kernel32", "CreateToolhelp32Snapshot", wintypes.HANDLE, wintypes.DWORD, wintypes.DWORD)
    first = function("kernel32", "Thread32First", wintypes.BOOL, wintypes.HANDLE, ctypes.c_void_p)
    following = function("kernel32", "Thread32Next", wintypes.BOOL, wintypes.HANDLE, ctypes.c_void_p)
    snapshot = create(_TH32CS_SNAPTHREAD, 0)
    if snapshot in (None, _INVALID_HANDLE):
        raise ProcessError(f"cannot list the threads of process {pid}: {explain(error_code())}", pid=pid)
    found = []
    try:
        entry = _ThreadEntry(size=ctypes.sizeof(_ThreadEntry))
        is_valid = first(snapshot, ctypes.byref(entry))
        while is_valid:
            if entry.process_id == pid:
                found.append(int(entry.thread_id))
            is_valid = following(snapshot, ctypes.byref(entry))
    finally:
        close_handle(snapshot)
    return found


def processor_time_ns(tid: int) -> int | None:
    """Return the processor time of a thread; None if it has ended. The system counts it in units of 10 to 16 ms."""
    open_thread = function("kernel32", "OpenThread", wintypes.HANDLE, wintypes.DWORD, wintypes.BOOL, wintypes.DWORD)
    times_of = function("kernel32", "GetThreadTimes", wintypes.BOOL, wintypes.HANDLE, *[ctypes.c_void_p] * 4)
    handle = open_thread(_THREAD_QUERY_LIMITED_INFORMATION, False, tid)
    if not handle:
        return None
    try:
        times = [ctypes.c_uint64() for _ in range(4)]
        if not times_of(handle, *map(ctypes.byref, times)):
            return None
        return (times[2].value + times[3].value) * 100
    finally:
        close_handle(handle)
