"""Validation of profiles beyond their types: each error with its place and a remedy."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping

from soulslab.config.checking import join_place, short
from soulslab.errors import ProfileError, did_you_mean
from soulslab.siphon.pad import CONTROLS
from soulslab.siphon.profile.facts import Fact, facts_behind, place_of, stated_versions, variants_of, versions_of
from soulslab.siphon.profile.pattern import Pattern
from soulslab.siphon.profile.schema import (
    NUMBER_CODES,
    Attribute,
    Base,
    ClockFacts,
    CodeOffset,
    Entity,
    Process,
    Profile,
)

Mistake = tuple[str, str]
"""Problem and place of an error in a profile."""

N_DISPLACEMENT = 4
#: Ranges are written with few digits, so they may exceed the limits of the type by this relative amount.
TOLERANCE = 1e-9

#: Attributes of the clock, and what one that is written cannot do if it is not writable.
_CLOCK_ATTRIBUTES = {
    "tick_attribute": "",
    "speed_attribute": "cannot change the game's speed",
    "game_time_attribute": "",
    "frame_rate_attribute": "cannot raise the game's frame rate",
    "frame_time_attribute": "",
    "frame_rate_flag": "puts no cap in force",
}

_FLOATS = {"f32": struct.unpack("<f", b"\xff\xff\x7f\x7f")[0], "f64": 1.7976931348623157e308}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_OPTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FILLED_IN = re.compile(r"\{([^{}]*)\}")
#: Placeholders that `soulslab.siphon.process.launch` fills in by itself.
_KNOWN_OPTIONS = ("directory",)


def representable(kind: str, scale: float = 1.0) -> tuple[float, float]:
    """Return the smallest and largest value of a type of number, after `scale`."""
    if kind in _FLOATS:
        low, high = -_FLOATS[kind], _FLOATS[kind]
    else:
        n_bits = int(kind[1:])
        low, high = (0, 2**n_bits - 1) if kind[0] == "u" else (-(2 ** (n_bits - 1)), 2 ** (n_bits - 1) - 1)
    ends = sorted((low * scale, high * scale))
    return float(ends[0]), float(ends[1])


def find_mistakes(profile: Profile) -> Iterator[Mistake]:
    """Yield all errors of a profile with correct types."""
    for table in ("bases", "code_offsets", "entities", "attributes", "keys", "pad"):
        yield from _name_mistakes(table, getattr(profile, table))
    yield from _process_mistakes(profile.process)
    for name, base in profile.bases.items():
        yield from _base_mistakes(join_place("bases", name), base)
    for name, code_offset in profile.code_offsets.items():
        yield from code_offset_mistakes(join_place("code_offsets", name), code_offset)
    for name, entity in profile.entities.items():
        yield from _entity_mistakes(name, entity, profile)
    for name, attribute in profile.attributes.items():
        yield from _attribute_mistakes(name, attribute, profile)
    yield from version_mistakes(profile)
    yield from _clock_mistakes(profile.clock, profile.attributes)
    yield from _key_mistakes(profile.keys, profile.pad)


def _name_mistakes(table: str, names: Iterable[str]) -> Iterator[Mistake]:
    for name in names:
        if not _NAME.fullmatch(name):
            yield (
                "is not a name: it starts with a letter or '_', and has only letters, digits, '_', '.' and '-'",
                join_place(table, name),
            )


def _process_mistakes(process: Process) -> Iterator[Mistake]:
    if "/" in process.executable or "\\" in process.executable:
        yield f"{short(process.executable)} is a path; give the file name alone", "process.executable"
    if process.command and not process.command[0]:
        yield "is empty; the first part of a command is the program", "process.command[0]"
    for name in process.options:
        if not _OPTION.fullmatch(name) or name in _KNOWN_OPTIONS:
            yield (
                "cannot be the name of an option: letters, digits and '_' only, and not 'directory'",
                join_place("process.options", name),
            )
    for name in process.environment:
        if not name or "=" in name or "\0" in name:
            yield "is not a name of an environment variable", join_place("process.environment", name)
    known = (*process.options, *_KNOWN_OPTIONS)
    for place, text in _process_texts(process):
        if "\0" in text:
            yield "holds a zero character, which no system takes", place
        for name in _FILLED_IN.findall(text):
            if name not in known and place.startswith(("process.command", "process.environment")):
                yield f"{{{name}}} is not one of process.options{did_you_mean(name, known)}", place


def _process_texts(process: Process) -> Iterator[tuple[str, str]]:
    """Yield the texts that are passed to the operating system, with their places."""
    yield "process.executable", process.executable
    yield "process.directory", process.directory
    for index, text in enumerate(process.command):
        yield f"process.command[{index}]", text
    for table in ("environment", "options"):
        for name, text in getattr(process, table).items():
            yield join_place(f"process.{table}", name), text


def _base_mistakes(place: str, base: Base) -> Iterator[Mistake]:
    if bool(base.pattern) == (base.offset is not None):
        yield "needs either a pattern or an offset" + (", not both" if base.pattern else ""), place
        return
    if not base.pattern:
        for name in ("displacement_at", "instruction_end", "pick"):
            if getattr(base, name) is not None:
                yield "belongs to a pattern, and this base has an offset", f"{place}.{name}"
        return
    if base.module:
        yield "belongs to an offset; patterns are searched in the executable itself", f"{place}.module"
    try:
        pattern = Pattern.parse(base.pattern)
    except ProfileError as error:
        yield error.problem, f"{place}.pattern"
    else:
        yield from _displacement_mistakes(place, base, pattern)


def _displacement_mistakes(place: str, base: Base, pattern: Pattern) -> Iterator[Mistake]:
    at, end = base.displacement_at, base.instruction_end
    if at is None and end is None:
        return
    if at is None or end is None:
        missing, given = ("displacement_at", "instruction_end")[:: -1 if at is not None else 1]
        yield f"is missing; {given} needs it", f"{place}.{missing}"
    elif pattern.masks[at : at + N_DISPLACEMENT] != bytes(N_DISPLACEMENT):
        yield (
            f"must be the position of 4 bytes '??' of the pattern, counted from 0; at {at} it has "
            f"{str(pattern)[3 * at : 3 * (at + N_DISPLACEMENT) - 1] or 'nothing'!r}",
            f"{place}.displacement_at",
        )
    elif not at + N_DISPLACEMENT <= end <= len(pattern):
        yield (
            f"must lie from {at + N_DISPLACEMENT}, behind the displacement, to {len(pattern)}, the pattern's end; "
            f"got {end}",
            f"{place}.instruction_end",
        )


def _entity_mistakes(name: str, entity: Entity, profile: Profile) -> Iterator[Mistake]:
    place = join_place("entities", name)
    lists = [(variant.begin, variant.end, variant.versions) for variant in variants_of(entity)]
    for index, variant in enumerate(lists):
        if variant in lists[:index]:
            problem = "says the same as the entity or an alternative before it; leave it out"
            yield problem, place_of(name, index, "entities")
    yield from offset_mistakes(place, entity, profile)
    if entity.base not in profile.bases:
        yield unknown("base", entity.base, profile.bases), f"{place}.base"
    if entity.id_type in _FLOATS:
        yield f"is {entity.id_type!r}; an id is a whole number", f"{place}.id_type"
        return
    low, high = representable(entity.id_type)
    if not low <= entity.id <= high:
        yield f"is {entity.id}, which a {entity.id_type} cannot hold ({low:.0f} to {high:.0f})", f"{place}.id"


def _attribute_mistakes(name: str, attribute: Attribute, profile: Profile) -> Iterator[Mistake]:
    yield from alternative_mistakes(name, attribute)
    for index, variant in enumerate(variants_of(attribute)):
        place = place_of(name, index)
        yield from _start_mistakes(place, variant, profile)
        yield from offset_mistakes(place, variant, profile)
        yield from _shape_mistakes(place, variant)
        for problem, at in _range_mistakes(place, variant):
            # An alternative has no range, so its type or scale is wrong.
            yield (problem, at) if index == 0 else (f"the attribute's range {problem}", f"{place}.type")
    if attribute.is_moving and attribute.is_holding:
        yield (
            "it cannot be moving and holding; a self-check looks for one of the two",
            f"{place_of(name, 0)}.is_holding",
        )


def _start_mistakes(place: str, attribute: Attribute, profile: Profile) -> Iterator[Mistake]:
    if bool(attribute.base) == bool(attribute.entity):
        yield "needs either a base or an entity to start from" + (", not both" if attribute.base else ""), place
        return
    for kind, name, known in (("base", attribute.base, profile.bases), ("entity", attribute.entity, profile.entities)):
        if name and name not in known:
            yield unknown(kind, name, known), f"{place}.{kind}"


def _shape_mistakes(place: str, attribute: Attribute) -> Iterator[Mistake]:
    kind = attribute.type
    if kind in ("bool", "flag") and attribute.length != 1:
        yield f"a {kind} has no length", f"{place}.length"
    if kind == "utf8" and attribute.length == 1:
        yield "set the most bytes that the text takes", f"{place}.length"
    if kind == "utf16" and attribute.length % 2:
        yield f"must be even, as a character of utf16 has 2 bytes; got {attribute.length}", f"{place}.length"
    if kind != "flag" and attribute.bit:
        yield f"only a flag has a bit, and this is a {kind}", f"{place}.bit"
    if attribute.scale == 1.0:
        return
    if not is_number(attribute):
        yield f"only numbers have a scale, and this is {kind}", f"{place}.scale"
    elif not math.isfinite(attribute.scale) or not attribute.scale:
        yield f"must be a finite number other than 0, got {attribute.scale}", f"{place}.scale"


def _range_mistakes(place: str, attribute: Attribute) -> Iterator[Mistake]:
    place = f"{place}.range"
    if not is_number(attribute):
        if attribute.range is not None:
            yield f"only numbers have a range, and this is {attribute.type}", place
        return
    if attribute.range is None:
        yield "is missing; give the least and the greatest plausible value, so that a wrong address is noticed", place
        return
    for index, end in enumerate(attribute.range):
        if not math.isfinite(end):
            yield f"must be a finite number, got {end}", f"{place}[{index}]"
            return
    limits = representable(attribute.type, attribute.scale)
    scaled = "" if attribute.scale == 1.0 else f" times {attribute.scale:g}"
    yield from _limit_mistakes(place, attribute.range, limits, f"{attribute.type}{scaled}", TOLERANCE)


def _limit_mistakes(
    place: str, bounds: tuple[float, float], limits: tuple[float, float], what: str, tolerance: float = 0
) -> Iterator[Mistake]:
    """Yield the ends of a range that a type cannot represent, except for a relative tolerance."""
    (low, high), (least, greatest) = bounds, limits
    if low > high:
        yield f"{low:.10g} is greater than {high:.10g}", place
        return
    slack = tolerance and tolerance * max(abs(least), abs(greatest))
    for index, fits in enumerate((low >= least - slack, high <= greatest + slack)):
        if not fits:
            yield (
                f"is {bounds[index]:.10g}, which a {what} cannot be ({least:.10g} to {greatest:.10g})",
                f"{place}[{index}]",
            )


def is_number(attribute: Attribute) -> bool:
    """Return whether an attribute is a number or a vector of numbers."""
    return attribute.type in _FLOATS or attribute.type[1:].isdigit()


def _clock_mistakes(clock: ClockFacts, attributes: Mapping[str, Attribute]) -> Iterator[Mistake]:
    for field in _CLOCK_ATTRIBUTES:
        name = getattr(clock, field)
        if name and name not in attributes:
            yield unknown("attribute", name, attributes), f"clock.{field}"
        elif name and (problem := _clock_attribute_problem(field, attributes[name])):
            yield f"{name} {problem}", f"clock.{field}"
    if clock.frame_rate_attribute and not clock.frame_rate_hz:
        yield "is missing; a cap is raised from the game's own frame rate", "clock.frame_rate_hz"
    if clock.frame_rate_flag and not clock.frame_rate_attribute:
        yield "is missing; the flag puts it in force", "clock.frame_rate_attribute"
    if clock.grade == "scaled" and not clock.speed_attribute:
        yield "is missing; the grade 'scaled' needs it", "clock.speed_attribute"
    for field in ("tick_hz", "game_time_s", "catch_up_s", "frame_rate_hz", "max_frame_s"):
        if not math.isfinite(getattr(clock, field)):
            yield "must be a finite number", f"clock.{field}"
    # Tolerate a rounded 1/60.
    if 0.0 < clock.catch_up_s < 0.99 / (clock.tick_hz or math.inf):
        yield (
            f"is shorter than a step of the game's simulation (1/{clock.tick_hz:g} s); leave it out",
            "clock.catch_up_s",
        )


def _clock_attribute_problem(field: str, attribute: Attribute) -> str:
    """Return why an attribute cannot have a task of the clock; "" if it can."""
    variants = variants_of(attribute)
    is_flag = field == "frame_rate_flag"
    if is_flag and attribute.type not in ("bool", "flag"):
        return "must be a bool or a flag"
    if not is_flag and (not is_number(attribute) or attribute.length != 1):
        return "is not a single number"
    if field == "tick_attribute" and any(variant.type in _FLOATS or variant.scale != 1.0 for variant in variants):
        return "must be a whole number, with no scale, that counts the steps of the simulation"
    if field == "speed_attribute" and any(variant.type not in _FLOATS for variant in variants):
        return "must be an f32 or f64, the factor of the game's speed"
    purpose = _CLOCK_ATTRIBUTES[field]
    return f"is not writable, so it {purpose}" if purpose and not attribute.is_writable else ""


def _key_mistakes(keys: Mapping[str, str], pad: Mapping[str, str]) -> Iterator[Mistake]:
    from soulslab.siphon.keys import KEYS  # noqa: PLC0415  (the table is built only when there are keys to check)

    for action, key in keys.items():
        if key not in KEYS:
            yield unknown("key", key, KEYS), join_place("keys", action)
    for action, control in pad.items():
        if control not in CONTROLS:
            yield unknown("control", control, CONTROLS), join_place("pad", action)
        if action not in keys:
            problem = f"{unknown('action', action, keys)}; an action of [pad] needs a key in [keys]"
            yield problem, join_place("pad", action)


def unknown(kind: str, name: str, known: Collection[str]) -> str:
    """Return the problem of an undefined name."""
    return f"unknown {kind} {short(name)}{did_you_mean(name, known) if known else '; the profile has none'}"


def code_offset_mistakes(place: str, fact: CodeOffset) -> Iterator[Mistake]:
    """Yield the errors of a code offset."""
    size = int(fact.type[1:]) // 8
    try:
        pattern = Pattern.parse(fact.pattern)
    except ProfileError as error:
        yield error.problem, f"{place}.pattern"
    else:
        if fact.at + size > len(pattern):
            yield (
                f"must be the position of the {size} bytes of the number, counted from 0; at {fact.at} the pattern of "
                f"{len(pattern)} bytes has too few of them",
                f"{place}.at",
            )
        elif all(mask == 0xFF for mask in pattern.masks[fact.at : fact.at + size]):
            yield f"the pattern fixes all {size} bytes of the number at {fact.at}, so it cannot differ", f"{place}.at"
    least, greatest = (int(limit) + fact.adjust for limit in representable(fact.type))
    adjusted = f" and {fact.adjust:+d}" if fact.adjust else ""
    yield from _limit_mistakes(f"{place}.range", fact.range, (least, greatest), f"{fact.type}{adjusted}")


def offset_mistakes(place: str, fact: Attribute | Entity, profile: Profile) -> Iterator[Mistake]:
    """Yield the names in offsets of an attribute or entity that are not code offsets."""
    for field in ("offsets", "begin", "end", "id_offsets"):
        for index, offset in enumerate(getattr(fact, field, ())):
            if isinstance(offset, str) and offset not in profile.code_offsets:
                problem = unknown("code offset", offset, profile.code_offsets)
                yield f"{problem}; a number stands without quotes", f"{place}.{field}[{index}]"


def version_mistakes(profile: Profile) -> Iterator[Mistake]:
    """Yield unknown versions of facts, and facts that apply to no version."""
    for table in ("bases", "code_offsets", "entities", "attributes"):
        facts: dict[str, Fact] = getattr(profile, table)
        for name, fact in facts.items():
            for index, variant in enumerate(variants_of(fact)):
                yield from _version_mistakes(place_of(name, index, table), variant, profile)


def alternative_mistakes(name: str, attribute: Attribute) -> Iterator[Mistake]:
    """Yield alternatives with two starts, with a different kind of value, or equal to an earlier definition."""
    variants = variants_of(attribute)
    for index, (other, variant) in enumerate(zip(attribute.alternatives, variants[1:], strict=True), start=1):
        place = place_of(name, index)
        if other.base and other.entity:
            yield "needs either a base or an entity to start from, not both", place
        if _kind(variant) != _kind(variants[0]):
            kinds = f"gives a {_kind(variant)}, and the attribute itself a {_kind(variants[0])}"
            yield f"{kinds}; both have to give the same kind of value", f"{place}.type"
        if any(_variant(variant) == _variant(before) for before in variants[:index]):
            yield "says the same as the attribute or an alternative before it; leave it out", place


def _version_mistakes(place: str, variant: Fact, profile: Profile) -> Iterator[Mistake]:
    known = profile.process.versions
    for index, version in enumerate(variant.versions):
        if version not in known:
            problem = f"{short(version)} is not one of process.versions{did_you_mean(version, known) if known else ''}"
            yield problem, f"{place}.versions[{index}]"
            return
    if known and not versions_of(profile, variant):
        needed = [f"{of or place} for {', '.join(stated)}" for of, fact in facts_behind(profile, variant)
                  if (stated := stated_versions(fact))]  # fmt: skip
        yield f"no version has all the facts that it needs: {'; '.join(needed)}", place


def _kind(variant: Attribute) -> str:
    if variant.type in NUMBER_CODES:
        return "whole number" if variant.type[0] != "f" and variant.scale == 1.0 else "fraction"
    return {"flag": "bool", "utf8": "text", "utf16": "text"}.get(variant.type, variant.type)


def _variant(variant: Attribute) -> tuple[object, ...]:
    """Return the fields that distinguish a variant from others."""
    return variant.base, variant.entity, variant.offsets, variant.type, variant.bit, variant.scale, variant.versions
