"""Objects that a profile describes: cells of the program, the objects that they point to, and lists of entities."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from soulslab.arena.window.memory.code_plan import CodePlan
from soulslab.arena.window.memory.memory_space import POINTER_SIZE, Claim, Space
from soulslab.arena.window.memory.resolved_profile import NO_POINTER, no_values
from soulslab.config.checking import join_place
from soulslab.errors import LayoutError
from soulslab.siphon.attributes.value_codecs import size_of
from soulslab.siphon.profile import NUMBER_CODES, Attribute, Entity, Profile
from soulslab.siphon.profile.facts import numbers


class Objects:
    """All memory spaces of a profile.

    ``program`` has the cells at fixed offsets from the program's base, ``places`` the space and offset of each
    attribute. ``fixed`` has space, offset and bytes of ids of entities, and of values that make other variants fail.
    Raises `LayoutError` if two facts contradict each other, or one is impossible.
    """

    def __init__(self, profile: Profile, plan: CodePlan) -> None:
        self._profile = profile
        self._plan = plan
        self.program = Space("the program")
        self.places: dict[str, tuple[Space, int]] = {}
        self.fixed: list[tuple[Space, int, bytes]] = []
        self._lists: dict[tuple[Space, int], list[str]] = {}
        self._entities: dict[str, Space] = {}
        self._find_lists()
        for names in self._lists.values():
            self._fill_list(names)
        meanings = {name: quantity for quantity, name in (profile.duel or {}).get("attributes", {}).items()}
        for name, attribute in profile.attributes.items():
            self.places[name] = self._attribute(name, attribute, meanings.get(name, ""))

    def roots(self) -> Iterator[Space]:
        """Yield the spaces that are parts of the program."""
        yield self.program
        for block in self._plan.blocks:
            yield block.space
            yield from block.operands.values()

    def make_variant_fail(self, place: str, way: Attribute) -> None:
        """Make a variant of an attribute fail: with an invalid pointer where its path leaves the others, or a value.

        Raises `LayoutError` if other facts need the bytes that it reads.
        """
        steps = numbers(way.offsets)
        if way.entity:
            space, start = self._entities[way.entity], 0
        else:
            space, start = self._cell(way.base)
            if self._profile.bases[way.base].is_pointer:
                steps = (0, *steps)
        for step in steps[:-1]:
            target = space.targets.get(start + step)
            if target is None:
                self._fix(space, start + step, NO_POINTER, place)
                return
            space, start = target, 0
        problem = LayoutError(
            f"finds a value in any bytes, because its type is {way.type}; it cannot be made to fail", place=place
        )
        for offset, data in no_values(way):
            try:
                self._fix(space, start + steps[-1] + offset, data, place)
            except LayoutError as error:
                problem = error
            else:
                return
        raise problem

    def _fix(self, space: Space, offset: int, data: bytes, place: str) -> None:
        """Store bytes that are not a valid value."""
        space.claim(Claim(offset, len(data), ("no value", data), "", place))
        self.fixed.append((space, offset, data))

    def _base(self, name: str) -> tuple[Space, int]:
        """Return the position of a base after following its pointer."""
        space, offset = self._cell(name)
        if self._profile.bases[name].is_pointer:
            return space.pointer(offset, join_place("bases", name)), 0
        return space, offset

    def _cell(self, name: str) -> tuple[Space, int]:
        """Return the position of a base without following its pointer."""
        base, place = self._profile.bases[name], join_place("bases", name)
        if base.offset is None:
            block, start = self._plan.matches[place]
            if base.displacement_at is None or base.instruction_end is None:
                space, offset = block.space, start
            else:
                space = block.operand(start + base.displacement_at, place)
                offset = base.instruction_end - base.displacement_at - 4
        elif base.module:
            raise LayoutError(
                f"is relative to {base.module!r}; only the program itself can be laid out, not its libraries",
                place=f"{place}.module",
            )
        else:
            space, offset = self.program, base.offset
        return space, offset + base.adjust

    def _follow(self, start: tuple[Space, int], offsets: Sequence[int | str], owner: str) -> tuple[Space, int]:
        space, offset = start
        *way, last = numbers(offsets)
        for step in way:
            space, offset = space.pointer(offset + step, owner), 0
        return space, offset + last

    def _attribute(self, name: str, attribute: Attribute, meaning: str) -> tuple[Space, int]:
        place = join_place("attributes", name)
        start = (self._entities[attribute.entity], 0) if attribute.entity else self._base(attribute.base)
        space, offset = self._follow(start, attribute.offsets, place)
        for claim in _claims(offset, attribute, meaning, place):
            space.claim(claim)
        return space, offset

    # --- lists of entities ----------------------------------------------------------------------------------

    def _find_lists(self) -> None:
        """Find the entities that share a list, and create the pointers to the lists."""
        self._begins: dict[str, Space] = {}
        for name, entity in self._profile.entities.items():
            place = join_place("entities", name)
            space, offset = self._follow(self._base(entity.base), entity.begin, place)
            self._begins[name] = space.pointer(offset, place)
            self._lists.setdefault((self._begins[name], entity.stride), []).append(name)

    def _fill_list(self, names: list[str]) -> None:
        """Fill a list with its entities, other entities and null pointers, and set its end."""
        entities = [self._profile.entities[name] for name in names]
        first = self._begins[names[0]]
        stride = entities[0].stride
        objects: dict[tuple[object, ...], Space] = {}
        used = self._next_slot(first, 0, stride, names[0])  # the first pointer of a list is null
        used, other = self._new_object(first, used, stride, names[0])
        self._add_other_entity(other, entities, names, 1)
        for name, entity in zip(names, entities, strict=True):
            key = (entity.id_offsets, entity.id_type, entity.id)
            if key not in objects:
                used, objects[key] = self._new_object(first, used, stride, name)
                self._write_id(objects[key], entity, entity.id, name)
            self._entities[name] = objects[key]
        used, other = self._new_object(first, used, stride, names[0])
        self._add_other_entity(other, entities, names, 2)
        for name, entity in zip(names, entities, strict=True):
            place = join_place("entities", name)
            space, offset = self._follow(self._base(entity.base), entity.end, place)
            space.claim_pointer(offset, first, place, used * stride)

    @staticmethod
    def _next_slot(first: Space, used: int, stride: int, name: str) -> int:
        """Return the number of used positions in a list after the next free one."""
        while not first.is_free(used * stride, POINTER_SIZE):
            used += 1
        if used > 4096:
            raise LayoutError("its list has no free position", place=join_place("entities", name))
        return used + 1

    def _new_object(self, first: Space, used: int, stride: int, name: str) -> tuple[int, Space]:
        """Return the number of used positions after adding an object to a list, and the object."""
        used = self._next_slot(first, used, stride, name)
        return used, first.pointer((used - 1) * stride, join_place("entities", name))

    def _add_other_entity(self, space: Space, entities: Sequence[Entity], names: Sequence[str], number: int) -> None:
        """Give an additional entity an id that differs from the ids in the profile."""
        done: set[tuple[object, ...]] = set()
        for name, entity in zip(names, entities, strict=True):
            key = (entity.id_offsets, entity.id_type)
            if key in done:
                continue
            done.add(key)
            self._write_id(space, entity, _another_id(entity, {one.id for one in entities}, number), name)

    def _write_id(self, space: Space, entity: Entity, number: int, name: str) -> None:
        """Write the id of an entity."""
        place = join_place("entities", name)
        space, offset = self._follow((space, 0), entity.id_offsets, place)
        size = _SIZES[entity.id_type]
        space.claim(Claim(offset, size, (entity.id_type, 1.0), f"id {number}", place))
        self.fixed.append((space, offset, number.to_bytes(size, "little", signed=number < 0)))


def _another_id(entity: Entity, taken: set[int], number: int) -> int:
    """Return an unused id near an entity's, because games give related entities similar ids."""
    size = _SIZES[entity.id_type]
    low, n = (0 if entity.id_type[0] == "u" else -(1 << (8 * size - 1))), 1 << 8 * size
    others = (low + (entity.id - low + 1 + 10 * number + step) % n for step in range(n))
    other = next((one for one in others if one not in taken), None)
    if other is None:
        raise LayoutError(f"no unused {entity.id_type} is left for an additional entity", place="entities")
    return other


_SIZES = {name: struct.calcsize(f"<{code}") for name, code in NUMBER_CODES.items()}


def _claims(offset: int, attribute: Attribute, meaning: str, owner: str) -> Iterator[Claim]:
    """Yield the claims of an attribute; a vector has one for each number."""
    kind = attribute.type
    if kind in NUMBER_CODES:
        size = _SIZES[kind]
        for i in range(attribute.length):
            part = f"{meaning}[{i}]" if meaning and attribute.length > 1 else meaning
            yield Claim(offset + i * size, size, (kind, attribute.scale), part, owner)
    elif kind == "flag":
        yield Claim(offset, 1, ("flag", attribute.bit), meaning, owner)
    else:
        yield Claim(offset, size_of(attribute), kind, meaning, owner)
