"""Starting a game on Windows as a child process, and ending it with all of its processes.

A job object contains the started process and all of its children. The kernel ends them when the last handle of the job
is closed, so also when this process is killed.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from ctypes import wintypes
from functools import partial
from pathlib import Path
from typing import IO, Any

from soulslab.errors import LaunchError, ProcessExitedError
from soulslab.siphon.process.command import SILENT, fill_command
from soulslab.siphon.process.image import same_name
from soulslab.siphon.process.windows import name_of
from soulslab.siphon.profile import Process
from soulslab.siphon.win32 import error_code, explain, function

CREATE_SUSPENDED = 0x4
CREATE_NEW_PROCESS_GROUP = 0x200
#: Exit code of a game that the session has ended.
ENDED = 1
KILL_DEADLINE_S = 10.0
POLL_S = 0.01
_OWN_COMMAND = "soulslab"
#: Number of bytes of a game's output that are kept for errors.
KEPT_BYTES = 1 << 16
_CHUNK_BYTES = 4096

# Of JOBOBJECTINFOCLASS and the limits of a job in winnt.h.
BASIC_PROCESS_ID_LIST, EXTENDED_LIMIT_INFORMATION = 3, 9
KILL_ON_JOB_CLOSE = 0x2000
MAX_PROCESSES = 256


class _Limits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION."""

    _fields_ = (
        ("process_time", ctypes.c_int64),
        ("job_time", ctypes.c_int64),
        ("flags", wintypes.DWORD),
        ("working_set", ctypes.c_size_t * 2),
        ("n_processes", wintypes.DWORD),
        ("affinity", ctypes.c_size_t),
        ("priority", wintypes.DWORD),
        ("scheduling", wintypes.DWORD),
        ("io_counters", ctypes.c_uint64 * 6),
        ("memory", ctypes.c_size_t * 4),
    )


class _ProcessIds(ctypes.Structure):
    """JOBOBJECT_BASIC_PROCESS_ID_LIST."""

    _fields_ = (
        ("n_assigned", wintypes.DWORD),
        ("n_listed", wintypes.DWORD),
        ("ids", ctypes.c_size_t * MAX_PROCESSES),
    )


class Job:
    """A job object. Raises `LaunchError` if the system refuses it."""

    def __init__(self, *, ends_with_us: bool) -> None:
        create = function("kernel32", "CreateJobObjectW", wintypes.HANDLE, ctypes.c_void_p, wintypes.LPCWSTR)
        self._handle = create(None, None)
        if not self._handle:
            raise LaunchError(f"cannot create a job for the game: {explain(error_code())}")
        limits = _Limits(flags=KILL_ON_JOB_CLOSE if ends_with_us else 0)
        self._call("SetInformationJobObject", EXTENDED_LIMIT_INFORMATION, ctypes.byref(limits), ctypes.sizeof(limits))

    def add(self, process: int) -> None:
        """Put a process into the job, by its handle."""
        assign = function("kernel32", "AssignProcessToJobObject", wintypes.BOOL, wintypes.HANDLE, wintypes.HANDLE)
        if not assign(self._handle, process):
            raise LaunchError(f"the game cannot be put into a job: {explain(error_code())}")

    def processes(self) -> set[int]:
        """Return the ids of the processes in the job that have not ended; none after `close`."""
        if not self._handle:
            return set()
        found = _ProcessIds()
        self._call("QueryInformationJobObject", BASIC_PROCESS_ID_LIST, ctypes.byref(found), ctypes.sizeof(found), None)
        return set(found.ids[: found.n_listed])

    def end(self) -> None:
        """End all processes of the job."""
        terminate = function("kernel32", "TerminateJobObject", wintypes.BOOL, wintypes.HANDLE, wintypes.UINT)
        if not terminate(self._handle, ENDED):
            raise LaunchError(f"the processes of the game cannot be ended: {explain(error_code())}")

    def close(self) -> None:
        """Release the job; a second call does nothing."""
        handle, self._handle = self._handle, None
        if handle:
            function("kernel32", "CloseHandle", wintypes.BOOL, wintypes.HANDLE)(handle)

    def _call(self, name: str, what: int, *arguments: Any) -> None:
        types = (ctypes.c_void_p, wintypes.DWORD, ctypes.c_void_p)[: len(arguments)]
        call = function("kernel32", name, wintypes.BOOL, wintypes.HANDLE, ctypes.c_int, *types)
        if not call(self._handle, what, *arguments):
            raise LaunchError(f"{name} failed for the job of the game: {explain(error_code())}")


