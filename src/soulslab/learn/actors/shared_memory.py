"""The shared memory of actor and learner: four files in a folder, and the header of the policy.

On Linux the folder is in ``/dev/shm``, whose files exist in memory only. Without such a folder, with too little space
in it, or if another user owns that name, the files are in the folder of the run: the system then keeps them in memory
and also writes them to the disk.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import shutil
import stat
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import numpy as np

from soulslab.errors import ChannelError
from soulslab.learn.actors.actor_status import StatusBoard, create_status, open_status
from soulslab.learn.actors.memory_block import RecordQueue, create_queue, open_queue, slot_size
from soulslab.learn.actors.weights_board import WeightsBoard, create_weights, open_weights
from soulslab.learn.archive import Tensors, write_atomically
from soulslab.learn.policy_header import Header
from soulslab.learn.process_lock import is_held

ROWS_PER_STREAM: Final = 1 << 16
"""Steps of each environment for which there is space: 1.8 hours at 10 Hz, 36 minutes at 30 Hz."""
MAX_ROW_BYTES: Final = 1 << 28
"""Upper limit of the space for the steps of all environments; one hour at 10 Hz with pixels of 84x84."""
N_MESSAGE_PARTS: Final = 1 << 13

MESSAGE_PART_BYTES: Final = 1000
MESSAGE_PART_TYPE: Final = np.dtype(
    [("version", "<u2"), ("is_first", "<u2"), ("n_left", "<u4"), ("text", "u1", (MESSAGE_PART_BYTES,))]
)
"""Part of a message: version, whether it is the first part, bytes of the message from here on, and its bytes."""

HEADER_NAME: Final = "header"
"""File with the header of the policy that acts, as JSON."""

_FILES: Final = ("steps", "episodes", "weights", "status")


H = TypeVar("H", bound=Header)


class Memory(NamedTuple):
    """The shared memory of actor and learner; messages about episodes are in parts of `MESSAGE_PART_TYPE`."""

    token: int
    rows: RecordQueue
    episode_parts: RecordQueue
    weights: WeightsBoard
    status: StatusBoard


def create_memory(folder: Path, row_type: np.dtype[Any], n_streams: int, tensors: Tensors) -> Memory:
    """Make the files in a folder of `make_memory_folder`; existing ones are replaced.

    Of ``tensors``, the weights, only names, types and shapes are used. Raises ChannelError without enough space.
    """
    # Not 0, which stands for "no token" in a checkpoint.
    token = secrets.randbits(62) + 1
    steps, episodes, weights, status = (folder / name for name in _FILES)
    # A process that is killed here leaves files missing, but never old and new files together.
    for name in _FILES:
        (folder / name).unlink(missing_ok=True)
    return Memory(
        token,
        create_queue(steps, "steps", row_type, n_rows(row_type, n_streams), token),
        create_queue(episodes, "episodes", MESSAGE_PART_TYPE, N_MESSAGE_PARTS, token),
        create_weights(weights, tensors, token),
        create_status(status, token),
    )


def open_memory(folder: Path, row_type: np.dtype[Any]) -> Memory:
    """Open the existing files; raises ChannelError if one is missing, damaged, or of another layout."""
    steps, episodes, weights, status = (folder / name for name in _FILES)
    rows = open_queue(steps, "steps", row_type)
    parts = (open_queue(episodes, "episodes", MESSAGE_PART_TYPE), open_weights(weights), open_status(status))
    if any(part.token != rows.token for part in parts):
        raise ChannelError(
            folder, "holds files of two runs; remove the folder, which loses the steps after the last checkpoint"
        )
    return Memory(rows.token, rows, *parts)


def has_memory(folder: Path) -> bool:
    """Return whether all files exist."""
    return all((folder / name).exists() for name in _FILES)


def memory_bytes(row_type: np.dtype[Any], n_streams: int, tensors: Tensors) -> int:
    """Return the approximate size of all files in bytes."""
    weights = 2 * sum(array.nbytes for array in tensors.values())
    return (
        n_rows(row_type, n_streams) * slot_size(row_type)
        + N_MESSAGE_PARTS * slot_size(MESSAGE_PART_TYPE)
        + weights
        + (1 << 20)
    )


def n_rows(row_type: np.dtype[Any], n_streams: int) -> int:
    """Return the number of steps for which there is space."""
    return max(min(ROWS_PER_STREAM * n_streams, MAX_ROW_BYTES // slot_size(row_type)), 8 * n_streams)


def write_header(folder: Path, header: Header) -> None:
    """Write the header of the policy with which the actor acts."""
    write_atomically(folder / HEADER_NAME, msgspec.json.encode(header))


def read_header(folder: Path, kind: type[H]) -> H:
    """Return the header of the policy with which the actor acts; raises ChannelError if it is not valid."""
    path = folder / HEADER_NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError) as error:
        raise ChannelError(path, f"is not a valid header of a policy ({error}); resume the run") from error


ACTOR_LOCK: Final = "actor.lock"
LEARNER_LOCK: Final = "learner.lock"

_SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - private to this user, see `_is_ours`
_PREFIX: Final = "soulslab-apart-"
_OWNER: Final = "run"
_IN_RUN: Final = "memory"

_log = logging.getLogger(__name__)


def find_memory_folder(run_dir: Path) -> Path | None:
    """Return the folder with the shared memory of a run, or None; raises ChannelError for another user's."""
    *shared, in_run = _candidates(run_dir)
    for folder in shared:
        if folder.is_dir() and _is_ours(folder):
            return folder
    return _refuse_foreign(in_run) if in_run.is_dir() else None


def make_memory_folder(run_dir: Path, n_bytes: int) -> Path:
    """Make the folder for the shared memory of a run; an existing one is reused.

    Shared memory of runs whose folder no longer exists is removed if no process uses it. Raises ChannelError if the
    folder cannot be made, or belongs to another user.
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
    """Make a folder in a place that all users can write; return whether it belongs to this user."""
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
    """Return the folder; raises ChannelError unless only this user may write to it."""
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
