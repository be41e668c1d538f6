"""Search for the entity with a given id in a list of pointers.

The list is read in one piece, then the ids of all its entities in one batch per level of their offsets. Entities that
cannot be read are skipped: games leave null pointers and freed objects in their lists.
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

#: Range of valid pointers: above the page that is never mapped, below the first address that no processor has.
MIN_POINTER, MAX_POINTER = 2**12, 2**56
#: Upper bound on the list length; a longer one means that the pointers are stale.
MAX_ENTITIES = 2**16


def id_bytes(entity: Entity) -> bytes:
    """Return the id of an entity as the game stores it."""
    return struct.pack(f"<{NUMBER_CODES[entity.id_type]}", entity.id)


def find_entity(memory: Memory, name: str, entity: Entity, begin: int, end: int) -> int:
    """Return the index in a list of the first entity with the id.

    Args:
        memory: Memory of the game.
        name: Name of the entity, for errors.
        entity: Definition in the profile.
        begin: Address of the first pointer.
        end: Address after the last pointer.

    Raises:
        EntityNotFoundError: No entity of the list has the id, or the list is invalid.
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
    *path, last = numbers(entity.id_offsets)
    for offset in path:
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
    """Return the valid pointers and their indices."""
    keep = (pointers >= MIN_POINTER) & (pointers < MAX_POINTER)
    return places[keep], pointers[keep]


def _read_all(
    memory: Memory, places: NDArray[np.int64], objects: NDArray[np.uint64], offset: int, size: int
) -> tuple[NDArray[np.int64], bytes]:
    """Read the same number of bytes from each readable object; return the indices of the objects and the bytes."""
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
    """Read objects one by one, because at least one of them is unreadable."""
    kept, found = [], []
    for i, address in enumerate(addresses):
        try:
            found.append(memory.read(address, size))
        except MemoryAccessError:
            continue  # a freed object
        kept.append(i)
    return places[kept], b"".join(found)
