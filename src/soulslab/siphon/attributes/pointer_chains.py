"""The pointers that lie between the bases of a profile and some of its attributes, as a tree.

A *cell* is an address with an 8-byte pointer that is followed. Chains that begin alike share their cells, so each is
read once. The depth of a cell is how many reads it takes to know it: all cells of a depth can be read together.
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
    """A pointer in memory, or (without parent) a base, whose address is known.

    Attributes:
        parent: Cell whose pointer the address counts from; None for a base.
        offset: Added to it; the address of a base. Of an entity's slot it is only known after a search.
        owner: Attribute, entity or base that it belongs to.
        level: Place in the offsets of its owner; -1 for the pointer of a base.
        depth: Reads that it takes; 0 for a base.
        is_followed: Its pointer has to be one. The ends of a list of entities need not.
        index: Place in `Chains.cells`.
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
    """Bytes to read in the end: a value, or the id of an entity.

    Attributes:
        parent: Cell whose pointer the address counts from.
        offset: Added to it.
        size: Bytes.
        owner: Attribute or entity that it belongs to.
        level: Place in the offsets of its owner.
    """

    parent: Cell
    offset: int
    size: int
    owner: str
    level: int


@dataclass(eq=False, slots=True)
class Listed:
    """An entity of a list.

    Attributes:
        name: In the profile.
        entity: What the profile says.
        begin: Cell with the start of the list.
        end: Cell with its end.
        slot: Cell in the list that points to the entity.
        id: Where its id lies.
    """

    name: str
    entity: Entity
    begin: Cell
    end: Cell
    slot: Cell
    id: Part


@dataclass(eq=False, slots=True)
class Chains:
    """All that has to be read for some attributes.

    Attributes:
        cells: Bases and cells, by depth.
        values: What to read of each attribute, in the order that was asked for.
        entities: Those that have to be searched, by the depth of their slots.
    """

    cells: list[Cell]
    values: list[Part]
    entities: list[Listed]


def build_chains(profile: Profile, bases: Mapping[str, int], names: Sequence[str]) -> Chains:
    """Lay out the pointers to some attributes.

    Args:
        profile: Of the game.
        bases: Address of each base, not followed where it is a pointer.
        names: Of the attributes.

    Raises:
        UnknownAttributeError: The profile has no such attribute.
        PatternError: A base has no address, or a code offset no number.
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
    #: By what tells one from another: its parent and offset; of a base or a slot, its name.
    cells: dict[object, Cell] = field(default_factory=dict)
    entities: dict[str, Listed] = field(default_factory=dict)

    def value(self, name: str) -> Part:
        """Lay out one attribute."""
        attribute = self.profile.attributes.get(name)
        if attribute is None:
            raise UnknownAttributeError(name, self.profile.attributes)
        start = self._slot(attribute.entity) if attribute.entity else self._base(attribute.base)
        *way, last = numbers(attribute.offsets)
        return Part(self._follow(start, way, name), last, size_of(attribute), name, len(way))

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
            *way, last = numbers(entity.id_offsets)
            parent = self._follow(slot, way, name)
            size = {"b": 1, "h": 2, "i": 4, "q": 8, "f": 4, "d": 8}[NUMBER_CODES[entity.id_type].lower()]
            identity = Part(parent, last, size, name, len(way))
            self.entities[name] = Listed(name, entity, begin, end, slot, identity)
        return self.entities[name].slot

    def _list_end(self, base: str, offsets: Sequence[int], owner: str) -> Cell:
        parent = self._follow(self._base(base), offsets[:-1], owner)
        parent.is_followed = True
        key = (id(parent), offsets[-1])
        cell = Cell(parent, offsets[-1], owner, len(offsets) - 1, parent.depth + 1)
        return self.cells.setdefault(key, cell)
