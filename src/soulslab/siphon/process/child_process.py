"""Parts of a child process: its private folder, its output, and a pipe that ends it together with this process."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import tempfile
import threading
import time
from pathlib import Path

from filelock import lock_descriptor

# <asm-generic/fcntl.h>; the module fcntl does not name it in every build of Python.
F_SETSIG = 10


class ParentDeathPipe:
    """A pipe that makes the kernel signal a child process when this process ends, even by SIGKILL.

    Other methods are incomplete. PR_SET_PDEATHSIG fires when the *thread* that started the process ends, a watching
    process costs a process, and exit handlers do not run after SIGKILL.

    The child inherits the read end `fd` (``pass_fds``), which signals its owner on activity (fcntl(2), O_ASYNC,
    F_SETOWN, F_SETSIG). The owner is the child or its process group; the activity is that the last writer, this
    process, is gone. A child that closes all descriptors when it starts is not reached, and a process forked from this
    one without exec counts as this one.
    """

    def __init__(self) -> None:
        self.fd, self._our_end = os.pipe()

    def tie(self, pid: int, number: signal.Signals) -> None:
        """Make the kernel signal a process, or with a negative id a process group, when this process ends."""
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


PREFIX = "soulslab-"
#: A folder younger than this may not be locked by its owner yet.
MIN_AGE_S = 60.0


class PrivateFolder:
    """A new, empty folder that only this user can enter; `kind` is a part of its name: ``display``.

    The folder is locked while a process has `fd` open: this process, or one that inherited it. Once no process does,
    for example because this one was killed, the next PrivateFolder of the same kind removes it.
    """

    def __init__(self, kind: str) -> None:
        prefix = f"{PREFIX}{kind}-"
        _sweep(prefix)
        self.path = Path(tempfile.mkdtemp(prefix=prefix))
        self.fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        lock_descriptor(self.fd, blocking=False)
        self._is_closed = False

    def close(self) -> None:
        """Remove the folder and its contents; a second call does nothing."""
        if not self._is_closed:
            self._is_closed = True
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self.fd)


def _sweep(prefix: str) -> None:
    """Remove the folders of this user whose owners have ended."""
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:  # another user's, or just removed
            continue
        try:
            about = os.fstat(fd)
            is_old = about.st_uid == os.getuid() and time.time() - about.st_ctime > MIN_AGE_S
            if is_old and lock_descriptor(fd, blocking=False):  # not in use
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(fd)


MAX_BYTES = 1 << 20
KEPT_BYTES = 1 << 16
CHECK_INTERVAL_S = 5.0


class Output:
    """The output of a game, in an unnamed file of bounded size, so that errors can show the end of it.

    It is a file and not a pipe, because a game that outlives this process must not fail at its next write. A thread
    checks the size regularly and keeps only the end. The process gets `fd` as standard output and error.
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
