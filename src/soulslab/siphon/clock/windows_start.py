"""Starting a Windows game with the clock library: the process is created suspended, gets the library, and runs on.

The library is loaded by a thread in the game whose function is ``LoadLibraryW``. It replaces import slots of the game
before the first instruction of the game runs. Sources: Microsoft, "CreateRemoteThread", "Process Creation Flags".
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from ctypes import wintypes
from pathlib import Path

from soulslab.errors import ClockUnavailableError
from soulslab.siphon.clock.lockstep_page import LockstepPage, library_path
from soulslab.siphon.process.threads_windows import thread_ids
from soulslab.siphon.win32 import error_code, explain, function
from soulslab.siphon.win32.process_handle import (
    PROCESS_QUERY_INFORMATION,
    PROCESS_VM_OPERATION,
    PROCESS_VM_READ,
    PROCESS_VM_WRITE,
    SYNCHRONIZE,
    close_handle,
    open_process,
    wait_for_end,
)

CREATE_SUSPENDED = 0x4
#: Longest wall time of loading; a security program may examine the file first.
LOAD_DEADLINE_MS = 10_000
_PROCESS_CREATE_THREAD = 0x0002
_MEM_COMMIT_RESERVE, _MEM_RELEASE, _PAGE_READWRITE = 0x3000, 0x8000, 0x04
_THREAD_SUSPEND_RESUME = 0x0002
_OTHER_WAYS = "Use the grade scaled if the profile has an attribute for the speed, or realtime"
_DENIED = (
    "A security program may have refused it: see docs/clock.md for the hash of the library and for an exclusion of "
    f"Windows Defender. {_OTHER_WAYS}"
)


def start_with_clock(
    command: Sequence[str | Path],
    page: LockstepPage,
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a game with the clock library; its time is that of the page from its first instruction.

    Args:
        command: Program and arguments. It has to be the game itself; a launcher does not pass the library on.
        page: Clock page (`LockstepPage.create`).
        environment: Environment variables; None for those of this process. The page's are added.
        folder: Working folder; None for that of this process.

    Raises `ClockUnavailableError` if the library cannot be loaded into the program; the process has ended then.
    """
    variables = {**(os.environ if environment is None else environment), **page.environment()}
    process = subprocess.Popen(  # noqa: S603
        [str(word) for word in command], env=variables, cwd=folder, creationflags=CREATE_SUSPENDED
    )
    try:
        load_clock_library(process.pid)
        check_page(process.pid, page)
        resume(process.pid)
    except BaseException:
        process.kill()
        process.wait()
        raise
    return process


def check_page(pid: int, page: LockstepPage) -> None:
    """Raise `ClockUnavailableError` if the library of a process has not found its page."""
    if not page.was_loaded_by(pid):
        raise ClockUnavailableError(
            f"process {pid} has loaded {library_path('_preload')}, which has not found its page. Both have to be of "
            f"the same version of soulslab. {_OTHER_WAYS}"
        )


def load_clock_library(pid: int) -> None:
    """Load the clock library into a process that was created suspended, with the variables of the page.

    Raises `ClockUnavailableError` if it cannot be loaded, `AttachDeniedError`, `ProcessExitedError`.
    """
    path = library_path("_preload")
    access = _PROCESS_CREATE_THREAD | PROCESS_QUERY_INFORMATION | PROCESS_VM_OPERATION
    with _opened(pid, access | PROCESS_VM_READ | PROCESS_VM_WRITE | SYNCHRONIZE) as process:
        _check_bits(process, pid)
        with _text_in(process, pid, str(path)) as address:
            _call_load_library(process, pid, address)


def resume(pid: int) -> None:
    """Let all threads of a process run that was created suspended. Raises `ClockUnavailableError`."""
    threads = list(thread_ids(pid))
    open_thread = function("kernel32", "OpenThread", wintypes.HANDLE, wintypes.DWORD, wintypes.BOOL, wintypes.DWORD)
    resume_thread = function("kernel32", "ResumeThread", wintypes.DWORD, wintypes.HANDLE)
    if not threads:
        raise ClockUnavailableError(f"process {pid} has no thread that could be resumed; it may have been ended")
    for tid in threads:
        handle = open_thread(_THREAD_SUSPEND_RESUME, False, tid)
        if not handle:
            raise _failure(pid, "resuming it")
        with closing(_Handle(handle)):
            if resume_thread(handle) == 2**32 - 1:
                raise _failure(pid, "resuming it")


