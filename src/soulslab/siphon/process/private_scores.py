"""A private copy of the system's score files for each started game.

Games of Debian keep scores in ``/var/games``, where a game of root or of the group ``games`` may write. A new high
score, or the first entry of a player, changes later starts: the game asks for a name, or shows another menu. So each
game is started in a separate mount namespace (mount_namespaces(7)) in which ``/var/games`` is a copy in memory. The
kernel frees the copy when the last process of the game has ended.
"""

from __future__ import annotations

import ctypes
import logging
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

SCORES = Path("/var/games")
#: Values of <linux/sched.h> and <linux/mount.h>.
CLONE_NEWNS = 0x20000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 2

_logger = logging.getLogger(__name__)
_Started = TypeVar("_Started")


def with_private_scores(start: Callable[[], _Started]) -> _Started:
    """Return the result of a function; the programs that it starts see a copy of the score files.

    Programs see the files themselves in two cases: this user may not change them, or has no right to create a mount
    namespace (CAP_SYS_ADMIN). The log reports the second case, because later starts may then differ.

    Args:
        start: Starts programs. It is called in another thread, which leaves the mount namespace of this process.
    """
    if not any(os.access(path, os.W_OK) for path in (SCORES, *SCORES.rglob("*"))):
        return start()

    def start_privately() -> _Started:
        try:
            _replace_by_copy(SCORES)
        except OSError as error:
            _logger.warning(
                "the game may change the score files in %s, so its next start may differ; no private copy could be "
                "made: %s. Start soulslab with the right CAP_SYS_ADMIN, or as a user who may not change these files",
                SCORES,
                error,
            )
        return start()

    with ThreadPoolExecutor(1, thread_name_prefix="soulslab-start") as thread:
        return thread.submit(start_privately).result()


def _replace_by_copy(folder: Path) -> None:
    """Put a copy of a folder in its place, for this thread and the processes that it starts. Raises `OSError`."""
    library = ctypes.CDLL(None, use_errno=True)
    _check(library.unshare(CLONE_NEWNS))
    # Otherwise all processes would see the next mount.
    _check(library.mount(b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None))
    original = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _check(library.mount(b"none", os.fsencode(folder), b"tmpfs", ctypes.c_ulong(0), b"mode=755"))
        try:
            shutil.copytree(f"/proc/self/fd/{original}", folder, symlinks=True, dirs_exist_ok=True)
        except OSError:  # an incomplete copy would be worse than the files themselves
            _check(library.umount2(os.fsencode(folder), MNT_DETACH))
            raise
    finally:
        os.close(original)


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