class WindowsGameProcess:
    """A started game with its helper processes (`soulslab.siphon.real_game.StartedProcess`).

    `pid` is that of the game itself; `directory` is its private folder, removed by `kill`.
    """

    def __init__(self, child: subprocess.Popen[bytes], job: Job, directory: Path, parts: ExitStack) -> None:
        self.pid = child.pid
        self.directory = directory
        self._child = child
        self._job = job
        self._parts = parts
        assert child.stdout is not None  # noqa: S101  # it was started with a pipe
        self._output = _OutputReader(child.stdout)

    @property
    def has_ended(self) -> bool:
        """Whether the game has ended; the program that started it may still run."""
        return self._child.poll() is not None if self.pid == self._child.pid else self.pid not in self._job.processes()

    def status(self) -> int | None:
        """Return the exit status of the command; None while it runs."""
        return self._child.poll()

    def processes(self) -> set[int]:
        """Return all started processes that have not ended."""
        return self._job.processes()

    def output_tail(self) -> str:
        """Return the end of the game's output."""
        return self._output.tail()

    def kill(self) -> None:
        """End the game with all of its processes, and remove its folder; a second call does nothing."""
        if self._child.returncode is None or self._job.processes():
            self._job.end()
            self._child.wait(KILL_DEADLINE_S)
            deadline = time.monotonic() + KILL_DEADLINE_S
            while self._job.processes() and time.monotonic() < deadline:
                time.sleep(POLL_S)
            self._output.close()
        self._parts.close()

    def find_game(self, executable: str, deadline_s: float, wait: Callable[[], object] | None = None) -> None:
        """Wait until a process with a file name runs among the started ones, and use it as the game.

        `wait` is called between two searches; None for a short sleep. Raises `LaunchError` if all processes ended, or
        none has that name in time.
        """
        deadline = time.monotonic() + deadline_s
        while True:
            pids = self._job.processes()
            matching = [pid for pid in sorted(pids) if same_name(_name_of(pid), executable)]
            if matching:
                self.pid = self._child.pid if self._child.pid in matching else matching[0]
                return
            if not pids:
                self._output.close()  # what the ended processes printed may not have been read yet
            printed = f"it printed:\n{self.output_tail()}" if self.output_tail() else "it printed nothing"
            if not pids:
                raise LaunchError(
                    f"the game ended at once, with exit status {self._child.wait()}, before a process {executable!r} "
                    f"was seen; {printed}",
                    pid=self._child.pid,
                )
            if time.monotonic() > deadline:
                raise LaunchError(
                    f"no process {executable!r} came up within {deadline_s:.0f} s; does process.executable name the "
                    f"program that the command starts? {printed}",
                    pid=self._child.pid,
                )
            (wait or partial(time.sleep, POLL_S))()


def start_command(
    process: Process,
    *,
    options: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    ends_with_us: bool = True,
    before_it_runs: Callable[[int], None] | None = None,
) -> WindowsGameProcess:
    """Start the command of a game; `WindowsGameProcess.find_game` finds the game among the processes of the command.

    The command gets an empty private folder (``{directory}``), which is its working folder unless the profile names
    another one.

    Args:
        process: Command of the profile.
        options: Values that replace those in `Process.options`.
        ends_with_us: Whether the kernel ends all of its processes when this process ends for any reason.
        environment: Variables that override the profile's.
        before_it_runs: Called with the id of the process before its first instruction.

    Raises:
        LaunchError: The game cannot be started.
        ConfigError: An option is unknown, or the profile has no command.
    """
    with ExitStack() as undo:
        folder = Path(tempfile.mkdtemp(prefix="soulslab-run-"))
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        command, variables = fill_command(process, options or {}, folder)
        own: dict[str, str] = {}
        if command[0] == _OWN_COMMAND:
            # Not soulslab.exe or the python.exe of a virtual environment, which start Python as another process.
            python = str(sys._base_executable)  # type: ignore[attr-defined,unused-ignore]
            command = [python, "-m", _OWN_COMMAND, *command[1:]]
            own = {"__PYVENV_LAUNCHER__": sys.executable} if python != sys.executable else {}
        program = shutil.which(command[0])
        if program is None:
            raise LaunchError(
                f"the program {command[0]!r} was not found; give its whole path, or add its folder to PATH"
            )
        directory = Path(process.directory).expanduser() if process.directory else folder
        job = Job(ends_with_us=ends_with_us)
        undo.callback(job.close)
        variables = {**os.environ, **own, **SILENT, **variables, **(environment or {})}
        child = _start([str(Path(program).absolute()), *command[1:]], variables, directory)
        undo.callback(_end, child)
        job.add(_handle_of(child))
        if before_it_runs is not None:
            before_it_runs(child.pid)
        resume = function("ntdll", "NtResumeProcess", ctypes.c_long, wintypes.HANDLE)
        if status := resume(_handle_of(child)):
            raise LaunchError(f"the game cannot be resumed after its start: NTSTATUS {status & 0xFFFFFFFF:#x}")
        return WindowsGameProcess(child, job, folder, undo.pop_all())


class _OutputReader:
    """Reads the output of a game in a thread, and keeps the end of it."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._kept = b""
        self._thread = threading.Thread(target=self._read, name="soulslab-output", daemon=True)
        self._thread.start()

    def tail(self, max_bytes: int = 2000) -> str:
        """Return the end of the output, in whole lines where possible."""
        text = self._kept
        end = text[-max_bytes:].decode(errors="replace")
        return (end.partition("\n")[2] if len(text) > max_bytes and "\n" in end else end).strip()

    def close(self) -> None:
        """Wait until the end of the output was read; all processes with the other end of the pipe have ended."""
        self._thread.join(KILL_DEADLINE_S)

    def _read(self) -> None:
        with self._pipe:
            while data := os.read(self._pipe.fileno(), _CHUNK_BYTES):
                self._kept = (self._kept + data)[-KEPT_BYTES:]


def _start(command: list[str], environment: dict[str, str], directory: Path) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(  # noqa: S603 - running the profile's command is what launch is for
            command,
            env=environment,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            creationflags=CREATE_SUSPENDED | CREATE_NEW_PROCESS_GROUP,
        )
    except OSError as error:
        raise LaunchError(f"cannot start {command[0]} in {directory}: {error.strerror}") from error


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a process that was not put into a `WindowsGameProcess`; does nothing if it has ended."""
    if child.returncode is None:
        child.kill()
        child.communicate()


def _handle_of(child: subprocess.Popen[bytes]) -> int:
    return int(child._handle)  # type: ignore[attr-defined]


def _name_of(pid: int) -> str:
    """Return the name of a process; "" if it has just ended."""
    try:
        return name_of(pid)
    except ProcessExitedError:
        return ""
