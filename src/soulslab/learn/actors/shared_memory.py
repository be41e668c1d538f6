"""The shared memory of actor and learner: four files in a folder, and the header of the policy."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import numpy as np

from soulslab.errors import ChannelError
from soulslab.learn.actors.actor_status import StatusBoard, create_status, open_status
from soulslab.learn.actors.record_queue import RecordQueue, create_queue, open_queue, slot_size
from soulslab.learn.actors.weights_board import WeightsBoard, create_weights, open_weights
from soulslab.learn.archive import Tensors, write_atomically
from soulslab.learn.policy_header import Header

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
    """The shared memory of actor and learner.

    Attributes:
        token: Random number that identifies the memory.
        rows: Queue of steps.
        episode_parts: Queue of messages about episodes, in parts of ``MESSAGE_PART_TYPE``.
        weights: Newest weights for the actor.
        status: Counters of the actor, and the request to stop.
    """

    token: int
    rows: RecordQueue
    episode_parts: RecordQueue
    weights: WeightsBoard
    status: StatusBoard


def create_memory(folder: Path, row_type: np.dtype[Any], n_streams: int, tensors: Tensors) -> Memory:
    """Make the files; existing ones are replaced.

    Args:
        folder: From `make_memory_folder`.
        row_type: ``step_rows.row_type`` of the steps.
        n_streams: Number of environments of the actor.
        tensors: Weights; only their names, types and shapes are used.

    Raises:
        ChannelError: There is not enough space.
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
    """Open the existing files.

    Raises:
        ChannelError: A file is missing, damaged, of another version, or has the layout of other steps.
    """
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
    """Return the header of the policy with which the actor acts.

    Args:
        folder: Folder of the shared memory.
        kind: Type of the header.

    Raises:
        ChannelError: The header cannot be read, or was written by another version of soulslab.
    """
    path = folder / HEADER_NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError) as error:
        raise ChannelError(path, f"is not a valid header of a policy ({error}); resume the run") from error
