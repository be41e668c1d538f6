"""Detection of the end of a process by a descriptor, because process ids are reused."""

from __future__ import annotations

import os
import select

from soulslab.errors import ProcessExitedError


class ProcessWatch:
    """Watches one process; a zombie counts as ended.

    Args:
        pid: Process id.

    Raises:
        ProcessExitedError: The process does not exist.
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
        """Raise `ProcessExitedError` if the process has ended."""
        if not self.is_alive():
            raise ProcessExitedError(f"process {self.pid} has ended", pid=self.pid)

    def is_alive(self) -> bool:
        """Return whether the process runs."""
        return self._fd >= 0 and not self._poll.poll(0)

    def wait(self, seconds: float) -> None:
        """Wait for a wall time, exact to a microsecond. Raises as `check`, as soon as the process ends."""
        if select.select([self._fd], [], [], max(seconds, 0.0))[0]:
            raise ProcessExitedError(f"process {self.pid} has ended", pid=self.pid)

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
