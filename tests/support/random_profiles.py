"""Strategies for random profiles with all types of bases, chains, entities and attributes."""

from __future__ import annotations

from hypothesis import strategies as st

from soulslab.siphon.profile import Alternative, Attribute, Base, CodeOffset, Entity, Process, Profile

SOURCE = "drawn"
#: Few different bytes, so that patterns contain, or nearly match, one another.
BYTES = ("48", "8B", "05", "C3", "0F", "??", "4?", "?B")
WILD = ["??"] * 4
#: Pointers have low offsets and values high ones, so that most profiles can be laid out; each value has its own slot.
STEPS = (0, 8, 16, 0x28, 0x80, -8, -0x40)
VALUES_AT, SLOT = 0x400, 0x40
#: The values whose offset is in the code follow after all of them.
NAMED_AT, NAMED_SLOT = 0x2000, 0x100
RANGES = {"f32": (-500.0, 500.0), "f64": (-1e9, 1e9), "u8": (0, 200), "i8": (-100, 100)}
NUMBERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64")


@st.composite
def patterns(draw):
    """Return the two characters of each byte, and the positions of the displacements."""
    parts = draw(st.lists(st.sampled_from(BYTES), min_size=3, max_size=8))
    parts.insert(draw(st.integers(0, len(parts))), draw(st.sampled_from(("48", "8B", "C3"))))
    places = []
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(parts)))
        if all(at <= place or at >= place + 4 for place in places):
            parts[at:at] = WILD
            places = [place + 4 * (place >= at) for place in places] + [at]
    return parts, places


@st.composite
def bases(draw, known):
    """Return a base; `known` has the patterns of earlier bases, some of which are reused."""
    adjust = draw(st.sampled_from((0, 0, 0x40, -16)))
    is_pointer = draw(st.booleans())
    if draw(st.integers(0, 4)) == 0:
        offset = draw(st.sampled_from((0x3000, 0x5000, 0x12340)))
        return Base(offset=offset, adjust=adjust, is_pointer=is_pointer, source=SOURCE)
    if not known or draw(st.integers(0, 3)):
        known.append((*draw(patterns()), draw(st.sampled_from((None, None, 0, 2)))))
    parts, places, picks = draw(st.sampled_from(known))
    pick = draw(st.integers(0, picks)) if picks is not None else None
    if not places:
        # After the code.
        return Base(pattern=" ".join(parts), pick=pick, adjust=0x40, is_pointer=is_pointer, source=SOURCE)
    at = draw(st.sampled_from(places))
    return Base(
        pattern=" ".join(parts),
        pick=pick,
        displacement_at=at,
        instruction_end=draw(st.integers(at + 4, len(parts))),
        adjust=adjust,
        is_pointer=is_pointer,
        source=SOURCE,
    )


@st.composite
def code_offsets(draw, index):
    """Return an offset that is stored in the code and leads to a separate slot."""
    parts, places = draw(patterns())
    if not places:
        parts, places = [*parts, *WILD], [len(parts)]
    adjust = draw(st.sampled_from((0, 0x68, -8)))
    low = NAMED_AT + NAMED_SLOT * index
    return CodeOffset(
        pattern=" ".join(parts),
        at=draw(st.sampled_from(places)),
        type=draw(st.sampled_from(("u32", "i32"))),
        adjust=adjust,
        pick=draw(st.sampled_from((None, 0, 1))),
        range=(low, low + NAMED_SLOT - SLOT),
        source=SOURCE,
    )


@st.composite
def ways(draw, starts, slot):
    """Return alternative facts of a value."""
    kind, name = draw(st.sampled_from((*starts, ("", ""))))
    chain = draw(st.lists(st.sampled_from(STEPS), max_size=2))
    return Alternative(
        **({kind: name} if kind else {}), offsets=(*chain, VALUES_AT + SLOT * slot + 0x20), source="drawn, too"
    )


