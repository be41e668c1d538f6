"""A file that one process at a time can hold; the system lets go of it when that process dies, in whatever way."""

from __future__ import annotations

import os
import socket
import sys
import time
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Final

from soulslab.errors import ChannelError

WAIT_S: Final = 1.0
"""Whoever only looks holds a lock for an instant; whoever takes one waits so long for that to pass (s)."""

_POLL_S: Final = 0.005
_MAX_HOLDER_BYTES: Final = 512


class ProcessLock:
    """A lock that this process holds; `release` lets go of it, and so does the end of the process."""

    def __init__(self, path: Path, what: str) -> None:
        """Take a lock.

        Args:
            path: Its file, made if needed.
            what: Who holds it, for the message: "an actor".

        Raises:
            ChannelError: Another process holds it, which the message names, or the file cannot be opened.
        """
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        except OSError as error:
            raise ChannelError(path, f"could not be opened: {error.strerror or error}") from error
        deadline = time.monotonic() + WAIT_S
        while not _lock(self._fd):
            if time.monotonic() > deadline:
                holder = _read_holder(self._fd)
                os.close(self._fd)
                raise ChannelError(path, f"is in use by {what}{holder}; end that process first")
            time.sleep(_POLL_S)
        _write_holder(self._fd)

    def __enter__(self) -> ProcessLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Let go; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _write_holder(fd: int) -> None:
    """Write into a lock file which process holds the lock.

    The text begins at byte 1, because Windows does not let other processes read byte 0, which is locked there.
    """
    now = datetime.now().astimezone()
    text = f"\nprocess {os.getpid()} on {socket.gethostname()}, since {now:%Y-%m-%d %H:%M:%S}\n"
    os.ftruncate(fd, 0)
    os.write(fd, text.encode())


def _read_holder(fd: int) -> str:
    """Return which process holds a lock, in parentheses; "" if the lock file does not say it."""
    os.lseek(fd, 1, os.SEEK_SET)
    text = os.read(fd, _MAX_HOLDER_BYTES).decode(errors="replace").strip()
    return f" ({text})" if text and text.isprintable() else ""


def is_held(path: Path) -> bool:
    """Tell whether a process holds a lock now."""
    try:
        fd = os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        return False
    try:
        return not _lock(fd)
    finally:
        os.close(fd)


if sys.platform == "win32":
    import msvcrt

    def _lock(fd: int) -> bool:
        """Lock the first byte of a file; tell whether it was free."""
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _lock(fd: int) -> bool:
        """Lock a file; tell whether it was free."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
