"""Plausible constants for attributes that the fight does not define."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from soulslab.arena.window.memory.spaces import Claim, Space
from soulslab.config.checking import join_place
from soulslab.errors import InvalidValueError, LayoutError
from soulslab.siphon.attributes.value_codecs import Codec
from soulslab.siphon.profile import NUMBER_CODES, Attribute, Profile


def constants_of(profile: Profile, spaces: Sequence[Space]) -> Iterator[tuple[Space, int, bytes]]:
    """Yield a plausible number for each position that only attributes without a quantity use.

    Text, flags and plain bytes stay 0, which is plausible.

    Raises:
        LayoutError: No number that can be stored lies in the range, or in all of several ranges.
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
