"""The parts of the memory between actor and learner, each in a file of its own."""

from contextlib import suppress
from pathlib import Path

from soulslab.learn.actors import actor_status, weights_board
from soulslab.learn.actors.actor_status import N_STATUS_BYTES, StatusBoard
from soulslab.learn.actors.memory_block import RecordQueue, create_block, open_block, slot_size
from soulslab.learn.actors.weights_board import WeightsBoard, weights_size


def create_queue(path, kind, item_type, capacity, token):
    n_bytes = slot_size(item_type) * capacity
    return RecordQueue(create_block(path, kind, str(item_type.descr), n_bytes, token), item_type)


def open_queue(path, kind, item_type):
    return RecordQueue(open_block(path, kind, str(item_type.descr)), item_type)


def create_weights(path, tensors, token):
    return WeightsBoard(create_block(path, "weights", weights_board.LAYOUT, weights_size(tensors), token))


def open_weights(path):
    return WeightsBoard(open_block(path, "weights", weights_board.LAYOUT))


def create_status(path, token):
    return StatusBoard(create_block(path, "status", actor_status.LAYOUT, N_STATUS_BYTES, token))


def files_in_use(folder):
    """Return the files of a folder that this process has mapped or open, from the lists of Linux."""
    used = {line.split(maxsplit=5)[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the descriptor of the iteration itself
            used.add(str(link.readlink()))
    return sorted(Path(path).name for path in used if path.startswith(f"{folder}/"))
