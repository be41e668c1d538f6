"""A private temporary folder that is swept away later if we are killed before we can remove it ourselves."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

from filelock import lock_descriptor

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
        lock_descriptor(self.fd, blocking=False)
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
            is_old = about.st_uid == os.getuid() and time.time() - about.st_ctime > MIN_AGE_S
            if is_old and lock_descriptor(fd, blocking=False):  # not in use
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(fd)
