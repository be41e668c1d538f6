"""Watching one process until it ends; a later process with the same id is not confused with it."""

from __future__ import annotations

import math
import os
import select
import sys
import time
from typing import Protocol

from soulslab.errors import ProcessExitedError, ProcessNotFoundError
from soulslab.siphon.win32.process_handle import (
    PROCESS_QUERY_LIMITED_INFORMATION,
    SYNCHRONIZE,
    close_handle,
    open_process,
    wait_for_end,
)


class ProcessWatch(Protocol):
    """Watches one process; a zombie counts as ended."""

    pid: int

    def check(self) -> None:
        """Raise `ProcessExitedError` if the process has ended."""

    def is_alive(self) -> bool:
        """Return whether the process runs."""

    def wait(self, seconds: float) -> None:
        """Wait for a wall time, exact to a tenth of a millisecond. Raises as `check`, as soon as the process ends."""

    def close(self) -> None:
        """Stop watching; a second call does nothing."""


def watch_process(pid: int) -> ProcessWatch:
    """Watch a process. Raises `ProcessExitedError` if it does not exist."""
    platform: str = sys.platform
    return WindowsProcessWatch(pid) if platform == "win32" else LinuxProcessWatch(pid)


def wait_readable(seconds: float, *descriptors: int) -> bool:
    """Wait until a descriptor can be read, at most for a wall time (in whole milliseconds); return whether one can.

    Unlike ``select``, it takes descriptors above 1023, which a process with many games has.
    """
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(math.ceil(1000.0 * max(seconds, 0.0))))


class LinuxProcessWatch:
    """Watches a process by a descriptor (`ProcessWatch`).

    Raises `ProcessExitedError` if the process does not exist.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        try:
            self._fd = os.pidfd_open(pid)
        except OSError as error:
            raise ProcessExitedError(f"process {pid} has ended", pid=pid) from error
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)

    def check(self) -> None:
        """Raise `ProcessExitedError` if the process has ended."""
        if not self.is_alive():
            raise ProcessExitedError(f"process {self.pid} has ended", pid=self.pid)

    def is_alive(self) -> bool:
        """Return whether the process runs."""
        return self._fd >= 0 and not self._poll.poll(0)

    def fileno(self) -> int:
        """Return the descriptor, which is readable once the process has ended."""
        return self._fd

    def wait(self, seconds: float) -> None:
        """Wait for a wall time, exact to a microsecond. Raises as `check`, as soon as the process ends."""
        end_s = time.monotonic() + seconds
        # Unlike select, poll takes any descriptor, but only whole milliseconds.
        has_ended = bool(self._poll.poll(max(int(1000.0 * seconds), 0)))
        if not has_ended and (left_s := end_s - time.monotonic()) > 0.0:
            time.sleep(left_s)
            has_ended = bool(self._poll.poll(0))
        if has_ended:
            raise ProcessExitedError(f"process {self.pid} has ended", pid=self.pid)

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


#: Rest of a wait on Windows that is spent in a loop, because time.sleep may last some tenths of a millisecond longer.
_SPIN_S = 0.002
#: Longest time on Windows until the end of a process is noticed.
_SLICE_S = 0.02


class WindowsProcessWatch:
    """Watches a process by a handle (`ProcessWatch`).

    Raises `ProcessExitedError` if the process does not exist.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        try:
            self._handle = open_process(pid, SYNCHRONIZE | PROCESS_QUERY_LIMITED_INFORMATION)
        except ProcessNotFoundError as error:
            raise ProcessExitedError(f"process {pid} has ended", pid=pid) from error

    def check(self) -> None:
        """See `ProcessWatch.check`."""
        if not self.is_alive():
            raise ProcessExitedError(f"process {self.pid} has ended", pid=self.pid)

    def is_alive(self) -> bool:
        """See `ProcessWatch.is_alive`."""
        return bool(self._handle) and not wait_for_end(self._handle)

    def wait(self, seconds: float) -> None:
        """See `ProcessWatch.wait`."""
        end_s = time.perf_counter() + seconds
        self.check()
        while (left_s := end_s - time.perf_counter()) > 0.0:
            # time.sleep uses a timer of high resolution. A wait for the process may end a system tick of 15.6 ms late.
            time.sleep(min(max(left_s - _SPIN_S, 0.0), _SLICE_S))
            self.check()

    def close(self) -> None:
        """See `ProcessWatch.close`."""
        handle, self._handle = self._handle, 0
        if handle:
            close_handle(handle)
