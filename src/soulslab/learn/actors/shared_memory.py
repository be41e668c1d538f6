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
from soulslab.learn.actors import actor_status, weights_board
from soulslab.learn.actors.actor_status import StatusBoard
from soulslab.learn.actors.memory_block import RecordQueue, create_block, open_block, slot_size
from soulslab.learn.actors.weights_board import WeightsBoard
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

H = TypeVar("H", bound=Header)


class Memory(NamedTuple):
    """The shared memory of actor and learner; messages about episodes are in parts of `MESSAGE_PART_TYPE`."""

    token: int
    rows: RecordQueue
    episode_parts: RecordQueue
    weights: WeightsBoard
    status: StatusBoard

    def close(self) -> None:
        """Unmap the files; a second call does nothing."""
        for part in (self.rows, self.episode_parts, self.weights, self.status):
            part.close()


def create_memory(folder: Path, row_type: np.dtype[Any], n_streams: int, tensors: Tensors) -> Memory:
    """Make the files in a folder of `make_memory_folder`; existing ones are replaced.

    Of ``tensors``, the weights, only names, types and shapes are used. Raises ChannelError without enough space.
    """
    # Not 0, which stands for "no token" in a checkpoint.
    token = secrets.randbits(62) + 1
    layouts = _layouts(row_type)
    # A process that is killed here leaves files missing, but never old and new files together.
    for name in layouts:
        (folder / name).unlink(missing_ok=True)
    for (name, layout), n_bytes in zip(layouts.items(), _sizes(row_type, n_streams, tensors), strict=True):
        create_block(folder / name, name, layout, n_bytes, token)
    return open_memory(folder, row_type)


def open_memory(folder: Path, row_type: np.dtype[Any]) -> Memory:
    """Open the existing files; raises ChannelError if one is missing, damaged, or of another layout."""
    blocks = [open_block(folder / name, name, layout) for name, layout in _layouts(row_type).items()]
    steps, episodes, weights, status = blocks
    if any(block.token != steps.token for block in blocks):
        raise ChannelError(
            folder, "holds files of two runs; remove the folder, which loses the steps after the last checkpoint"
        )
    return Memory(
        steps.token,
        RecordQueue(steps, row_type),
        RecordQueue(episodes, MESSAGE_PART_TYPE),
        WeightsBoard(weights),
        StatusBoard(status),
    )


def _layouts(row_type: np.dtype[Any]) -> dict[str, str]:
    """Return the names of the files, which are also their kinds, and their layouts."""
    return {
        "steps": str(row_type.descr),
        "episodes": str(MESSAGE_PART_TYPE.descr),
        "weights": weights_board.LAYOUT,
        "status": actor_status.LAYOUT,
    }


def _sizes(row_type: np.dtype[Any], n_streams: int, tensors: Tensors) -> tuple[int, ...]:
    """Return the sizes of the data in the files in bytes, in the order of :func:`_layouts`."""
    rows = n_rows(row_type, n_streams) * slot_size(row_type)
    parts = N_MESSAGE_PARTS * slot_size(MESSAGE_PART_TYPE)
    return rows, parts, weights_board.weights_size(tensors), actor_status.N_STATUS_BYTES


def has_memory(folder: Path) -> bool:
    """Return whether all files exist."""
    return all((folder / name).exists() for name in ("steps", "episodes", "weights", "status"))


def memory_bytes(row_type: np.dtype[Any], n_streams: int, tensors: Tensors) -> int:
    """Return the approximate size of all files in bytes."""
    return sum(_sizes(row_type, n_streams, tensors)) + (1 << 20)


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
    shared, in_run = _candidates(run_dir)
    if shared is not None and _is_ours(shared):
        return shared
    if in_run.is_dir() and not _is_ours(in_run):
        raise ChannelError(in_run, "belongs to another user, or others may write to it; remove it")
    return in_run if in_run.is_dir() else None


def make_memory_folder(run_dir: Path, n_bytes: int) -> Path:
    """Make the folder for the shared memory of a run; an existing one is reused.

    Shared memory of runs whose folder no longer exists is removed if no process uses it. Raises ChannelError if the
    folder cannot be made, or belongs to another user.
    """
    _sweep()
    found = find_memory_folder(run_dir)
    if found is not None:
        return found
    shared, in_run = _candidates(run_dir)
    if shared is not None:
        if shutil.disk_usage(shared.parent).free <= n_bytes:
            _log.info("%s has less than %d MB left; the shared files are in %s", shared.parent, n_bytes >> 20, in_run)
        elif _make(shared, run_dir):
            return shared
        else:
            _log.warning("%s is not a folder, or not one of this user alone, so it is not used", shared)
    if not _make(in_run, run_dir):
        raise ChannelError(in_run, "is not a folder, or not one of this user alone; remove it")
    return in_run


def remove_memory_folder(folder: Path) -> None:
    """Remove a folder of shared memory and its files, which this process must not have open.

    Windows does not remove an open file.
    """
    shutil.rmtree(folder, ignore_errors=True)


def _candidates(run_dir: Path) -> tuple[Path | None, Path]:
    """Return the possible folders for the shared memory of a run: in shared memory, if there is any, and in the run."""
    path = run_dir.resolve()
    name = f"{_PREFIX}{_user()}-{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}"
    return _SHARED_MEMORY / name if _SHARED_MEMORY.is_dir() else None, path / _IN_RUN


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def _make(folder: Path, run_dir: Path) -> bool:
    """Make a folder; return False if another user's, or something else, is in its place."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_ours(folder):
            (folder / _OWNER).write_text(str(run_dir.resolve()), encoding="utf-8")
            return True
    except FileExistsError:
        pass
    except OSError as error:
        raise ChannelError(folder, f"could not be made: {error.strerror or error}") from error
    return False


def _is_ours(folder: Path) -> bool:
    """Return whether a path is a folder, not a link, that only this user may write to."""
    if not hasattr(os, "getuid"):
        return folder.is_dir()
    try:
        status = folder.lstat()
    except OSError:  # it does not exist
        return False
    others = stat.S_IWGRP | stat.S_IWOTH
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & others


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
