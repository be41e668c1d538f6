"""All that actor and learner share: four files in a folder, made together, and what policy acts."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import numpy as np

from soulslab.errors import ChannelError
from soulslab.learn.actors.actor_status import StatusBoard, create_status, open_status
from soulslab.learn.actors.record_queue import Ring, create_ring, open_ring, slot_size
from soulslab.learn.actors.weights_board import WeightsBoard, create_weights, open_weights
from soulslab.learn.archive import Tensors, write_atomically
from soulslab.learn.player import Header

ROWS_PER_STREAM: Final = 1 << 16
"""Steps of each environment that the memory holds: 1.8 hours at 10 Hz, 36 minutes at 30 Hz."""
MAX_ROW_BYTES: Final = 1 << 28
"""But all steps together take no more than this; with pixels of 84x84 that is still an hour at 10 Hz."""
N_LETTERS: Final = 1 << 13

LETTER_BYTES: Final = 1000
LETTER_TYPE: Final = np.dtype(
    [("version", "<u2"), ("is_first", "<u2"), ("n_left", "<u4"), ("text", "u1", (LETTER_BYTES,))]
)
"""Part of a message: version of the message, whether it begins here, bytes left of it from here on, what it says."""

HEADER_NAME: Final = "header"
"""File that says what policy acts: its header as JSON."""

_FILES: Final = ("steps", "episodes", "weights", "status")


H = TypeVar("H", bound=Header)


class Memory(NamedTuple):
    """What both share.

    Attributes:
        token: Random number of this memory, to tell it from any other of the run.
        rows: Steps on their way to the learner.
        letters: Messages about episodes, likewise, in parts of ``LETTER_TYPE``.
        weights: What the actor acts with.
        status: What the actor says of itself, and is asked to do.
    """

    token: int
    rows: Ring
    letters: Ring
    weights: WeightsBoard
    status: StatusBoard


def create_memory(folder: Path, row_type: np.dtype[Any], n_streams: int, tensors: Tensors) -> Memory:
    """Make the files, in place of any that are there.

    Args:
        folder: From `make_place`.
        row_type: ``elements.row_type`` of the steps.
        n_streams: Environments of the actor.
        tensors: Weights, of which only names, types and shapes matter.

    Raises:
        ChannelError: There is no room.
    """
    # No token of 0, which a checkpoint without any would have.
    token = secrets.randbits(62) + 1
    steps, episodes, weights, status = (folder / name for name in _FILES)
    # Whoever is killed in the middle leaves some files missing, never old ones and new ones together.
    for name in _FILES:
        (folder / name).unlink(missing_ok=True)
    return Memory(
        token,
        create_ring(steps, "steps", row_type, n_rows(row_type, n_streams), token),
        create_ring(episodes, "episodes", LETTER_TYPE, N_LETTERS, token),
        create_weights(weights, tensors, token),
        create_status(status, token),
    )


def open_memory(folder: Path, row_type: np.dtype[Any]) -> Memory:
    """Open the files.

    Raises:
        ChannelError: One is missing, damaged, of another version, or laid out for other steps.
    """
    steps, episodes, weights, status = (folder / name for name in _FILES)
    rows = open_ring(steps, "steps", row_type)
    parts = (open_ring(episodes, "episodes", LETTER_TYPE), open_weights(weights), open_status(status))
    if any(part.token != rows.token for part in parts):
        raise ChannelError(folder, "holds files of two runs; remove it, and with it steps that no checkpoint has yet")
    return Memory(rows.token, rows, *parts)


def has_memory(folder: Path) -> bool:
    """Tell whether all files are there."""
    return all((folder / name).exists() for name in _FILES)


def memory_bytes(row_type: np.dtype[Any], n_streams: int, tensors: Tensors) -> int:
    """Return about how much room the files take."""
    weights = 2 * sum(array.nbytes for array in tensors.values())
    return n_rows(row_type, n_streams) * slot_size(row_type) + N_LETTERS * slot_size(LETTER_TYPE) + weights + (1 << 20)


def n_rows(row_type: np.dtype[Any], n_streams: int) -> int:
    """Return how many steps the memory holds."""
    return max(min(ROWS_PER_STREAM * n_streams, MAX_ROW_BYTES // slot_size(row_type)), 8 * n_streams)


def write_header(folder: Path, header: Header) -> None:
    """Write down for the actor what policy acts."""
    write_atomically(folder / HEADER_NAME, msgspec.json.encode(header))


def read_header(folder: Path, kind: type[H]) -> H:
    """Return the header of the policy that acts.

    Args:
        folder: Folder of the memory.
        kind: Type of the header.

    Raises:
        ChannelError: It cannot be read, or was written by another version of soulslab.
    """
    path = folder / HEADER_NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError) as error:
        raise ChannelError(path, f"does not say what policy acts ({error}); resume the run") from error
