"""The newest weights in shared memory, in two slots that are written in turn, so that one is complete at any moment.

The writer fills the slot that is not current, then makes it the current one. A reader copies the current slot and
checks its number and checksum; if the writer overwrote the slot meanwhile, they are wrong and the reader repeats. So no
process waits, and no process reads a mixture of two versions.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from math import prod
from typing import Any, Final

import msgspec
import numpy as np

from soulslab.errors import ChannelError
from soulslab.learn.actors.memory_block import MemoryBlock
from soulslab.learn.actors.transport import Weights
from soulslab.learn.archive import Tensors

_CURRENT, _ERA = range(2)
_N_TRIES: Final = 3
_ALIGNMENT: Final = 16
_NAMES_ROOM: Final = 1 << 16
LAYOUT: Final = "two places"
_PLACE: Final = np.dtype(
    [
        ("number", "<u8"),
        ("era", "<u8"),
        ("version", "<i8"),
        ("epsilon", "<f8"),
        ("n_names", "<u8"),
        ("n_bytes", "<u8"),
        ("checksum", "<u8"),
        ("unused", "<u8"),
    ]
)


class Published(msgspec.Struct, frozen=True):
    """Published weights, and the number of learners so far; a later one may publish lower versions."""

    weights: Weights
    era: int


class _Entry(msgspec.Struct, frozen=True, array_like=True):
    """Name, type and shape of a tensor; the tensors are stored in the order of their entries."""

    name: str
    kind: str
    shape: tuple[int, ...]


class WeightsBoard:
    """A memory block with the newest weights; one process may publish, any number may read."""

    def __init__(self, block: MemoryBlock) -> None:
        self._block = block
        self._places = block.data.reshape(2, -1)
        self._heads = [self._places[i, : _PLACE.itemsize].view(_PLACE) for i in range(2)]

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
        entries = [_Entry(name, array.dtype.str, array.shape) for name, array in weights.tensors.items()]
        names = msgspec.msgpack.encode(entries)
        n_bytes = _extent(weights.tensors)
        if len(names) > _NAMES_ROOM or _PLACE.itemsize + _NAMES_ROOM + n_bytes > len(place):
            raise ChannelError(
                self._block.path, f"the weights have {n_bytes} bytes, more than fit into this memory; remove it"
            )
        head["number"] = 0  # marks the slot as changing, for concurrent readers
        place[_PLACE.itemsize :][: len(names)] = np.frombuffer(names, np.uint8)
        at = _PLACE.itemsize + _NAMES_ROOM
        for array in weights.tensors.values():
            place[at : at + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            at += _aligned(array.nbytes)
        head[0] = (0, self._block.get(_ERA), weights.version, weights.epsilon, len(names), n_bytes, 0, 0)
        head["checksum"] = _checksum(place[:at], number)
        head["number"] = number
        self._block.set(_CURRENT, number)

    def read(self) -> Published | None:
        """Return the newest weights; None if there are none, or if they changed faster than they could be read."""
        for _ in range(_N_TRIES):
            number = self.n_published
            if number == 0:
                return None
            place, head = self._places[number % 2], self._heads[number % 2][0]
            end = _PLACE.itemsize + _NAMES_ROOM + int(head["n_bytes"])
            if int(head["number"]) != number or end > len(place):
                continue
            copy = place[:end].copy()
            found = copy[: _PLACE.itemsize].view(_PLACE)[0]
            if int(found["checksum"]) == _checksum(copy, number):
                return Published(_unpack(copy, found), int(found["era"]))
        return None


def weights_size(tensors: Tensors) -> int:
    """Return the size in bytes of the data of a block for these weights."""
    return 2 * (_PLACE.itemsize + _NAMES_ROOM + _extent(tensors))


def _unpack(copy: np.ndarray[Any, np.dtype[np.uint8]], head: Any) -> Weights:
    names = copy[_PLACE.itemsize :][: int(head["n_names"])].tobytes()
    tensors: Tensors = {}
    at = _PLACE.itemsize + _NAMES_ROOM
    for entry in msgspec.msgpack.decode(names, type=list[_Entry]):
        kind = np.dtype(entry.kind)
        n_bytes = kind.itemsize * prod(entry.shape)
        tensors[entry.name] = copy[at : at + n_bytes].view(kind).reshape(entry.shape)
        at += _aligned(n_bytes)
    return Weights(version=int(head["version"]), epsilon=float(head["epsilon"]), tensors=tensors)


def _checksum(place: np.ndarray[Any, np.dtype[np.uint8]], number: int) -> int:
    """Return a checksum over the number, the header and the data, without the fields that it cannot cover."""
    head = place[: _PLACE.itemsize].view(_PLACE)[0]
    known = (head["era"], head["version"], head["epsilon"], head["n_names"], head["n_bytes"])
    start = zlib.crc32(b"".join(each.tobytes() for each in known), number & 0xFFFFFFFF)
    names_end = _PLACE.itemsize + min(int(head["n_names"]), _NAMES_ROOM)
    start = zlib.crc32(place[_PLACE.itemsize : names_end].data, start)
    return zlib.crc32(place[_PLACE.itemsize + _NAMES_ROOM :].data, start)


def _extent(tensors: Mapping[str, np.ndarray[Any, Any]]) -> int:
    return sum(_aligned(array.nbytes) for array in tensors.values())


def _aligned(n_bytes: int) -> int:
    return -(-n_bytes // _ALIGNMENT) * _ALIGNMENT
