"""A private temporary folder that is swept away later if we are killed before we can remove it ourselves."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

PREFIX = "soulslab-"
#: A folder this young may be one that its owner has not locked yet.
MIN_AGE_S = 60.0


class PrivateFolder:
    """A new, empty folder that only this user can enter.

    It is locked as long as somebody has `fd` open: we, and the processes that were given it. When no one has any more
    the next PrivateFolder of the same kind removes what was left behind.

    Args:
        kind: What it is for, in its name: ``display``.

    Attributes:
        path: The folder.
        fd: Descriptor of its lock; hand it to a process that keeps using the folder when we are gone.
    """

    def __init__(self, kind: str) -> None:
        prefix = f"{PREFIX}{kind}-"
        _sweep(prefix)
        self.path = Path(tempfile.mkdtemp(prefix=prefix))
        self.fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._is_closed = False

    def close(self) -> None:
        """Remove the folder with all that is in it; a second call does nothing."""
        if not self._is_closed:
            self._is_closed = True
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self.fd)


def _sweep(prefix: str) -> None:
    """Remove the folders of this user whose owners have ended."""
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:  # somebody else's, or just removed
            continue
        try:
            about = os.fstat(fd)
            if about.st_uid == os.getuid() and time.time() - about.st_ctime > MIN_AGE_S:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
        except BlockingIOError:  # in use
            continue
        finally:
            os.close(fd)
