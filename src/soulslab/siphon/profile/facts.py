"""Facts derived from a profile: the variants of an attribute, and the versions of the game that each applies to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from soulslab.config.checking import join_place
from soulslab.errors import PatternError
from soulslab.siphon.profile.schema import Alternative, Attribute, Base, CodeOffset, Entity, ListPlace, Profile

Fact = Base | CodeOffset | Entity | Attribute
F = TypeVar("F", bound=Base | CodeOffset | Entity | Attribute)


def variants_of(fact: F) -> tuple[F, ...]:
    """Return the variants of a fact: its own definition, then each alternative of an attribute or entity, completed."""
    if not isinstance(fact, Attribute | Entity):
        return (fact,)
    own = msgspec.structs.replace(fact, alternatives=())
    return (own, *(_completed(own, other) for other in fact.alternatives))


def place_of(name: str, variant: int, table: str = "attributes") -> str:
    """Return the place in the profile of a variant of an attribute; variant 0 is its own definition."""
    place = join_place(table, name)
    return f"{place}.alternatives[{variant - 1}]" if variant else place


def facts_behind(profile: Profile, fact: Fact) -> Iterator[tuple[str, Fact]]:
    """Yield all facts that a variant depends on, each with its place: itself, entity, bases, code offsets.

    Facts that the profile does not define are skipped.
    """
    yield from (
        (join_place(table, name) if table else "", other) for table, name, other in _behind(profile, fact, "", "")
    )


def _behind(profile: Profile, fact: Fact, table: str, name: str) -> Iterator[tuple[str, str, Fact]]:
    """Yield the facts of `facts_behind`, each with its table in the profile and its name."""
    yield table, name, fact
    if isinstance(fact, Attribute | Entity) and (base := profile.bases.get(fact.base)):
        yield "bases", fact.base, base
    if isinstance(fact, Attribute) and (entity := profile.entities.get(fact.entity)):
        yield from _behind(profile, entity, "entities", fact.entity)
    for offset in names_in(fact):
        if offset in profile.code_offsets:
            yield "code_offsets", offset, profile.code_offsets[offset]


def names_in(fact: Fact) -> Iterator[str]:
    """Yield the names of code offsets in the offsets of an attribute or an entity."""
    for field in ("offsets", "begin", "end", "id_offsets"):
        yield from (offset for offset in getattr(fact, field, ()) if isinstance(offset, str))


def versions_of(profile: Profile, variant: Fact) -> tuple[str, ...]:
    """Return the known versions of the game for which everything that a variant needs is known."""
    behind = [known for _, fact in facts_behind(profile, variant) if (known := stated_versions(fact))]
    return tuple(version for version in profile.process.versions if all(version in known for known in behind))


def stated_versions(fact: Fact) -> tuple[str, ...]:
    """Return the versions that a fact states, including those of an entity's alternatives; empty for all versions."""
    if not isinstance(fact, Entity):
        return fact.versions
    of = [variant.versions for variant in variants_of(fact)]
    return tuple(dict.fromkeys(version for versions in of for version in versions)) if all(of) else ()


def is_for(profile: Profile, variant: Fact, version: str) -> bool:
    """Return whether a variant applies to a version of the game.

    A version that the profile does not know, and that was allowed, is tried with all facts.
    """
    if version not in profile.process.versions:
        return True
    stated = (stated_versions(fact) for _, _, fact in _behind(profile, variant, "", ""))
    return all(version in known for known in stated if known)


def is_for_all(profile: Profile, name: str) -> bool:
    """Return whether an attribute can be found in all versions that the profile knows."""
    found = [versions_of(profile, variant) for variant in variants_of(profile.attributes[name])]
    return all(any(version in of for of in found) for version in profile.process.versions)


def with_numbers(profile: Profile, code_offsets: Mapping[str, int]) -> Profile:
    """Return a profile with the names of known code offsets replaced by their numbers."""

    def replaced(fact: Attribute | Entity | Alternative, *fields: str) -> Attribute | Entity | Alternative:
        known = {field: getattr(fact, field) for field in fields if getattr(fact, field) is not None}
        return msgspec.structs.replace(
            fact,
            **{field: tuple(code_offsets.get(one, one) for one in offsets) for field, offsets in known.items()},
        )

    entities = {name: replaced(one, "begin", "end", "id_offsets") for name, one in profile.entities.items()}
    attributes = {name: replaced(one, "offsets") for name, one in profile.attributes.items()}
    for name, attribute in attributes.items():
        others = tuple(replaced(other, "offsets") for other in profile.attributes[name].alternatives)
        attributes[name] = msgspec.structs.replace(attribute, alternatives=others)
    return msgspec.structs.replace(profile, entities=entities, attributes=attributes)


def numbers(offsets: Sequence[int | str]) -> tuple[int, ...]:
    """Return offsets that are all numbers. Raises `PatternError` for a name that `with_numbers` had no number for."""
    for offset in offsets:
        if isinstance(offset, str):
            place = join_place("code_offsets", offset)
            raise PatternError("has no number; look for the places of this profile again", base=offset, place=place)
    return tuple(offset for offset in offsets if isinstance(offset, int))


def _completed(own: F, other: Alternative | ListPlace) -> F:
    """Return an alternative with its missing fields taken from the attribute or entity."""
    changes = {
        field: getattr(other, field)
        for field in ("offsets", "type", "bit", "scale", "begin", "end")
        if getattr(other, field, None) is not None
    }
    if isinstance(other, Alternative) and (other.base or other.entity):
        changes |= {"base": other.base, "entity": other.entity}
    return msgspec.structs.replace(own, **changes, versions=other.versions, source=other.source)
