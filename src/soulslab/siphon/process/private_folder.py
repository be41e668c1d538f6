"""A private temporary folder, which a later process removes if this one is killed before it can do so."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

from filelock import lock_descriptor

PREFIX = "soulslab-"
#: A folder younger than this may not be locked by its owner yet.
MIN_AGE_S = 60.0


class PrivateFolder:
    """A new, empty folder that only this user can enter.

    The folder is locked while a process has `fd` open: this process, or one that inherited it. Once no process does,
    the next PrivateFolder of the same kind removes it.

    Args:
        kind: Purpose, as a part of its name: ``display``.

    Attributes:
        path: Path of the folder.
        fd: Descriptor of its lock; pass it to a process that uses the folder after this one has ended.
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
