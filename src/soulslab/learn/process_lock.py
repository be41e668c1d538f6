"""A lock file that one process at a time holds; the system releases the lock when that process ends."""

from __future__ import annotations

import os
import socket
import time
from datetime import datetime
from pathlib import Path
from typing import Final

from filelock import lock_descriptor

from soulslab.errors import ChannelError

WAIT_S: Final = 1.0
"""Maximum wait for a lock (s), because `is_held` holds it for a moment."""

_POLL_S: Final = 0.005
_MAX_HOLDER_BYTES: Final = 512


class ProcessLock:
    """A lock that this process holds until `release`, or until the process ends."""

    def __init__(self, path: Path, what: str) -> None:
        """Acquire the lock; raises ChannelError with the description of the holder (``what``: "an actor")."""
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        except OSError as error:
            raise ChannelError(path, f"could not be opened: {error.strerror or error}") from error
        deadline = time.monotonic() + WAIT_S
        while not lock_descriptor(self._fd, blocking=False):
            if time.monotonic() > deadline:
                os.lseek(self._fd, 1, os.SEEK_SET)
                holder = os.read(self._fd, _MAX_HOLDER_BYTES).decode(errors="replace").strip()
                os.close(self._fd)
                known = f" ({holder})" if holder and holder.isprintable() else ""
                raise ChannelError(path, f"is in use by {what}{known}; end that process first")
            time.sleep(_POLL_S)
        now = datetime.now().astimezone()
        # The text starts at byte 1, because Windows does not let others read byte 0.
        text = f"\nprocess {os.getpid()} on {socket.gethostname()}, since {now:%Y-%m-%d %H:%M:%S}\n"
        os.ftruncate(self._fd, 0)
        os.write(self._fd, text.encode())

    def __enter__(self) -> ProcessLock:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def is_held(path: Path) -> bool:
    """Return whether a process holds the lock now."""
    try:
        # A lock of Unix needs no right to write, which other users of a shared folder do not have.
        fd = os.open(path, (os.O_RDWR if os.name == "nt" else os.O_RDONLY) | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        return False
    try:
        return not lock_descriptor(fd, blocking=False)
    finally:
        os.close(fd)
