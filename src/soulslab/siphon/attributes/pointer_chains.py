"""Pointer chains from the bases of a profile to attributes, as a tree, and search for entities in lists of pointers.

A *cell* is the address of an 8-byte pointer that is followed. Chains with a common beginning share their cells, so that
each cell is read once. The depth of a cell is the number of reads before its address is known; all cells of one depth
can be read together.

The list of an entity is read in one piece, then the ids of all its entities in one batch per level of their offsets.
Entities that cannot be read are skipped: games leave null pointers and freed objects in their lists.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from soulslab.errors import EntityNotFoundError, PatternError, UnknownAttributeError
from soulslab.siphon.attributes.value_codecs import size_of
from soulslab.siphon.memory import Memory, read_scattered
from soulslab.siphon.profile import NUMBER_CODES, Attribute, Entity, NumberType, Profile
from soulslab.siphon.profile.facts import numbers
from soulslab.siphon.profile.schema import Offset

Number: TypeAlias = int | float | bool
#: Name of such a number in errors.
NUMBER_NAME = "(by its own chain)"


class ChainNumber(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Address and type of a number.

    Attributes:
        base: Name of a base of the profile.
        offsets: Offsets as in an attribute: each but the last is added and the pointer there is followed.
        type: Type of the number; ``flag`` is one bit of a byte.
        bit: Bit of a flag; 0 is the lowest.
    """

    base: str
    offsets: Annotated[tuple[Offset, ...], Meta(min_length=1, max_length=256)]
    type: NumberType | Literal["flag"]
    bit: Annotated[int, Meta(ge=0, le=7)] = 0

    def attribute(self) -> Attribute:
        """Return the number as an attribute without a plausible range."""
        return Attribute(base=self.base, offsets=self.offsets, type=self.type, bit=self.bit, source=NUMBER_NAME)


@dataclass(eq=False, slots=True)
class Cell:
    """A pointer in memory or, without parent, a base with a known address.

    Attributes:
        offset: Offset from the parent's pointer; for a base its address. A search sets the offset of an entity's slot.
        owner: Attribute, entity or base that the cell belongs to.
        level: Index in the offsets of its owner; -1 for the pointer of a base.
        depth: Number of reads before its address is known; 0 for a base.
        is_followed: Whether its pointer must be valid. The ends of a list of entities need not be.
    """

    parent: Cell | None
    offset: int
    owner: str
    level: int
    depth: int
    is_followed: bool = False
    index: int = -1


@dataclass(eq=False, slots=True)
class Part:
    """Bytes to read at the end of a chain: a value, or the id of an entity. The fields are those of `Cell`."""

    parent: Cell
    offset: int
    size: int
    owner: str
    level: int


@dataclass(eq=False, slots=True)
class Listed:
    """An entity in a list: cells with the ends of the list, cell in the list that points to the entity, and its id."""

    name: str
    entity: Entity
    begin: Cell
    end: Cell
    slot: Cell
    id: Part


@dataclass(eq=False, slots=True)
class Chains:
    """Everything to read for some attributes: cells and entities by depth, and the value of each attribute in order."""

    cells: list[Cell]
    values: list[Part]
    entities: list[Listed]


def build_chains(profile: Profile, bases: Mapping[str, int], names: Sequence[str]) -> Chains:
    """Build the pointer chains to some attributes; a base that is a pointer is not followed yet.

    Raises `UnknownAttributeError`, and `PatternError` if a base has no address, or a code offset no value.
    """
    builder = _Builder(profile, bases)
    values = [builder.value(name) for name in names]
    cells = sorted(builder.cells.values(), key=lambda cell: cell.depth)
    for index, cell in enumerate(cells):
        cell.index = index
    entities = sorted(builder.entities.values(), key=lambda listed: listed.slot.depth)
    return Chains(cells, values, entities)


