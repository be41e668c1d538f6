"""A pseudo-terminal that a program under test plays in; POSIX only."""

import os
import re
import termios
import threading


class Pty:
    """A pseudo-terminal whose output is read all the time, as a person's would be."""

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
            except OSError:  # the other end is closed
                return
            if not new:
                return
            with self._changed:
                self._output += new
                self._changed.notify_all()

    def output(self):
        with self._changed:
            return self._output.decode("utf-8", "ignore")

    def wait_for(self, pattern, timeout_s=60):
        def found():
            return re.search(pattern, self._output.decode("utf-8", "ignore"))

        with self._changed:
            match = self._changed.wait_for(found, timeout_s)
        assert match, f"{pattern!r} has not come: {self.output()[-500:]!r}"
        return match

    def type(self, keys):
        os.write(self.master, keys.encode())

    def attributes(self):
        return termios.tcgetattr(self.slave)

    def close(self):
        os.close(self.slave)
        os.close(self.master)
