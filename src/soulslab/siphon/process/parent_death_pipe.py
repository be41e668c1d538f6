"""Lets processes end when we do, even by kill -9: the kernel signals them when our end of a pipe closes.

The usual ways have a hole each. PR_SET_PDEATHSIG fires when the *thread* that started the process ends, a process that
watches costs a process, and cleaning up at exit does not happen in a kill -9.

Here the child inherits the reading end of a pipe that is set to signal its owner on news (fcntl(2), O_ASYNC, F_SETOWN,
F_SETSIG), and the owner is set to the child, or its group. The news is that the last writer, we, is gone. A child that
closes all descriptors when it starts is not reached, and a process that we forked without exec counts as us.
"""

from __future__ import annotations

import fcntl
import os
import signal

# <asm-generic/fcntl.h>; the module fcntl does not name it in every build of Python.
F_SETSIG = 10


class Lifeline:
    """A pipe to one child.

    Attributes:
        fd: The end that the child must inherit (``pass_fds``).
    """

    def __init__(self) -> None:
        self.fd, self._our_end = os.pipe()

    def tie(self, pid: int, number: signal.Signals) -> None:
        """Have the kernel send the signal when we are gone.

        Args:
            pid: The child; negative for its whole process group.
            number: What to send.
        """
        fcntl.fcntl(self.fd, fcntl.F_SETOWN, pid)
        fcntl.fcntl(self.fd, F_SETSIG, int(number))
        fcntl.fcntl(self.fd, fcntl.F_SETFL, fcntl.fcntl(self.fd, fcntl.F_GETFL) | os.O_ASYNC)

    def release(self) -> None:
        """Let the child live on without us; a second call does nothing."""
        if self._our_end >= 0:
            # First, as closing our end is what sends the signal.
            fcntl.fcntl(self.fd, fcntl.F_SETFL, fcntl.fcntl(self.fd, fcntl.F_GETFL) & ~os.O_ASYNC)
            os.close(self._our_end)
            os.close(self.fd)
            self._our_end = -1