@dataclass
class _Builder:
    profile: Profile
    bases: Mapping[str, int]
    #: Identity of a cell: its parent and offset; of a base or a slot, its name.
    cells: dict[object, Cell] = field(default_factory=dict)
    entities: dict[str, Listed] = field(default_factory=dict)

    def value(self, name: str) -> Part:
        """Add the chain to one attribute."""
        attribute = self.profile.attributes.get(name)
        if attribute is None:
            raise UnknownAttributeError(name, self.profile.attributes)
        start = self._slot(attribute.entity) if attribute.entity else self._base(attribute.base)
        *path, last = numbers(attribute.offsets)
        return Part(self._follow(start, path, name), last, size_of(attribute), name, len(path))

    def _base(self, name: str) -> Cell:
        if name not in self.bases:
            raise PatternError("has no address; resolve the bases of this profile again", base=name)
        found = self.cells.setdefault(("base", name), Cell(None, self.bases[name], name, 0, 0, is_followed=True))
        return self._cell(found, 0, name, -1) if self.profile.bases[name].is_pointer else found

    def _follow(self, start: Cell, offsets: Sequence[int], owner: str) -> Cell:
        for level, offset in enumerate(offsets):
            start = self._cell(start, offset, owner, level)
        return start

    def _cell(self, parent: Cell, offset: int, owner: str, level: int, *, is_followed: bool = True) -> Cell:
        parent.is_followed = True
        cell = Cell(parent, offset, owner, level, parent.depth + 1, is_followed=is_followed)
        return self.cells.setdefault((id(parent), offset), cell)

    def _slot(self, name: str) -> Cell:
        if name not in self.entities:
            entity = self.profile.entities[name]
            begin, end = (self._list_end(entity.base, numbers(to), name) for to in (entity.begin, entity.end))
            slot = Cell(begin, 0, name, 0, max(begin.depth, end.depth) + 1, is_followed=True)
            self.cells["slot", name] = slot
            *path, last = numbers(entity.id_offsets)
            parent = self._follow(slot, path, name)
            identity = Part(parent, last, len(id_bytes(entity)), name, len(path))
            self.entities[name] = Listed(name, entity, begin, end, slot, identity)
        return self.entities[name].slot

    def _list_end(self, base: str, offsets: Sequence[int], owner: str) -> Cell:
        *path, last = offsets
        return self._cell(self._follow(self._base(base), path, owner), last, owner, len(path), is_followed=False)


#: Range of valid pointers: above the page that is never mapped, below the first address that no processor has.
MIN_POINTER, MAX_POINTER = 2**12, 2**56
#: Upper bound on the list length; a longer one means that the pointers are stale.
MAX_ENTITIES = 2**16


def id_bytes(entity: Entity) -> bytes:
    """Return the id of an entity as the game stores it."""
    return struct.pack(f"<{NUMBER_CODES[entity.id_type]}", entity.id)


def find_entity(memory: Memory, name: str, entity: Entity, begin: int, end: int) -> int:
    """Return the index in a list of the first entity with the id; `begin` and `end` are the addresses of its ends.

    Raises `EntityNotFoundError` if no entity of the list has the id, or the list is invalid.
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
    objects: NDArray[np.uint64] = np.ndarray((n,), "<u8", data, strides=(entity.stride,))
    wanted = id_bytes(entity)
    places = np.arange(n)
    *path, last = numbers(entity.id_offsets)
    for offset in path:
        places, objects = _are_pointers(places, objects)
        found, is_readable = read_scattered(memory, objects + np.uint64(offset % 2**64), 8)
        places, objects = places[is_readable], found[is_readable].view("<u8")[:, 0]
    places, objects = _are_pointers(places, objects)
    found, is_readable = read_scattered(memory, objects + np.uint64(last % 2**64), len(wanted))
    is_match = is_readable & (found == np.frombuffer(wanted, np.uint8)).all(axis=1)
    if is_match.any():
        return int(places[np.argmax(is_match)])
    raise EntityNotFoundError(name, f"none of {n} has id {entity.id}; it is not there, or not yet", n)


def _are_pointers(
    places: NDArray[np.int64], pointers: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    keep = (pointers >= MIN_POINTER) & (pointers < MAX_POINTER)
    return places[keep], pointers[keep]
