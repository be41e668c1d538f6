"""Noticing the end of a process, without asking for it by an id that somebody else may have by then."""

from __future__ import annotations

import os
import select

from soulslab.errors import ProcessExitedError


class ProcessWatch:
    """Follows one process; a zombie has ended.

    Args:
        pid: Its id.

    Raises:
        ProcessExitedError: There is none.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._fd = -1
        try:
            self._fd = os.pidfd_open(pid)
        except (ProcessLookupError, OSError) as error:
            raise ProcessExitedError(f"process {pid} has ended", pid=pid) from error
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)

    def check(self) -> None:
        """Raise `ProcessExitedError` if it has ended."""
        if not self.is_alive():
            raise ProcessExitedError(f"process {self.pid} has ended", pid=self.pid)

    def is_alive(self) -> bool:
        """Return whether it runs."""
        return self._fd >= 0 and not self._poll.poll(0)

    def wait(self, seconds: float) -> None:
        """Wait so long in wall time, to the microsecond. Raises as `check`, as soon as it ends."""
        if select.select([self._fd], [], [], max(seconds, 0.0))[0]:
            raise ProcessExitedError(f"process {self.pid} has ended", pid=self.pid)

    def close(self) -> None:
        """Let go; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
