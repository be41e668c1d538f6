"""Layout of a memory in which a profile finds everything it describes.

There are three regions: the program (headers, code, its own cells), a permanent heap, and a heap with the objects of
one fight: all objects that are reached through the same cell of the program as an attribute of the player or the boss.
Only the addresses of the regions are left open.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import msgspec

from soulslab.arena.window.memory.code_plan import Block, CodePlan, put_numbers
from soulslab.arena.window.memory.memory_space import Claim, Space
from soulslab.arena.window.memory.objects import Objects
from soulslab.arena.window.memory.placement import CODE, PAGE, ProgramSection, headers, place_heap, place_program
from soulslab.arena.window.memory.resolved_profile import ResolvedProfile, VariantChoice, resolve_profile
from soulslab.config.checking import join_place
from soulslab.errors import InvalidValueError, LayoutError
from soulslab.siphon.attributes.value_codecs import Codec
from soulslab.siphon.profile import NUMBER_CODES, Attribute, Profile
from soulslab.siphon.profile.facts import with_numbers

PROGRAM, LASTING, FIGHT = range(3)
Starts = tuple[int, int, int]
"""Address of each region."""
#: Number of attempts with different numbers for the code offsets; the first ones rarely conflict with other facts.
N_ATTEMPTS = 32


class Place(msgspec.Struct, frozen=True, order=True):
    """Position in a region: `PROGRAM`, `LASTING` or `FIGHT`."""

    region: int
    offset: int


class Pointer(msgspec.Struct, frozen=True):
    """A cell that contains an address, and the position that it points to."""

    at: Place
    to: Place


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """A memory layout for a profile: size of each region, position of each attribute, pointers and initial bytes.

    ``attributes`` are those of the chosen version, with the resolved variants and numeric offsets. ``constants`` are
    code, ids, and plausible values for attributes that no quantity is bound to. ``objects`` has start and end of each
    object on the heaps, by region. ``resources`` has start and size of the program's resources; zeros for none.
    """

    sizes: tuple[int, int, int]
    attributes: dict[str, Attribute]
    places: dict[str, Place]
    pointers: tuple[Pointer, ...]
    constants: tuple[tuple[Place, bytes], ...]
    objects: tuple[tuple[tuple[int, int], ...], ...]
    sections: tuple[ProgramSection, ...]
    resources: tuple[int, int]

    @property
    def fight_pointers(self) -> tuple[Pointer, ...]:
        """Pointers that lead from outside to objects of a fight; they are null while the game loads."""
        return tuple(one for one in self.pointers if one.to.region == FIGHT and one.at.region != FIGHT)

    @property
    def code_pages(self) -> tuple[tuple[int, int], ...]:
        """Start and end of the program's pages that contain code but no cell."""
        cells = [
            place.offset
            for place in (*self.places.values(), *(one.at for one in self.pointers))
            if place.region == PROGRAM
        ]
        pages = (
            (section.start // PAGE * PAGE, -(-(section.start + section.size) // PAGE) * PAGE)
            for section in self.sections
            if section.flags == CODE
        )
        return tuple((start, end) for start, end in pages if not any(start <= cell < end for cell in cells))

    def content(self, region: int, starts: Starts) -> Iterator[tuple[int, bytes]]:
        """Yield the initial content of a region as (offset, bytes), given the address of each region.

        Later pieces overwrite earlier ones.
        """
        if region == PROGRAM:
            yield 0, headers(starts[PROGRAM], self.sizes[PROGRAM], self.sections, self.resources)
        for place, data in self.constants:
            if place.region == region:
                yield place.offset, data
        for pointer in self.pointers:
            if pointer.at.region == region:
                yield pointer.at.offset, struct.pack("<Q", starts[pointer.to.region] + pointer.to.offset)


def synthesise(profile: Profile, choice: VariantChoice | None = None) -> Layout:
    """Create a memory layout in which a profile of any game finds everything it describes.

    Attributes that its ``[duel]`` table binds hold the fight, the others a constant. Without a choice, the first
    version and the first variants are used. Raises `LayoutError` if two facts contradict each other, or one is
    impossible; the message has the places.
    """
    choice = choice or VariantChoice()
    profile, plan, objects = _objects(resolve_profile(profile, choice), choice)
    roots = list(objects.roots())
    lasting, fight = _heap_spaces(roots, objects, (profile.duel or {}).get("attributes", {}))
    program = place_program(profile, plan, objects)
    origins: dict[Space | Block, Place] = {one: Place(PROGRAM, start) for one, start in program.starts.items()}
    sizes = [program.size]
    extents: list[tuple[tuple[int, int], ...]] = [()]
    for region, spaces in ((LASTING, lasting), (FIGHT, fight)):
        starts, size = place_heap(spaces)
        origins |= {one: Place(region, start) for one, start in starts.items()}
        sizes.append(size)
        extents.append(tuple((starts[one] + one.low, starts[one] + one.high) for one in spaces))
    everything = [*roots, *lasting, *fight]

    def at(space: Space, offset: int) -> Place:
        origin = origins[space]
        return Place(origin.region, origin.offset + offset)

    pointers = {
        at(space, claim.offset): at(claim.storage[1], claim.storage[2])
        for space in everything
        for claim in space.claims
        if isinstance(claim.storage, tuple) and claim.storage[0] == "pointer"
    }
    constants = [(Place(PROGRAM, start), data) for start, data in program.content]
    constants += [(at(space, offset), data) for space, offset, data in constants_of(profile, everything)]
    constants += [(at(space, offset), data) for space, offset, data in objects.fixed]
    return Layout(
        sizes=(sizes[PROGRAM], sizes[LASTING], sizes[FIGHT]),
        attributes=profile.attributes,
        places={name: at(space, offset) for name, (space, offset) in objects.places.items()},
        pointers=tuple(Pointer(one, pointers[one]) for one in sorted(pointers)),
        constants=tuple(constants),
        objects=tuple(extents),
        sections=program.sections,
        resources=program.resources,
    )


def _objects(resolved: ResolvedProfile, choice: VariantChoice) -> tuple[Profile, CodePlan, Objects]:
    """Return the profile with numeric offsets, its code and its objects; retry with other numbers after conflicts."""
    for attempt in range(N_ATTEMPTS):
        plan = CodePlan(resolved.profile)
        found = put_numbers(plan, resolved.profile, choice.code_offsets, attempt)
        profile = with_numbers(resolved.profile, found)
        wrong = with_numbers(msgspec.structs.replace(resolved.profile, attributes=resolved.wrong), found).attributes
        try:
            objects = Objects(profile, plan)
            for place in (one for one in wrong if one in resolved.must_fail):
                objects.make_variant_fail(place, wrong[place])
        except LayoutError:
            if not found or attempt == N_ATTEMPTS - 1:
                raise
            continue
        for place in (one for one in wrong if one not in resolved.must_fail):
            with suppress(LayoutError):  # they are never tried, because the chosen variant is found first
                objects.make_variant_fail(place, wrong[place])
        return profile, plan, objects
    raise AssertionError("there is at least one attempt")


def _heap_spaces(
    roots: Sequence[Space], objects: Objects, attributes: Mapping[str, str]
) -> tuple[list[Space], list[Space]]:
    """Return the objects on the heap: the permanent ones, and those of one fight, such as the player and the boss."""
    moving = {name for quantity, name in attributes.items() if quantity.startswith(("player.", "boss."))}
    fighting = {objects.places[name][0] for name in moving if name in objects.places}
    lasting: list[Space] = []
    fight: list[Space] = []
    for root in roots:
        for target in root.targets.values():
            behind = list(target.reachable())
            (lasting if fighting.isdisjoint(behind) else fight).extend(behind)
    return lasting, fight


def constants_of(profile: Profile, spaces: Sequence[Space]) -> Iterator[tuple[Space, int, bytes]]:
    """Yield a plausible number for each position that only attributes without a quantity use.

    Text, flags and plain bytes stay 0, which is plausible. Raises `LayoutError` if no number that can be stored lies in
    all ranges of a position.
    """
    by_place = {join_place("attributes", name): attribute for name, attribute in profile.attributes.items()}
    for space in spaces:
        wanting: dict[int, list[Claim]] = {}
        for claim in space.claims:
            if isinstance(claim.storage, tuple) and claim.storage[0] in NUMBER_CODES and claim.owner in by_place:
                wanting.setdefault(claim.offset, []).append(claim)
        for offset, claims in wanting.items():
            if not any(claim.meaning for claim in claims):
                yield space, offset, _plausible([(claim.owner, by_place[claim.owner]) for claim in claims])


def _plausible(wanting: Sequence[tuple[str, Attribute]]) -> bytes:
    """Return the bytes of a number that is in all the ranges."""
    place, attribute = wanting[0]
    ranges = [one.range for _, one in wanting if one.range is not None]
    low, high = max(one[0] for one in ranges), min(one[1] for one in ranges)
    one = msgspec.structs.replace(attribute, length=1, range=(low, high))
    codec = Codec(place, one)
    is_whole = attribute.type not in ("f32", "f64") and attribute.scale == 1.0
    ends = (math.ceil(low), math.floor(high)) if is_whole else (low, high)
    for value in (0 if is_whole else 0.0, *ends):
        try:
            return codec.encode(value)
        except InvalidValueError:
            continue  # try the next value
    other = next((name for name, _ in wanting[1:]), "")
    what = attribute.type if attribute.scale == 1.0 else f"{attribute.type} times {attribute.scale:g}"
    where = f"in its range and in that of {other}, which is at the same place" if other else "in its range"
    raise LayoutError(f"no {what} is {where}; no plausible value can be stored", place=place, other=other)