class _Handle:
    def __init__(self, handle: int) -> None:
        self._handle = handle

    def close(self) -> None:
        close_handle(self._handle)


@contextmanager
def _opened(pid: int, access: int) -> Iterator[int]:
    handle = open_process(pid, access)
    with closing(_Handle(handle)):
        yield handle


def _check_bits(process: int, pid: int) -> None:
    """Refuse a 32-bit program; the library has 64 bits."""
    is_32_bit = wintypes.BOOL()
    call = function("kernel32", "IsWow64Process", wintypes.BOOL, wintypes.HANDLE, ctypes.c_void_p)
    if not call(process, ctypes.byref(is_32_bit)):
        raise _failure(pid, "querying its architecture")
    if is_32_bit.value:
        raise ClockUnavailableError(
            f"process {pid} is a 32-bit program, and the clock library has 64 bits. {_OTHER_WAYS}"
        )


@contextmanager
def _text_in(process: int, pid: int, text: str) -> Iterator[int]:
    """Put a text into the memory of a process; the context is its address."""
    data = ctypes.create_unicode_buffer(text)
    size = ctypes.sizeof(data)
    allocate = function(
        "kernel32",
        "VirtualAllocEx",
        ctypes.c_void_p,
        wintypes.HANDLE,
        ctypes.c_void_p,
        ctypes.c_size_t,
        wintypes.DWORD,
        wintypes.DWORD,
    )
    write = function(
        "kernel32",
        "WriteProcessMemory",
        wintypes.BOOL,
        wintypes.HANDLE,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_void_p,
    )
    free = function(
        "kernel32", "VirtualFreeEx", wintypes.BOOL, wintypes.HANDLE, ctypes.c_void_p, ctypes.c_size_t, wintypes.DWORD
    )
    address = allocate(process, None, size, _MEM_COMMIT_RESERVE, _PAGE_READWRITE)
    if not address:
        raise _failure(pid, "allocating memory in it")
    try:
        if not write(process, address, data, size, None):
            raise _failure(pid, "writing to it")
        yield int(address)
    finally:
        free(process, address, 0, _MEM_RELEASE)


def _call_load_library(process: int, pid: int, address: int) -> None:
    """Run ``LoadLibraryW`` in a process. kernel32 has the same address in all processes of one start of Windows."""
    module_of = function("kernel32", "GetModuleHandleW", ctypes.c_void_p, wintypes.LPCWSTR)
    address_of = function("kernel32", "GetProcAddress", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
    create = function(
        "kernel32",
        "CreateRemoteThread",
        wintypes.HANDLE,
        wintypes.HANDLE,
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_void_p,
        ctypes.c_void_p,
        wintypes.DWORD,
        ctypes.c_void_p,
    )
    result_of = function("kernel32", "GetExitCodeThread", wintypes.BOOL, wintypes.HANDLE, ctypes.c_void_p)
    load = address_of(module_of("kernel32.dll"), b"LoadLibraryW")
    thread = create(process, None, 0, load, address, 0, None)
    if not thread:
        raise _failure(pid, "creating a thread in it")
    with closing(_Handle(thread)):
        if not wait_for_end(thread, LOAD_DEADLINE_MS):
            raise ClockUnavailableError(
                f"process {pid} has not loaded the clock library within {LOAD_DEADLINE_MS / 1e3:g} s. {_DENIED}"
            )
        module = wintypes.DWORD()
        if not result_of(thread, ctypes.byref(module)) or not module.value:
            raise ClockUnavailableError(f"process {pid} could not load {library_path('_preload')}. {_DENIED}")


def _failure(pid: int, action: str) -> ClockUnavailableError:
    """Return the error for a failed call; call it directly after that."""
    return ClockUnavailableError(
        f"cannot load the clock library into process {pid}: {action} failed, {explain(error_code())}. {_DENIED}"
    )
