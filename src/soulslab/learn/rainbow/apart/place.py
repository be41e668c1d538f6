"""Where the memory of a run lies: a folder of shared memory that is named after the run, or one in the run's folder.

On Linux files in ``/dev/shm`` are memory and nothing else; where there is no such thing, or no room in it, the files
lie in the run's folder, where the system also keeps them in memory and writes them to the disk at its leisure.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from pathlib import Path
from typing import Final

from soulslab.errors import ChannelError
from soulslab.learn.process_lock import is_held

ACTOR_LOCK: Final = "actor.lock"
LEARNER_LOCK: Final = "learner.lock"

_SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - it is private to this user, see `_private`
_PREFIX: Final = "soulslab-apart-"
_OWNER: Final = "run"
_IN_RUN: Final = "memory"

_log = logging.getLogger(__name__)


def find_place(run_dir: Path) -> Path | None:
    """Return the folder with a run's memory, or None if there is none.

    Raises:
        ChannelError: It belongs to another user.
    """
    for folder in _candidates(run_dir):
        if folder.is_dir():
            return _private(folder)
    return None


def make_place(run_dir: Path, n_bytes: int) -> Path:
    """Make the folder for a run's memory; one that is there is taken as it is.

    Memory of runs whose folder is gone, and with which nobody works, is removed on the way.

    Args:
        run_dir: Folder of the run.
        n_bytes: Room that is needed.

    Raises:
        ChannelError: It cannot be made, or belongs to another user.
    """
    _sweep()
    found = find_place(run_dir)
    if found is not None:
        return found
    *shared, in_run = _candidates(run_dir)
    folder = next((each for each in shared if _free_bytes(each.parent) > n_bytes), in_run)
    if shared and folder is in_run:
        _log.info("%s has no %d MB left; actor and learner share files in %s", shared[0].parent, n_bytes >> 20, in_run)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / _OWNER).write_text(str(run_dir.resolve()), encoding="utf-8")
    except OSError as error:
        raise ChannelError(folder, f"could not be made: {error.strerror or error}") from error
    return _private(folder)


def remove_place(folder: Path) -> None:
    """Remove a folder of memory, with all that is in it."""
    shutil.rmtree(folder, ignore_errors=True)


def _candidates(run_dir: Path) -> list[Path]:
    """Return where the memory of a run can lie, the best first."""
    path = run_dir.resolve()
    in_run = path / _IN_RUN
    if not _SHARED_MEMORY.is_dir():
        return [in_run]
    name = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    return [_SHARED_MEMORY / f"{_PREFIX}{_user()}-{name}", in_run]


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def _private(folder: Path) -> Path:
    """Return a folder that nobody else can write to.

    Raises:
        ChannelError: Somebody else can; in a place where all may make folders that is a trap.
    """
    status = folder.stat()
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or folder.is_symlink()):
        raise ChannelError(folder, "belongs to another user, but is named after this run; ask them to remove it")
    return folder


def _free_bytes(folder: Path) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0


def _sweep() -> None:
    """Remove what dead runs left in the shared memory."""
    if not _SHARED_MEMORY.is_dir():
        return
    for folder in _SHARED_MEMORY.glob(f"{_PREFIX}{_user()}-*"):
        try:
            run_dir = Path((folder / _OWNER).read_text(encoding="utf-8"))
        except OSError:  # being made just now
            continue
        if not run_dir.exists() and not is_held(folder / ACTOR_LOCK) and not is_held(folder / LEARNER_LOCK):
            _log.info("removing the memory of %s, which is gone", run_dir)
            remove_place(folder)
