"""Resolution of a profile to one version of the game, with one variant of each attribute."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import msgspec
import numpy as np

from soulslab.config.checking import join_place
from soulslab.errors import LayoutError, did_you_mean
from soulslab.siphon.profile import NUMBER_CODES, Attribute, Profile
from soulslab.siphon.profile.facts import is_for, place_of, variants_of

#: Value of an invalid pointer. It is not null, because a game that loads has null pointers.
NO_POINTER = b"\xdd" * 8
#: Bytes that are not a valid bool or text.
_NO_VALUES = {"bool": b"\xff", "utf8": b"\xff", "utf16": b"\x00\xdc"}


class VariantChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Choice of what a profile leaves open; by default the first version, and the first variant for it.

    ``variants`` has the index of the variant of some attributes that leads to the value: 0 for the attribute itself,
    then its alternatives. ``code_offsets`` has values of code offsets; by default plausible ones are chosen.
    """

    version: str = ""
    variants: Mapping[str, int] = {}
    code_offsets: Mapping[str, int] = {}


class ResolvedProfile(msgspec.Struct, frozen=True):
    """A profile with one variant of each attribute.

    ``wrong`` has the other variants by their places in the profile, in the order of the attributes; ``must_fail`` the
    places of the variants that are tried before the chosen one.
    """

    profile: Profile
    wrong: dict[str, Attribute]
    must_fail: frozenset[str]


def resolve_profile(profile: Profile, choice: VariantChoice) -> ResolvedProfile:
    """Resolve a profile; raises `LayoutError` if it does not have the chosen version or variant."""
    version = choice.version or next(iter(profile.process.versions), "")
    _check(profile, choice)
    attributes: dict[str, Attribute] = {}
    wrong: dict[str, Attribute] = {}
    must_fail: set[str] = set()
    for name, attribute in profile.attributes.items():
        variants = {
            index: variant for index, variant in enumerate(variants_of(attribute)) if is_for(profile, variant, version)
        }
        if not variants:
            continue
        chosen = choice.variants.get(name, next(iter(variants)))
        if chosen not in variants:
            problem = f"is not defined for version {version}, so it cannot be chosen"
            raise LayoutError(problem, place=place_of(name, chosen))
        attributes[name] = variants.pop(chosen)
        wrong |= {place_of(name, index): variant for index, variant in variants.items()}
        must_fail |= {place_of(name, index) for index in variants if index < chosen}
    resolved = msgspec.structs.replace(
        profile,
        process=msgspec.structs.replace(profile.process, versions=(version,) if version else ()),
        bases={name: one for name, one in profile.bases.items() if is_for(profile, one, version)},
        code_offsets={name: one for name, one in profile.code_offsets.items() if is_for(profile, one, version)},
        entities={
            # The game uses the first list of an entity.
            name: next(variant for variant in variants_of(one) if is_for(profile, variant, version))
            for name, one in profile.entities.items()
            if any(is_for(profile, variant, version) for variant in variants_of(one))
        },
        attributes=attributes,
    )
    _check_duel(profile, resolved, version)
    return ResolvedProfile(resolved, wrong, frozenset(must_fail))


def no_values(attribute: Attribute) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, bytes) that each make an attribute unreadable; a flag has none, as every bit is valid."""
    kind = attribute.type
    if kind in NUMBER_CODES:
        stored = np.dtype(f"<{NUMBER_CODES[kind]}")
        low, high = attribute.range or (0.0, 0.0)
        ends = (math.nan,) if stored.kind == "f" else (np.iinfo(stored).max, np.iinfo(stored).min)
        outside = [stored.type(end).tobytes() for end in ends if not low <= end * attribute.scale <= high]
        yield from ((i * len(data), data) for data in outside for i in range(attribute.length))
    elif kind in _NO_VALUES:
        yield 0, _NO_VALUES[kind]


def _check(profile: Profile, choice: VariantChoice) -> None:
    """Raise an error if the profile does not have the chosen version or variants."""
    versions = profile.process.versions
    if choice.version and choice.version not in versions:
        raise LayoutError(
            f"{choice.version!r} is unknown{did_you_mean(choice.version, versions)}", place="process.versions"
        )
    for name, variant in choice.variants.items():
        attribute = profile.attributes.get(name)
        if attribute is None:
            raise LayoutError(f"does not exist{did_you_mean(name, profile.attributes)}", place=place_of(name, 0))
        if not 0 <= variant <= len(attribute.alternatives):
            raise LayoutError(
                f"has {len(attribute.alternatives)} alternatives; variant {variant} does not exist",
                place=place_of(name, 0),
            )
    for name in choice.code_offsets:
        if name not in profile.code_offsets:
            known = did_you_mean(name, profile.code_offsets)
            raise LayoutError(f"does not exist{known}", place=join_place("code_offsets", name))


def _check_duel(profile: Profile, resolved: Profile, version: str) -> None:
    """Raise an error if attributes of the fight are not defined for the version."""
    for quantity, name in (profile.duel or {}).get("attributes", {}).items():
        if name in profile.attributes and name not in resolved.attributes:
            raise LayoutError(
                f"is not defined for version {version}, which the layout uses; put a version first in "
                f"process.versions for which all attributes of the fight are defined",
                place=join_place("attributes", name),
                other=join_place("duel.attributes", quantity),
            )
