"""Ends child processes when this process ends, even by SIGKILL: the kernel signals them when our end of a pipe closes.

Other methods are incomplete. PR_SET_PDEATHSIG fires when the *thread* that started the process ends, a watching process
costs a process, and exit handlers do not run after SIGKILL.

The child inherits the read end of a pipe that signals its owner on activity (fcntl(2), O_ASYNC, F_SETOWN, F_SETSIG).
The owner is the child or its process group; the activity is that the last writer, this process, is gone. A child that
closes all descriptors when it starts is not reached, and a process forked from this one without exec counts as this
one.
"""

from __future__ import annotations

import fcntl
import os
import signal

# <asm-generic/fcntl.h>; the module fcntl does not name it in every build of Python.
F_SETSIG = 10


class ParentDeathPipe:
    """A pipe to one child process.

    Attributes:
        fd: Read end, which the child must inherit (``pass_fds``).
    """

    def __init__(self) -> None:
        self.fd, self._our_end = os.pipe()

    def tie(self, pid: int, number: signal.Signals) -> None:
        """Make the kernel send a signal when this process ends.

        Args:
            pid: Process id of the child; negative for its whole process group.
            number: Signal number.
        """
        fcntl.fcntl(self.fd, fcntl.F_SETOWN, pid)
        fcntl.fcntl(self.fd, F_SETSIG, int(number))
        fcntl.fcntl(self.fd, fcntl.F_SETFL, fcntl.fcntl(self.fd, fcntl.F_GETFL) | os.O_ASYNC)

    def release(self) -> None:
        """Allow the child to outlive this process; a second call does nothing."""
        if self._our_end >= 0:
            # Before our end is closed, which would send the signal.
            fcntl.fcntl(self.fd, fcntl.F_SETFL, fcntl.fcntl(self.fd, fcntl.F_GETFL) & ~os.O_ASYNC)
            os.close(self._our_end)
            os.close(self.fd)
            self._our_end = -1
