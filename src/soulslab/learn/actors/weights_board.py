"""The newest weights in shared memory, in two slots that are written in turn, so that one is complete at any moment.

The writer fills the slot that is not current, then makes it the current one. A reader copies the current slot and
checks its number and checksum; if the writer overwrote the slot meanwhile, they are wrong and the reader repeats. So no
process waits, and no process reads a mixture of two versions.
"""

from __future__ import annotations

import zlib
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.errors import ChannelError
from soulslab.learn.actors.memory_block import MemoryBlock
from soulslab.learn.actors.transport import Weights
from soulslab.learn.archive import Tensors

LAYOUT: Final = "two places of MessagePack"

_CURRENT, _ERA = range(2)
_N_TRIES: Final = 3
_ALIGNMENT: Final = 16
_HEAD: Final = np.dtype(
    [
        ("number", "<u8"),
        ("checksum", "<u8"),
        ("era", "<u8"),
        ("version", "<i8"),
        ("epsilon", "<f8"),
        ("n_bytes", "<u8"),
    ]
)
_CHECKED_FROM: Final = 16
"""Start of the bytes that the checksum covers: everything after the number and the checksum itself."""


class Published(msgspec.Struct, frozen=True):
    """Published weights, and the number of learners so far; a later one may publish lower versions."""

    weights: Weights
    era: int


class WeightsBoard:
    """A memory block with the newest weights; one process may publish, any number may read."""

    def __init__(self, block: MemoryBlock) -> None:
        self._block = block
        self._places = block.data.reshape(2, -1)
        self._heads = [self._places[i, : _HEAD.itemsize].view(_HEAD) for i in range(2)]

    @property
    def n_published(self) -> int:
        """How often weights were published."""
        return self._block.get(_CURRENT)

    def begin_era(self) -> None:
        """Record that another learner publishes from now on."""
        self._block.set(_ERA, self._block.get(_ERA) + 1)

    def publish(self, weights: Weights) -> None:
        """Publish new weights; raises ChannelError if they are larger than those for which the block was made."""
        number = self.n_published + 1
        place, head = self._places[number % 2], self._heads[number % 2]
        data = encode_tensors(weights.tensors)
        end = _HEAD.itemsize + len(data)
        if end > len(place):
            raise ChannelError(
                self._block.path, f"the weights have {len(data)} bytes, more than fit into this memory; remove it"
            )
        head["number"] = 0  # marks the slot as changing, for concurrent readers
        place[_HEAD.itemsize : end] = np.frombuffer(data, np.uint8)
        head[0] = (0, 0, self._block.get(_ERA), weights.version, weights.epsilon, len(data))
        head["checksum"] = _checksum(place[:end], number)
        head["number"] = number
        self._block.set(_CURRENT, number)

    def read(self) -> Published | None:
        """Return the newest weights; None if there are none, or if they changed faster than they could be read."""
        for _ in range(_N_TRIES):
            number = self.n_published
            if number == 0:
                return None
            place, head = self._places[number % 2], self._heads[number % 2][0]
            end = _HEAD.itemsize + int(head["n_bytes"])
            if int(head["number"]) != number or end > len(place):
                continue
            copy = place[:end].copy()
            found = copy[: _HEAD.itemsize].view(_HEAD)[0]
            if int(found["checksum"]) == _checksum(copy, number):
                tensors = decode_tensors(copy[_HEAD.itemsize :].data)
                weights = Weights(version=int(found["version"]), epsilon=float(found["epsilon"]), tensors=tensors)
                return Published(weights, int(found["era"]))
        return None

    def close(self) -> None:
        """Unmap the memory; a second call does nothing."""
        self._places, self._heads = np.empty((2, 0), np.uint8), []
        self._block.close()


def weights_size(tensors: Tensors) -> int:
    """Return the size in bytes of the data of a block for these weights."""
    n_bytes = _HEAD.itemsize + len(encode_tensors(tensors))
    return 2 * (n_bytes + -n_bytes % _ALIGNMENT)


def encode_tensors(tensors: Tensors) -> bytes:
    """Return tensors as MessagePack; the size depends only on their names, types and shapes."""
    return msgspec.msgpack.encode(
        [(name, array.dtype.str, array.shape, np.ascontiguousarray(array).data) for name, array in tensors.items()]
    )


def decode_tensors(data: bytes | memoryview) -> Tensors:
    """Return the tensors of :func:`encode_tensors`; raises ValueError or msgspec.DecodeError for malformed data."""
    found = msgspec.msgpack.decode(data, type=list[tuple[str, str, tuple[int, ...], bytearray]])
    return {name: np.frombuffer(raw, kind).reshape(shape) for name, kind, shape, raw in found}


def _checksum(place: NDArray[Any], number: int) -> int:
    return zlib.crc32(place[_CHECKED_FROM:].data, number & 0xFFFFFFFF)
