"""Layouts of resolved profiles: code offsets, versions, and variants of attributes."""

import re

import msgspec
import pytest

from soulslab.arena.window.memory.layout import synthesise
from soulslab.arena.window.memory.resolved_profile import VariantChoice
from soulslab.errors import AttributeVersionError, LayoutError
from soulslab.games import dark_souls_3, elden_ring
from soulslab.siphon.attributes.address_resolution import resolve_addresses
from soulslab.siphon.profile import Alternative, Attribute, Base, CodeOffset, Entity, load_profile
from soulslab.siphon.profile.facts import is_for, variants_of
from soulslab.siphon.profile.validation import find_mistakes
from support.laid_out import LIST, POINTER, STARTS, WORLD, attach, check_same, make, number

FLIPPER = "8B 83 ?? ?? 00 00 89 83 ?? ?? 00 00"
OLD, NEW = "2.0.0.0", "2.6.2.0"


def code_offset(bounds=(0x200, 0x300), at=2, pattern=FLIPPER, **fields):
    return CodeOffset(pattern=pattern, at=at, range=bounds, source="test", **fields)


def way(offsets=None, source="another", **fields):
    return Alternative(offsets=offsets, source=source, **fields)


@pytest.mark.parametrize("last_frame", [None, 0x264, 0x26C])
def test_the_code_holds_offsets(last_frame):
    code_offsets = {"last_frame": code_offset(), "speed": code_offset((0x268, 0x368), adjust=0x68)}
    attributes = {"frame_s": number(("last_frame",), kind="f32"), "speed": number(("speed",), kind="f32")}
    truth = VariantChoice(code_offsets={"last_frame": last_frame}) if last_frame is not None else None
    layout, memory, image, table = attach(make(attributes, code_offsets=code_offsets), truth)
    found = resolve_addresses(make(attributes, code_offsets=code_offsets), memory, image).code_offsets
    assert found["speed"] == found["last_frame"] + 0x68
    assert layout.attributes["speed"].offsets == (found["speed"],)
    assert last_frame in (None, found["last_frame"])
    table.write({"frame_s": 1.0, "speed": 2.0})
    assert table.read_many() == {"frame_s": 1.0, "speed": 2.0}
    assert table.address_of("speed") - table.address_of("frame_s") == 0x68


def test_entities_and_alternatives_are_found_by_offsets_of_the_code():
    fields = {"begin": (8, "list"), "end": (8, 0x48), "id_offsets": ("id",), "base": "world", "source": "test"}
    attributes = {
        "a": number(("list", 8), entity="boss"),
        "b": number((8, "list", 0x20), alternatives=(way((0x10, "id")),)),
    }
    code_offsets = {"list": code_offset((0x40, 0x40)), "id": code_offset((-128, -1), 3, "80 7B 8B ?? 05", type="i8")}
    profile = make(attributes, entities={"boss": Entity(id=7, **fields)}, code_offsets=code_offsets)
    for index, source in enumerate(("test", "another")):
        table = attach(profile, VariantChoice(variants={"b": index}))[3]
        table.write({"a": 3, "b": 4})
        assert table.read_many() == {"a": 3, "b": 4}
        assert table.sources == {"b": source}


def test_a_number_that_is_in_the_way_of_another_fact_is_not_taken():
    """Only 0x40 in the range is free; the other offsets hold a pointer or a number of another type."""
    attributes = {
        **{f"taken{i}": number((8 * i, 0), kind="i32") for i in range(8)},
        "free": number(("x",), kind="f64"),
        "also": number((0x48,), kind="u8"),
    }
    layout, _, _, table = attach(make(attributes, code_offsets={"x": code_offset((0, 0x44), type="u32")}))
    assert layout.attributes["free"].offsets == (0x40,)
    assert table.read("free") == 0


