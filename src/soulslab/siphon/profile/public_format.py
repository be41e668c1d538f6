"""The public Siphon profile format (the TOML that pysiphon 1.2.0 sends to its server), converted to ours.

::

    [process_info]
    name = "eldenring.exe"
    window_name = "ELDEN RING"

    [attributes.HeroHp]
    pattern = "48 8B 05 ?? ?? ?? ?? 48 85 C0 74 0F 48 39 88"
    offsets = [0x10EF8, 0x0, 0x190, 0x0, 0x138]
    type = "int"

Missing details are filled in as the public server does: the first wildcard of the pattern is the displacement of an
instruction of 7 bytes, whose pointer is followed; of several matches the first one counts. The format has no plausible
ranges, so every value of the type is plausible.

Attributes with ``method = "dll"`` start from an object that the public server finds by injecting a library into the
game. soulslab injects nothing: these attributes are kept in `PublicProfile.injected`, and `resolve_injected` starts
them from an entity of one of our profiles for the same game.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from soulslab.config.checking import check, join_place
from soulslab.errors import ProfileError, did_you_mean
from soulslab.siphon.profile.facts import names_in
from soulslab.siphon.profile.pattern import Pattern
from soulslab.siphon.profile.schema import Attribute, Base, Offset, Process, Profile, ValueType
from soulslab.siphon.profile.validation import representable

SOURCE = "public Siphon profile"
#: Entity that represents the locked-on enemy, in a profile with several entities.
TARGET_ENTITY = "target"
INSTRUCTION_END = 7
WHOLE_BYTE = 0xFF

_TYPES: dict[str, ValueType] = {"int": "i32", "float": "f32", "bool": "bool", "array": "bytes"}
_TABLES = ("process_info", "attributes")


_log = logging.getLogger(__name__)


class _ProcessInfo(msgspec.Struct, frozen=True):
    """The table ``[process_info]``."""

    name: Annotated[str, Meta(min_length=1)]
    window_name: str = ""


class PublicAttribute(msgspec.Struct, frozen=True, kw_only=True):
    """An attribute as a public profile defines it.

    Attributes:
        pattern: Bytes of code that refer to the first address, with wildcards; "" with ``method = "dll"``.
        offsets: As in `Attribute`; an empty list is the same as a single 0.
        type: Type of the value; ``int`` and ``float`` have 4 bytes.
        length: Number of bytes of an ``array``.
        method: How the first address is found: by the pattern, or by an injected library (``dll``).
        mask: Bits of a ``bool`` that count; 0xFF for all. Clients before 1.2.0 send no mask, which arrives as 0.
    """

    pattern: str = ""
    offsets: tuple[Offset, ...] = ()
    type: Literal["int", "float", "bool", "array"]
    length: Annotated[int, Meta(ge=0, le=65536)] = 0
    method: Literal["", "dll"] = ""
    mask: Annotated[int, Meta(ge=0, le=0xFF)] = WHOLE_BYTE


class _PublicFile(msgspec.Struct, frozen=True):
    """All tables of the file."""

    process_info: _ProcessInfo
    attributes: dict[str, PublicAttribute]


class PublicProfile(msgspec.Struct, frozen=True):
    """A public profile, converted to ours.

    Attributes:
        profile: The game with all attributes that need only memory access.
        injected: The other attributes (``method = "dll"``), by name. Reading one of them is an error, unless
            `resolve_injected` has added an entity.
    """

    profile: Profile
    injected: dict[str, PublicAttribute]


def is_public(data: Mapping[str, Any]) -> bool:
    """Return whether tables have the public format."""
    return "process_info" in data


def from_public(data: Mapping[str, Any], source: str) -> PublicProfile:
    """Convert a public profile, read from TOML or rebuilt from a ``SetProcessConfigRequest``.

    Raises `ProfileError` with the source if the tables are malformed; ``error.path`` is the place of the error.
    """

    def error(problem: str, place: str) -> ProfileError:
        return ProfileError(problem, path=place, source=source)

    public = check(_without_unknown(data, error), _PublicFile, error)
    bases: dict[str, Base] = {}
    names: dict[str, str] = {}
    attributes: dict[str, Attribute] = {}
    injected: dict[str, PublicAttribute] = {}
    for name, attribute in public.attributes.items():
        try:
            if attribute.method == "dll":
                _attribute(attribute, entity=TARGET_ENTITY)
                injected[name] = attribute
                continue
            base = _base(attribute.pattern)
            of = names.setdefault(base.pattern, f"pattern_{len(names) + 1}")
            bases[of] = base
            attributes[name] = _attribute(attribute, base=of)
        except ProfileError as mistake:
            raise error(mistake.problem, f"{join_place('attributes', name)}.{mistake.path}") from mistake
    info = public.process_info
    profile = Profile(
        name=info.window_name or info.name,
        process=Process(executable=info.name, window_title=info.window_name),
        bases=bases,
        attributes=attributes,
    )
    return PublicProfile(profile, injected)


def resolve_injected(public: PublicProfile, known: Profile) -> Profile:
    """Return the profile with all attributes; those that need an entity start from one of our profile `known`.

    In a known profile, the entity ``target`` represents the locked-on enemy; a single entity does so under any name.
    The facts and versions that the attributes need are taken from it. Raises `ProfileError` if it has no such entity.
    """
    if not public.injected:
        return public.profile
    entity = next(iter(known.entities)) if len(known.entities) == 1 else TARGET_ENTITY
    if entity not in known.entities:
        raise ProfileError(
            f"the attributes {', '.join(public.injected)} start from the locked-on enemy, and the profile "
            f"{known.name!r} has no entity {TARGET_ENTITY!r}{did_you_mean(TARGET_ENTITY, known.entities)}",
            path="entities",
            source=known.name,
        )
    # Names of bases in a public profile have no dot.
    found = known.entities[entity]
    base = f"known.{found.base}"
    profile = public.profile
    return msgspec.structs.replace(
        profile,
        # A public profile has no versions; the facts from ours are for some versions only.
        process=msgspec.structs.replace(profile.process, versions=known.process.versions),
        bases={**profile.bases, base: known.bases[found.base]},
        code_offsets={name: known.code_offsets[name] for name in names_in(found)},
        entities={entity: msgspec.structs.replace(found, base=base)},
        attributes={
            **profile.attributes,
            **{name: _attribute(attribute, entity=entity) for name, attribute in public.injected.items()},
        },
    )


def _without_unknown(data: Mapping[str, Any], error: Callable[[str, str], ProfileError]) -> dict[str, Any]:
    """Return the known tables, with offsets as signed numbers.

    The public reader ignores unknown settings. They are ignored here too, with a warning; a likely misspelling is an
    error.
    """
    known = {field.name for field in msgspec.structs.fields(PublicAttribute)}
    tables = {name: data[name] for name in _TABLES if name in data}
    if not isinstance(tables.get("attributes"), dict):
        return tables
    attributes: dict[Any, Any] = {}
    for name, attribute in tables["attributes"].items():
        if not isinstance(attribute, dict):
            _log.warning("attributes.%s is not a table and is ignored", name)
            continue
        for key in (key for key in attribute if key not in known):
            if isinstance(key, str) and get_close_matches(key, known, n=1):
                raise error(
                    f"unknown setting{did_you_mean(key, known)}", join_place(join_place("attributes", str(name)), key)
                )
            _log.warning("attributes.%s.%s is unknown and is ignored", name, key)
        attributes[name] = {key: attribute[key] for key in attribute if key in known}
        if isinstance(attribute.get("offsets"), list | tuple):
            attributes[name]["offsets"] = [_signed(offset) for offset in attribute["offsets"]]
    return {**tables, "attributes": attributes}


def _signed(offset: Any) -> Any:
    """Return an offset as a signed number; negative offsets arrive as uint64 above 2**63."""
    return offset - 2**64 if isinstance(offset, int) and 2**63 <= offset < 2**64 else offset


def _base(text: str) -> Base:
    try:
        pattern = Pattern.parse(text)
    except ProfileError as error:
        raise ProfileError(error.problem, path="pattern") from error
    wildcard = pattern.masks.find(0)
    if wildcard < 0:
        raise ProfileError("has no '??', so it says not where the displacement is", path="pattern")
    return Base(
        pattern=str(pattern),
        displacement_at=wildcard,
        instruction_end=INSTRUCTION_END,
        pick=0,
        is_pointer=True,
        source=SOURCE,
    )


def _attribute(public: PublicAttribute, *, base: str = "", entity: str = "") -> Attribute:
    kind, bit = _TYPES[public.type], 0
    mask = public.mask or WHOLE_BYTE
    if mask != WHOLE_BYTE:
        if public.type != "bool" or mask & (mask - 1):
            raise ProfileError(f"is {mask:#x}; a bool may have a mask of one bit, other types have none", path="mask")
        kind, bit = "flag", mask.bit_length() - 1
    if kind == "bytes" and not public.length:
        raise ProfileError("is missing; an array needs the number of its bytes", path="length")
    return Attribute(
        base=base,
        entity=entity,
        offsets=public.offsets or (0,),
        type=kind,
        length=public.length if kind == "bytes" else 1,
        bit=bit,
        range=representable(kind) if kind in ("i32", "f32") else None,
        source=SOURCE,
    )
