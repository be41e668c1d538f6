"""The folder of a run's shared memory.

On Linux it is a folder in ``/dev/shm``, whose files exist in memory only. Without such a folder, with too little space
in it, or if another user owns that name, the files are in the folder of the run: the system then keeps them in memory
and also writes them to the disk.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import stat
from pathlib import Path
from typing import Final

from soulslab.errors import ChannelError
from soulslab.learn.process_lock import is_held

ACTOR_LOCK: Final = "actor.lock"
LEARNER_LOCK: Final = "learner.lock"

_SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - private to this user, see `_is_ours`
_PREFIX: Final = "soulslab-apart-"
_OWNER: Final = "run"
_IN_RUN: Final = "memory"

_log = logging.getLogger(__name__)


def find_memory_folder(run_dir: Path) -> Path | None:
    """Return the folder with the shared memory of a run, or None if there is none.

    Raises:
        ChannelError: The folder inside the run belongs to another user.
    """
    *shared, in_run = _candidates(run_dir)
    for folder in shared:
        if folder.is_dir() and _is_ours(folder):
            return folder
    return _refuse_foreign(in_run) if in_run.is_dir() else None


def make_memory_folder(run_dir: Path, n_bytes: int) -> Path:
    """Make the folder for the shared memory of a run; an existing one is reused.

    Shared memory of runs whose folder no longer exists is removed if no process uses it.

    Args:
        run_dir: Folder of the run.
        n_bytes: Space that is needed.

    Raises:
        ChannelError: The folder cannot be made, or belongs to another user.
    """
    _sweep()
    found = find_memory_folder(run_dir)
    if found is not None:
        return found
    *shared, in_run = _candidates(run_dir)
    for folder in shared:
        if _free_bytes(folder.parent) <= n_bytes:
            _log.info("%s has less than %d MB left; the shared files are in %s", folder.parent, n_bytes >> 20, in_run)
        elif _make(folder, run_dir):
            return folder
    try:
        in_run.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse_foreign(in_run)
        (in_run / _OWNER).write_text(str(run_dir.resolve()), encoding="utf-8")
    except OSError as error:
        raise ChannelError(in_run, f"could not be made: {error.strerror or error}") from error
    return in_run


def remove_memory_folder(folder: Path) -> None:
    """Remove a folder of shared memory and its files."""
    shutil.rmtree(folder, ignore_errors=True)


def _candidates(run_dir: Path) -> list[Path]:
    """Return the possible folders for the shared memory of a run, the preferred one first."""
    path = run_dir.resolve()
    in_run = path / _IN_RUN
    if not _SHARED_MEMORY.is_dir():
        return [in_run]
    name = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    return [_SHARED_MEMORY / f"{_PREFIX}{_user()}-{name}", in_run]


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def _make(folder: Path, run_dir: Path) -> bool:
    """Make a folder in a place that all users can write; return whether it belongs to this user.

    Raises:
        ChannelError: The folder cannot be made.
    """
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if not _is_ours(folder):
            _log.warning("%s belongs to another user, so it is not used", folder)
            return False
        (folder / _OWNER).write_text(str(run_dir.resolve()), encoding="utf-8")
    except FileExistsError:
        _log.warning("%s is not a folder, so it is not used", folder)
        return False
    except OSError as error:
        raise ChannelError(folder, f"could not be made: {error.strerror or error}") from error
    return True


def _is_ours(folder: Path) -> bool:
    """Return whether a path is a folder, not a link, that only this user may write to."""
    if not hasattr(os, "getuid"):
        return True
    try:
        status = folder.lstat()
    except OSError:  # it does not exist any more
        return False
    others = stat.S_IWGRP | stat.S_IWOTH
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & others


def _refuse_foreign(folder: Path) -> Path:
    """Return the folder if only this user may write to it.

    Raises:
        ChannelError: The folder belongs to another user, or others may write to it.
    """
    if not _is_ours(folder):
        raise ChannelError(folder, "belongs to another user, or others may write to it; remove it")
    return folder


def _free_bytes(folder: Path) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0


def _sweep() -> None:
    """Remove the shared memory of runs that no longer exist."""
    if not _SHARED_MEMORY.is_dir():
        return
    for folder in _SHARED_MEMORY.glob(f"{_PREFIX}{_user()}-*"):
        if not _is_ours(folder):  # files of other users are not trusted
            continue
        try:
            run_dir = Path((folder / _OWNER).read_text(encoding="utf-8"))
            is_used = run_dir.exists() or is_held(folder / ACTOR_LOCK) or is_held(folder / LEARNER_LOCK)
        except (OSError, ValueError):  # another process is making it, or it is damaged
            continue
        if not is_used:
            _log.info("removing the shared memory of %s, which no longer exists", run_dir)
            remove_memory_folder(folder)