@st.composite
def attributes(draw, starts, slot, named):
    """Return an attribute whose value is in a separate slot, or at an offset that is stored in the code."""
    kind, name = draw(st.sampled_from(starts))
    chain = draw(st.lists(st.sampled_from(STEPS), max_size=3))
    stored = draw(st.sampled_from((*NUMBERS, "bool", "flag", "bytes", "utf8", "utf16")))
    length, scale, bounds = 1, 1.0, None
    if stored in NUMBERS:
        length = draw(st.sampled_from((1, 1, 3)))
        scale = draw(st.sampled_from((1.0, 1.0, 0.5, 1 / 65536)))
        low, high = RANGES.get(stored, (0, 30000))
        bounds = (low * scale, high * scale)
    elif stored in ("bytes", "utf8", "utf16"):
        length = draw(st.integers(1, 24)) * 2
    return Attribute(
        **{kind: name},
        offsets=(*chain, named or VALUES_AT + SLOT * slot + draw(st.sampled_from((0, 4, 7)))),
        type=stored,
        length=length,
        bit=draw(st.integers(0, 7)) if stored == "flag" else 0,
        scale=scale,
        range=bounds,
        alternatives=tuple(draw(st.lists(ways(starts, slot), max_size=1))) if draw(st.booleans()) else (),
        source=SOURCE,
    )


@st.composite
def entities(draw, names, index):
    """Return an entity; entities of the same base may share a list."""
    at = draw(st.sampled_from((0x100, 0x100, 0x200)))
    chain = (8,) if at == 0x200 else ()
    kind = draw(st.sampled_from(("u32", "i32", "u8", "u64")))
    return Entity(
        base=draw(st.sampled_from(names)),
        begin=(*chain, at),
        end=(*chain, at + 8),
        stride=8 if at == 0x100 else 24,
        id_offsets=draw(st.sampled_from(((0x1E8,), (0x60, 0x20)))),
        id_type=kind,
        id=(index + 1) * 37,
        source=SOURCE,
    )


@st.composite
def profiles(draw):
    """Return a well-formed profile; not every one can be laid out."""
    known = []
    all_bases = {f"base{i}": draw(bases(known)) for i in range(draw(st.integers(1, 4)))}
    names = tuple(all_bases)
    all_entities = {f"entity{i}": draw(entities(names, i)) for i in range(draw(st.integers(0, 2)))}
    starts = [("base", name) for name in names] + [("entity", name) for name in all_entities]
    all_offsets = {f"offset{i}": draw(code_offsets(i)) for i in range(draw(st.integers(0, 2)))}
    named = [*all_offsets, *("" for _ in range(8))]
    drawn = [draw(attributes(starts, i, named[i])) for i in range(draw(st.integers(1, 8)))]
    # Some attributes twice, with two names.
    drawn += draw(st.lists(st.sampled_from(drawn), max_size=2))
    return Profile(
        name="drawn",
        process=Process(executable="drawn.exe", versions=("1.2.3.4",)),
        bases=all_bases,
        code_offsets=all_offsets,
        entities=all_entities,
        attributes={f"value{i}": attribute for i, attribute in enumerate(drawn)},
    )


@st.composite
def values(draw, attribute):
    """Return a value that an attribute can hold."""
    kind = attribute.type
    if kind in ("bool", "flag"):
        return draw(st.booleans())
    if kind == "bytes":
        return draw(st.binary(min_size=attribute.length, max_size=attribute.length))
    if kind in ("utf8", "utf16"):
        size = 1 if kind == "utf8" else 2
        return draw(st.text("abcXYZ09", max_size=attribute.length // size - 1))
    low, high = (round(end / attribute.scale) for end in attribute.range)
    stored = [draw(st.integers(low, high)) for _ in range(attribute.length)]
    found = [one if attribute.scale == 1.0 else one * attribute.scale for one in stored]
    return found if attribute.length > 1 else found[0]
