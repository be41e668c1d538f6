"""Pointer chains from the bases of a profile to attributes, as a tree.

A *cell* is the address of an 8-byte pointer that is followed. Chains with a common beginning share their cells, so that
each cell is read once. The depth of a cell is the number of reads before its address is known; all cells of one depth
can be read together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from soulslab.errors import PatternError, UnknownAttributeError
from soulslab.siphon.attributes.value_codecs import size_of
from soulslab.siphon.profile import NUMBER_CODES, Entity, Profile
from soulslab.siphon.profile.facts import numbers


@dataclass(eq=False, slots=True)
class Cell:
    """A pointer in memory or, without parent, a base with a known address.

    Attributes:
        parent: Cell whose pointer `offset` is added to; None for a base.
        offset: Offset from the parent's pointer; for a base its address. The offset of an entity's slot is set by a
            search.
        owner: Attribute, entity or base that the cell belongs to.
        level: Index in the offsets of its owner; -1 for the pointer of a base.
        depth: Number of reads before its address is known; 0 for a base.
        is_followed: Whether its pointer must be valid. The ends of a list of entities need not be.
        index: Index in `Chains.cells`.
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
    """Bytes to read at the end of a chain: a value, or the id of an entity.

    Attributes:
        parent: Cell whose pointer `offset` is added to.
        offset: Offset from the parent's pointer.
        size: Size in bytes.
        owner: Attribute or entity that it belongs to.
        level: Index in the offsets of its owner.
    """

    parent: Cell
    offset: int
    size: int
    owner: str
    level: int


@dataclass(eq=False, slots=True)
class Listed:
    """An entity in a list.

    Attributes:
        name: Name in the profile.
        entity: Definition in the profile.
        begin: Cell with the start of the list.
        end: Cell with the end of the list.
        slot: Cell in the list that points to the entity.
        id: Part with its id.
    """

    name: str
    entity: Entity
    begin: Cell
    end: Cell
    slot: Cell
    id: Part


@dataclass(eq=False, slots=True)
class Chains:
    """Everything to read for some attributes.

    Attributes:
        cells: Bases and cells, by depth.
        values: The value of each attribute, in the requested order.
        entities: Entities to search, by the depth of their slots.
    """

    cells: list[Cell]
    values: list[Part]
    entities: list[Listed]


def build_chains(profile: Profile, bases: Mapping[str, int], names: Sequence[str]) -> Chains:
    """Build the pointer chains to some attributes.

    Args:
        profile: Profile of the game.
        bases: Address of each base; a base that is a pointer is not followed yet.
        names: Names of the attributes.

    Raises:
        UnknownAttributeError: The profile has no such attribute.
        PatternError: A base has no address, or a code offset no value.
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

    def _cell(self, parent: Cell, offset: int, owner: str, level: int) -> Cell:
        parent.is_followed = True
        cell = Cell(parent, offset, owner, level, parent.depth + 1, is_followed=True)
        return self.cells.setdefault((id(parent), offset), cell)

    def _slot(self, name: str) -> Cell:
        if name not in self.entities:
            entity = self.profile.entities[name]
            begin, end = (self._list_end(entity.base, numbers(to), name) for to in (entity.begin, entity.end))
            slot = Cell(begin, 0, name, 0, max(begin.depth, end.depth) + 1, is_followed=True)
            self.cells["slot", name] = slot
            *path, last = numbers(entity.id_offsets)
            parent = self._follow(slot, path, name)
            size = {"b": 1, "h": 2, "i": 4, "q": 8, "f": 4, "d": 8}[NUMBER_CODES[entity.id_type].lower()]
            identity = Part(parent, last, size, name, len(path))
            self.entities[name] = Listed(name, entity, begin, end, slot, identity)
        return self.entities[name].slot

    def _list_end(self, base: str, offsets: Sequence[int], owner: str) -> Cell:
        parent = self._follow(self._base(base), offsets[:-1], owner)
        parent.is_followed = True
        key = (id(parent), offsets[-1])
        cell = Cell(parent, offsets[-1], owner, len(offsets) - 1, parent.depth + 1)
        return self.cells.setdefault(key, cell)
