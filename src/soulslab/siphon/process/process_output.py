"""The output of a game, in a file of bounded size, so that errors can show the end of it."""

from __future__ import annotations

import fcntl
import os
import tempfile
import threading

MAX_BYTES = 1 << 20
KEPT_BYTES = 1 << 16
CHECK_INTERVAL_S = 5.0


class Output:
    """An unnamed file that a process can write to without limit.

    It is a file and not a pipe, because a game that outlives this process must not fail at its next write. A thread
    checks the size regularly and keeps only the end.

    Attributes:
        fd: Pass this descriptor to the process as standard output and error.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="soulslab-output-")  # noqa: SIM115 - closed by `close`
        self.fd = self._file.fileno()
        # Opened for appending: a process writes at the end, also after the file was shortened.
        fcntl.fcntl(self.fd, fcntl.F_SETFL, fcntl.fcntl(self.fd, fcntl.F_GETFL) | os.O_APPEND)
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="soulslab-output", daemon=True)
        self._thread.start()

    def tail(self, max_bytes: int = 2000) -> str:
        """Return the end of the output, in whole lines where possible; "" after `close`."""
        if self._is_closing.is_set():
            return ""
        size = os.fstat(self.fd).st_size
        text = os.pread(self.fd, max_bytes, max(size - max_bytes, 0)).decode(errors="replace")
        if size > max_bytes and "\n" in text:
            text = text.partition("\n")[2]
        return text.strip()

    def trim(self, max_bytes: int = MAX_BYTES) -> None:
        """Keep only the end of a long output; lines printed during the call can be lost."""
        size = os.fstat(self.fd).st_size
        if size > max_bytes:
            kept = os.pread(self.fd, KEPT_BYTES, size - min(KEPT_BYTES, size))
            os.ftruncate(self.fd, 0)
            os.write(self.fd, kept)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if not self._is_closing.is_set():
            self._is_closing.set()
            self._thread.join()
            self._file.close()

    def _watch(self) -> None:
        while not self._is_closing.wait(CHECK_INTERVAL_S):
            self.trim()