def test_a_fixed_part_of_the_code_is_part_of_the_number():
    code_offsets = {
        "x": code_offset((0x100, 0x1FF), pattern="8B 83 4? ?? 00 00"),
        "y": code_offset((0x100, 0x140), at=1, pattern="E8 ?? 01 00 00 C3"),
    }
    layout, _, _, table = attach(make({"a": number(("x",)), "b": number(("y",))}, code_offsets=code_offsets))
    (x,), (y,) = (layout.attributes[name].offsets for name in "ab")
    assert x & 0xF0 == 0x40
    assert 0x100 <= y <= 0x140
    assert table.read_many() == {"a": 0, "b": 0}


WAYS = {
    "its own object": way((8, 0x18, 4)),
    "another place in the same object": way((8, 0x10, 0x100)),
    "another base": way(base="game"),
    "an entity": way((0x18, 4), entity="boss"),
    "another type": way((8, 0x10, 0x100), type="u8"),
}


KINDS = [(case, kind) for case, one in WAYS.items() for kind in ("i32", "f32", "bool", "utf8", "utf16", "vector")
         if not one.type or kind == "i32"]  # fmt: skip


@pytest.mark.parametrize(("case", "kind"), KINDS)
def test_each_way_can_be_the_true_one(case, kind):
    """The other variants fail, in any order."""
    other = WAYS[case]
    value = {"bool": True, "utf8": "Margit", "utf16": "Margit", "vector": [1, 2, 3]}.get(kind, 50)
    fields = {"length": {"utf8": 16, "utf16": 32, "vector": 3}.get(kind, 1)}
    if kind in ("bool", "utf8", "utf16"):
        fields["bounds"] = None
    stored = "i32" if kind == "vector" else kind
    hp = number((8, 0x10, 8), kind=stored, alternatives=(other, way((0x20, 0), "a third")), **fields)
    beside = number((8, 0x10, 0x60), kind="i32")
    bases = {"world": WORLD, "game": Base(pattern="48 8B 0D ?? ?? ?? ?? C3", **POINTER)}
    entities = {"boss": Entity(**LIST, id=7)}
    profile = make({"hp": hp, "beside": beside}, bases, entities)
    assert not list(find_mistakes(profile))
    for index, source in enumerate(("test", "another", "a third")):
        layout, _, _, table = attach(profile, VariantChoice(variants={"hp": index}))
        table.read_many()
        assert table.sources == {"hp": source}
        assert table.address_of("hp") == STARTS[layout.places["hp"].region] + layout.places["hp"].offset
        table.write({"hp": value, "beside": 3})
        check_same(table.read("hp"), value)


def test_the_program_is_the_version_that_is_asked_for():
    attributes = {
        "hp": number((8,), versions=(NEW,), alternatives=(way((16,), versions=(OLD,)),)),
        "mp": number((12,), versions=(OLD,)),
        "sp": number((24,), "old"),
    }
    bases = {"world": WORLD, "old": Base(pattern="48 8B 0D ?? ?? ?? ?? C3", versions=(OLD,), **POINTER)}
    profile = make(attributes, bases, versions=(NEW, OLD))
    layout, _, image, table = attach(profile)
    assert (image.version, set(table.read_many()), set(layout.places)) == (NEW, {"hp"}, {"hp"})
    with pytest.raises(AttributeVersionError):
        table.read("mp")
    layout, _, image, table = attach(profile, VariantChoice(version=OLD))
    assert (image.version, set(table.read_many())) == (OLD, {"hp", "mp", "sp"})
    assert layout.attributes["hp"].offsets == (16,)
    assert table.sources == {}


REAL = [msgspec.structs.replace(load_profile(one.PROFILE_PATH), duel=None) for one in (dark_souls_3, elden_ring)]


@pytest.mark.parametrize("profile", REAL, ids=lambda profile: profile.name)
def test_each_version_of_a_real_game_can_be_laid_out(profile):
    for version in profile.process.versions:
        layout, _, image, table = attach(profile, VariantChoice(version=version))
        assert image.version == version
        assert set(table.read_many()) == set(layout.places)
        assert all(table.sources.values())


