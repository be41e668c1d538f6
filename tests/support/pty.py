"""A pseudo-terminal for a program under test; POSIX only."""

import os
import re
import termios
import threading
import time

from support.waiting import PATIENCE_S

LONGEST = 16384


class Pty:
    """A pseudo-terminal whose output is read continuously."""

    def __init__(self, columns=80, lines=24):
        self.master, self.slave = os.openpty()
        termios.tcsetwinsize(self.slave, (lines, columns))
        self._output = b""
        self._changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        while True:
            try:
                new = os.read(self.master, 65536)
            except OSError:  # the program has closed the terminal
                return
            if not new:
                return
            with self._changed:
                self._output += new
                self._changed.notify_all()

    def output(self):
        with self._changed:
            return self._output.decode("utf-8", "ignore")

    def position(self):
        """Return the end of the output, for `wait_for`."""
        with self._changed:
            return len(self._output)

    def wait_for(self, pattern, timeout_s=PATIENCE_S, *, after=0):
        """Return the first match of a pattern in the output behind a position; a match is at most `LONGEST` bytes."""
        compiled, start, end_s = re.compile(pattern.encode()), after, time.monotonic() + timeout_s
        with self._changed:
            while not (match := compiled.search(self._output, start)):
                # Do not search the same output twice: the pictures of a fight are megabytes.
                start = max(after, len(self._output) - LONGEST)
                assert self._changed.wait(max(0.0, end_s - time.monotonic())), (
                    f"{pattern!r} has not come: {self._output[-500:]!r}"
                )
        return match

    def type(self, keys):
        os.write(self.master, keys.encode())

    def attributes(self):
        return termios.tcgetattr(self.slave)

    def close(self):
        os.close(self.slave)
        os.close(self.master)
