"""Mistakes in what a profile says about versions, code offsets and alternatives; each with its place."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from soulslab.config.checking import short
from soulslab.errors import ProfileError, did_you_mean
from soulslab.siphon.facts import Fact, facts_behind, place_of, stated_versions, versions_of, ways_of
from soulslab.siphon.pattern import Pattern
from soulslab.siphon.profile import Attribute, CodeOffset, Entity, Profile
from soulslab.siphon.values import NUMBER_CODES

Mistake = tuple[str, str]
"""Problem and place."""

N_BITS = {"u8": 8, "i8": 8, "u32": 32, "i32": 32}


def unknown(kind: str, name: str, known: Collection[str]) -> str:
    """Return the problem of a name that nothing has."""
    return f"there is no {kind} {short(name)}{did_you_mean(name, known) if known else '; the profile has none'}"


def code_offset_mistakes(place: str, fact: CodeOffset) -> Iterator[Mistake]:
    """Yield the mistakes of a code offset."""
    n_bits = N_BITS[fact.type]
    try:
        pattern = Pattern.parse(fact.pattern)
    except ProfileError as error:
        yield error.problem, f"{place}.pattern"
    else:
        size = n_bits // 8
        if fact.at + size > len(pattern):
            yield (
                f"must be the position of the {size} bytes of the number, counted from 0; at {fact.at} the pattern of "
                f"{len(pattern)} bytes has too few of them",
                f"{place}.at",
            )
        elif all(mask == 0xFF for mask in pattern.masks[fact.at : fact.at + size]):
            yield f"the pattern fixes all {size} bytes of the number at {fact.at}, so it cannot differ", f"{place}.at"
    low, high = fact.range
    if low > high:
        yield f"{low} is greater than {high}", f"{place}.range"
        return
    least = (-(2 ** (n_bits - 1)) if fact.type[0] == "i" else 0) + fact.adjust
    greatest = least + 2**n_bits - 1
    for index, fits in enumerate((low >= least, high <= greatest)):
        if not fits:
            adjusted = f" and {fact.adjust:+d}" if fact.adjust else ""
            yield (
                f"is {(low, high)[index]}, which a {fact.type}{adjusted} cannot be ({least} to {greatest})",
                f"{place}.range[{index}]",
            )


def offset_mistakes(place: str, fact: Attribute | Entity, profile: Profile) -> Iterator[Mistake]:
    """Yield the names in the offsets of an attribute or an entity that no code offset has."""
    for field in ("offsets", "begin", "end", "id_offsets"):
        for index, offset in enumerate(getattr(fact, field, ())):
            if isinstance(offset, str) and offset not in profile.code_offsets:
                problem = unknown("code offset", offset, profile.code_offsets)
                yield f"{problem}; a number stands without quotes", f"{place}.{field}[{index}]"


def version_mistakes(profile: Profile) -> Iterator[Mistake]:
    """Yield versions of facts that the profile does not know, and facts that are for no version at all."""
    for table in ("bases", "code_offsets", "entities", "attributes"):
        facts: dict[str, Fact] = getattr(profile, table)
        for name, fact in facts.items():
            for index, way in enumerate(_ways(fact)):
                yield from _version_mistakes(place_of(name, index, table), way, profile)


def alternative_mistakes(name: str, attribute: Attribute) -> Iterator[Mistake]:
    """Yield alternatives that say two things about their start, nothing new, or give another kind of value."""
    ways = ways_of(attribute)
    for index, (other, way) in enumerate(zip(attribute.alternatives, ways[1:], strict=True), start=1):
        place = place_of(name, index)
        if other.base and other.entity:
            yield "needs either a base or an entity to start from, not both", place
        if _kind(way) != _kind(ways[0]):
            kinds = f"gives a {_kind(way)}, and the attribute itself a {_kind(ways[0])}"
            yield f"{kinds}; both have to give the same kind of value", f"{place}.type"
        if any(_way(way) == _way(before) for before in ways[:index]):
            yield "says the same as the attribute or an alternative before it; leave it out", place


def list_mistakes(name: str, entity: Entity) -> Iterator[Mistake]:
    """Yield alternatives to the place of a list that say nothing new."""
    ways = [(way.begin, way.end, way.versions) for way in ways_of(entity)]
    for index, way in enumerate(ways):
        if way in ways[:index]:
            place = place_of(name, index, "entities")
            yield "says the same as the entity or an alternative before it; leave it out", place


def _version_mistakes(place: str, way: Fact, profile: Profile) -> Iterator[Mistake]:
    known = profile.process.versions
    for index, version in enumerate(way.versions):
        if version not in known:
            problem = f"{short(version)} is none of process.versions{did_you_mean(version, known) if known else ''}"
            yield problem, f"{place}.versions[{index}]"
            return
    if known and not versions_of(profile, way):
        needed = [f"{of or place} for {', '.join(stated)}" for of, fact in facts_behind(profile, way)
                  if (stated := stated_versions(fact))]  # fmt: skip
        yield f"there is no version for which all is known that it needs: {'; '.join(needed)}", place


def _ways(fact: Fact) -> Sequence[Fact]:
    """Return the ways that a fact knows."""
    if isinstance(fact, Attribute):
        return ways_of(fact)
    return ways_of(fact) if isinstance(fact, Entity) else (fact,)


def _kind(way: Attribute) -> str:
    """Return what kind of value a way gives."""
    if way.type in NUMBER_CODES:
        return "whole number" if way.type[0] != "f" and way.scale == 1.0 else "fraction"
    return {"flag": "bool", "utf8": "text", "utf16": "text"}.get(way.type, way.type)


def _way(way: Attribute) -> tuple[object, ...]:
    """Return what makes a way another one."""
    return way.base, way.entity, way.offsets, way.type, way.bit, way.scale, way.versions