@pytest.mark.parametrize("profile", REAL, ids=lambda profile: profile.name)
def test_each_variant_of_a_real_profile_can_be_chosen(profile):
    """Except for variants whose predecessors cannot fail, because every bit is a valid flag."""
    n_told = 0
    version = profile.process.versions[0]
    for name, attribute in profile.attributes.items():
        ways = [(index, one) for index, one in enumerate(variants_of(attribute)) if is_for(profile, one, version)]
        for index, one in ways[1:]:
            try:
                table = attach(profile, VariantChoice(variants={name: index}))[3]
            except LayoutError as error:
                assert re.search("it cannot be made to fail|an invalid value", str(error))
                continue
            table.read(name)
            assert table.sources[name] == one.source
            n_told += 1
    assert n_told >= 3


OPEN = {
    "no such version": (
        make({"a": number((8,))}, versions=(NEW,)),
        VariantChoice(version="1.0"),
        "process.versions",
        "",
    ),
    "no such attribute": (make({"a": number((8,))}), VariantChoice(variants={"b": 0}), "attributes.b", ""),
    "no such way": (make({"a": number((8,))}), VariantChoice(variants={"a": 1}), "attributes.a", ""),
    "no such code offset": (make({"a": number((8,))}), VariantChoice(code_offsets={"x": 1}), "code_offsets.x", ""),
    "a way for another version": (
        make({"a": number((8,), alternatives=(way((4,), versions=(OLD,)),))}, versions=(NEW, OLD)),
        VariantChoice(variants={"a": 1}),
        "attributes.a.alternatives[0]",
        "",
    ),
    "a fight in what the version lacks": (
        make({"a": number((8,), versions=(OLD,))}, duel={"attributes": {"player.hp": "a"}}, versions=(NEW, OLD)),
        None,
        "attributes.a",
        'duel.attributes."player.hp"',
    ),
    "a number out of its range": (
        make({"a": number(("x",))}, code_offsets={"x": code_offset()}),
        VariantChoice(code_offsets={"x": 0x400}),
        "code_offsets.x.range",
        "code_offsets.x",
    ),
    "two numbers in one place": (
        make({"a": number(("x",))}, code_offsets={"x": code_offset((1, 5)), "y": code_offset((6, 9))}),
        None,
        "code_offsets.x.range",
        "code_offsets.y",
    ),
    "a number where a displacement is": (
        make(
            {"a": number(("x",))},
            code_offsets={"x": code_offset((0, 255), 5, WORLD.pattern, type="u8")},
        ),
        None,
        "bases.world",
        "bases.world",
    ),
    "a flag that is wrong": (
        make({"a": Attribute(base="world", offsets=(8,), type="flag", source="test", alternatives=(way(bit=3),))}),
        VariantChoice(variants={"a": 1}),
        "attributes.a",
        "",
    ),
    "a whole range that is wrong": (
        make({"a": number((8,), kind="u8", bounds=(0, 255), alternatives=(way((9,)),))}),
        VariantChoice(variants={"a": 1}),
        "attributes.a",
        "",
    ),
    "a true value where another is wrong": (
        make({"a": number((8,), alternatives=(way((4,)),)), "b": number((8,))}),
        VariantChoice(variants={"a": 1}),
        "attributes.a",
        "attributes.b",
    ),
}


@pytest.mark.parametrize("case", OPEN)
def test_an_impossible_choice_is_reported_with_its_places(case):
    profile, truth, place, other = OPEN[case]
    with pytest.raises(LayoutError) as error:
        synthesise(profile, truth)
    assert (error.value.place, error.value.other) == (place, other)
    assert str(error.value).startswith(f"{place}: ")


def test_a_variant_that_is_never_tried_may_also_succeed():
    """The variant of the attribute itself succeeds, whatever the other variants are."""
    profile = make({"a": number((8,), alternatives=(way((12,)),)), "b": number((12,))})
    table = attach(profile)[3]
    assert table.read_many() == {"a": 0, "b": 0}
    assert table.sources == {"a": "test"}
