"""Finding the entity with an id in a list of pointers.

The list itself is read in one piece, then the ids of all its entities in one batch per level of their offsets.
Entities that cannot be read are not the one: games leave null pointers and freed objects in their lists.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from soulslab.errors import EntityNotFoundError, MemoryAccessError
from soulslab.siphon.memory import Memory
from soulslab.siphon.profile import NUMBER_CODES, Entity
from soulslab.siphon.profile.facts import numbers

#: Pointers lie between: below is the page that is never mapped, above what no processor addresses.
MIN_POINTER, MAX_POINTER = 2**12, 2**56
#: A longer list is none, but what lies where a list was.
MAX_ENTITIES = 2**16


def id_bytes(entity: Entity) -> bytes:
    """Return the id of an entity as it is in memory."""
    return struct.pack(f"<{NUMBER_CODES[entity.id_type]}", entity.id)


def find_entity(memory: Memory, name: str, entity: Entity, begin: int, end: int) -> int:
    """Return the place in a list of the first entity that has the id.

    Args:
        memory: Of the game.
        name: Of the entity, for messages.
        entity: What the profile says.
        begin: Address of the first pointer.
        end: Address behind the last.

    Raises:
        EntityNotFoundError: None has it, or there is no list.
        MemoryAccessError: The list cannot be read.
        ProcessExitedError: The process has ended.
    """
    if begin == end:
        raise EntityNotFoundError(name, f"its list is empty, so none has id {entity.id}", 0)
    size = end - begin
    n, rest = divmod(size, entity.stride)
    if not MIN_POINTER <= begin < end < MAX_POINTER or rest or n > MAX_ENTITIES:
        raise EntityNotFoundError(
            name, f"begin {begin:#x} and end {end:#x} are not those of a list with stride {entity.stride}", 0
        )
    data = memory.read(begin, size)
    objects = (
        np.frombuffer(data, "<u8").reshape(n, -1)[:, 0] if entity.stride % 8 == 0 else _strided(data, entity.stride)
    )
    wanted = id_bytes(entity)
    places = np.arange(n)
    *way, last = numbers(entity.id_offsets)
    for offset in way:
        places, objects = _are_pointers(places, objects)
        places, found = _read_all(memory, places, objects, offset, 8)
        objects = np.frombuffer(found, "<u8")
    places, objects = _are_pointers(places, objects)
    places, found = _read_all(memory, places, objects, last, len(wanted))
    for i, place in enumerate(places.tolist()):
        if found[i * len(wanted) : (i + 1) * len(wanted)] == wanted:
            return int(place)
    raise EntityNotFoundError(name, f"none of {n} has id {entity.id}; it is not there, or not yet", n)


def _strided(data: bytes, stride: int) -> NDArray[np.uint64]:
    return np.array([struct.unpack_from("<Q", data, at)[0] for at in range(0, len(data), stride)], np.uint64)


def _are_pointers(
    places: NDArray[np.int64], pointers: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return those that are pointers, with their places."""
    keep = (pointers >= MIN_POINTER) & (pointers < MAX_POINTER)
    return places[keep], pointers[keep]


def _read_all(
    memory: Memory, places: NDArray[np.int64], objects: NDArray[np.uint64], offset: int, size: int
) -> tuple[NDArray[np.int64], bytes]:
    """Read so many bytes of each object that can be read; return the places of those, and the bytes."""
    addresses = objects + np.uint64(offset % 2**64)
    batch = memory.batch([size] * len(addresses))
    batch.addresses[:] = addresses
    try:
        return places, bytes(batch.read())
    except MemoryAccessError:
        return _read_each(memory, places, addresses.tolist(), size)


def _read_each(
    memory: Memory, places: NDArray[np.int64], addresses: Sequence[int], size: int
) -> tuple[NDArray[np.int64], bytes]:
    """Do the same one by one, as one of them cannot be read."""
    kept, found = [], []
    for i, address in enumerate(addresses):
        try:
            found.append(memory.read(address, size))
        except MemoryAccessError:
            continue  # a freed object
        kept.append(i)
    return places[kept], b"".join(found)
