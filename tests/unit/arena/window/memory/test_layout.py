"""Memory layouts: for any profile, the bridge finds every attribute at its position."""

import re

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from soulslab.arena.window.memory.layout import FIGHT, LASTING, PROGRAM, synthesise
from soulslab.arena.window.memory.resolved_profile import VariantChoice
from soulslab.errors import EntityNotFoundError, LayoutError
from soulslab.siphon.attributes.address_resolution import resolve_addresses
from soulslab.siphon.attributes.attribute_table import AttributeTable
from soulslab.siphon.attributes.pattern_scan import scan
from soulslab.siphon.profile import Attribute, Base, CodeOffset, Entity
from soulslab.siphon.profile.facts import variants_of
from soulslab.siphon.profile.pattern import Pattern
from soulslab.siphon.profile.validation import find_mistakes
from support.laid_out import LIST, POINTER, STARTS, WORLD, attach, check_same, lay_out, make, number
from support.long_form import examples
from support.random_profiles import profiles, values


@given(profiles(), st.data())
@settings(
    max_examples=examples(50, in_long_form=6000),
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
def test_quantities_of_a_random_profile_can_be_read_and_written(profile, data):
    assume(not list(find_mistakes(profile)))
    true = {name: data.draw(st.integers(0, len(one.alternatives))) for name, one in profile.attributes.items()}
    try:
        layout, _, _, table = attach(profile, VariantChoice(variants=true))
    except LayoutError as error:
        assert re.match(r"bases|attributes|entities|code_offsets", error.place)
        assume(False)
    found = table.read_many()
    assert set(found) == set(profile.attributes)
    assert table.sources == {
        name: variants_of(one)[true[name]].source for name, one in profile.attributes.items() if one.alternatives
    }
    for name, place in layout.places.items():
        assert table.address_of(name) == STARTS[place.region] + place.offset
    written = {name: data.draw(values(attribute)) for name, attribute in profile.attributes.items()}
    # Two names for one thing hold what was written last.
    by_place = {place: name for name, place in layout.places.items()}
    table.write(written)
    found = table.read_many()
    for name, place in layout.places.items():
        check_same(found[name], written[by_place[place]], name)


def test_each_pattern_matches_as_often_as_its_bases_pick():
    strong, weak = "48 8B 05 ?? ?? ?? ?? C3", "8B ??"
    bases = {
        "third": Base(pattern=strong, pick=2, **POINTER),
        "first": Base(pattern=strong, pick=0, **POINTER),
        "weak": Base(pattern=weak, pick=3, adjust=0x40, source="test"),
    }
    profile = make({name: number((8,), base=name) for name in bases}, bases)
    _, memory, image, table = attach(profile)
    code = [(one.start, one.start + one.size) for one in image.sections if one.is_executable]
    assert len(scan({"": Pattern.parse(strong)}, memory, code)[""]) == 3
    assert len(scan({"": Pattern.parse(weak)}, memory, code)[""]) == 4
    assert len({table.address_of(name) for name in bases}) == 3


def test_a_match_that_is_passed_over_has_room_for_the_wildcards_of_the_pattern():
    # The first match is also the base, whose pattern is shorter, and nothing else keeps the memory behind it.
    bases = {"world": Base(pattern="C3 48 48 48", pick=0, adjust=0x40, source="test")}
    pattern = "C3 48 48 48 ?? ?? ?? ??"
    speed = CodeOffset(pattern=pattern, at=4, pick=1, range=(0x2000, 0x20C0), source="test")
    profile = make({"a": number(("speed",))}, bases, code_offsets={"speed": speed})
    _, memory, image, _ = attach(profile)
    code = [(one.start, one.start + one.size) for one in image.sections if one.is_executable]
    assert len(scan({"": Pattern.parse(pattern)}, memory, code)[""]) == 2


def test_a_pattern_within_another_is_found_there():
    bases = {
        "outer": Base(pattern="48 8B 05 ?? ?? ?? ?? 48 85 C0 74", **POINTER),
        "inner": Base(pattern="48 85 C0", adjust=0x100, source="test"),
    }
    layout, _, _, table = attach(make({"a": number((0,), "outer"), "b": number((0,), "inner")}, bases))
    assert table.address_of("b") == STARTS[PROGRAM] + layout.places["b"].offset
    assert sum(section.name.startswith(".text") for section in layout.sections) == 1


def test_a_single_byte_can_be_unique():
    bases = {"world": Base(pattern="48", adjust=0x40, source="test")}
    _, memory, image, _ = attach(make({"a": number((0,))}, bases))
    code = [(one.start, one.start + one.size) for one in image.sections if one.is_executable]
    assert len(scan({"": Pattern.parse("48")}, memory, code)[""]) == 1


def test_one_pattern_may_hold_two_displacements():
    pattern = "4C 8D 05 ?? ?? ?? ?? 48 8D 15 ?? ?? ?? ?? C3"
    bases = {
        "first": Base(pattern=pattern, displacement_at=3, instruction_end=7, source="test"),
        "second": Base(pattern=pattern, displacement_at=10, instruction_end=14, adjust=-2, source="test"),
        "moved": Base(pattern=pattern, displacement_at=3, instruction_end=8, adjust=15, source="test"),
    }
    _, _, _, table = attach(make({name: number((4,), base=name) for name in bases}, bases))
    assert table.address_of("moved") == table.address_of("first") + 16
    assert abs(table.address_of("second") - table.address_of("first")) > 8


def test_an_immediate_may_follow_the_displacement():
    base = Base(pattern="80 3D ?? ?? ?? ?? 00 0F 85", displacement_at=2, instruction_end=7, source="test")
    layout, _, _, table = attach(make({"a": number((0x10,))}, {"world": base}))
    assert table.address_of("a") == STARTS[PROGRAM] + layout.places["a"].offset


def test_offsets_from_the_program_lie_where_they_say():
    bases = {"world": Base(offset=0x4796298, is_pointer=True, source="test"), "code": WORLD}
    layout, memory, image, table = attach(make({"a": number((0x10, 0x568)), "b": number((8,), "code")}, bases))
    (start, _), *_ = layout.objects[LASTING]
    assert int.from_bytes(memory.read(image.base + 0x4796298, 8), "little") == STARTS[LASTING] + start
    assert table.read_many() == {"a": 0, "b": 0}


def test_chains_with_the_same_beginning_share_their_objects():
    layout, *_ = lay_out(
        make({"a": number((0x80, 0x18, 8)), "b": number((0x80, 0x18, 12)), "c": number((0x80, 0x20, 0))})
    )
    assert len(layout.objects[LASTING]) == 4
    assert layout.places["b"].offset - layout.places["a"].offset == 4


def test_flags_share_a_byte():
    flags = {f"bit{i}": Attribute(base="world", offsets=(9,), type="flag", bit=i, source="test") for i in range(8)}
    _, memory, _, table = attach(make(flags))
    table.write({"bit3": True, "bit6": True})
    assert memory.read(table.address_of("bit0"), 1) == b"\x48"


def test_entities_are_found_among_others_and_null_pointers():
    fields = {"base": "world", "begin": (0x1F1B8,), "end": (0x1F1C0,), "id_offsets": (0x1E8,), "source": "test"}
    entities = {"margit": Entity(id=10000850, **fields), "godrick": Entity(id=10000800, **fields)}
    attributes = {name: number((0x190, 0x138), entity=name) for name in entities}
    _, memory, image, table = attach(make(attributes, entities=entities))
    table.write({"margit": 7, "godrick": 9})
    assert table.read_many() == {"margit": 7, "godrick": 9}
    others = make({"a": number((0,), entity="other")}, entities={"other": Entity(id=1, **fields)})
    places = resolve_addresses(others, memory, image)
    with pytest.raises(EntityNotFoundError, match="none of 5 has id 1"):
        AttributeTable(others, memory, places).read("a")


def test_unbound_numbers_are_plausible():
    attributes = {
        "above": number((0,), bounds=(5, 9)),
        "below": number((4,), kind="f32", bounds=(-3.5, -1.5)),
        "scaled": number((8,), kind="u16", bounds=(0.26, 0.9), scale=0.25),
        "big": number((16,), kind="u64", bounds=(2.0**63, 2.0**64)),
        "pair": number((24,), kind="f64", bounds=(1, 2), length=2),
    }
    found = attach(make(attributes))[3].read_many()
    assert found.pop("pair").tolist() == [1.0, 1.0]
    assert found == {"above": 5, "below": -3.5, "scaled": 0.5, "big": 2**63}


def test_the_first_version_is_the_programs():
    *_, image, _ = attach(make({"a": number((0,))}, versions=("2.6.2.0", "2.6.1.0")))
    assert image.version == "2.6.2.0"


def test_objects_of_a_fight_are_reached_through_its_pointers():
    duel = {"attributes": {"player.hp": "hp", "game.speed": "speed"}}
    bases = {"world": WORLD, "game": Base(pattern="48 8B 0D ?? ?? ?? ??", **POINTER)}
    attributes = {"hp": number((8, 8)), "beside": number((16,)), "speed": number((8,), "game", "f32")}
    layout, *_ = lay_out(make(attributes, bases, duel=duel))
    assert {name: place.region for name, place in layout.places.items()} == {
        "hp": FIGHT,
        "beside": FIGHT,
        "speed": LASTING,
    }
    assert [door.at.region for door in layout.fight_pointers] == [PROGRAM]


# --- what cannot be ---------------------------------------------------------------------------------------------

WEAK = Base(pattern="48 8B", source="test", adjust=0x40)
IMPOSSIBLE = {
    "two values in one place": (
        make({"a": number((8, 4)), "b": number((8, 6), kind="f64")}),
        "attributes.b",
        "attributes.a",
    ),
    "a value where a pointer is": (make({"a": number((8, 4)), "b": number((10,))}), "attributes.b", "attributes.a"),
    "a flag in a number": (
        make({"a": number((8,)), "b": Attribute(base="world", offsets=(9,), type="flag", bit=1, source="test")}),
        "attributes.b",
        "attributes.a",
    ),
    "two scales": (make({"a": number((8,)), "b": number((8,), scale=0.5)}), "attributes.b", "attributes.a"),
    "two quantities in one place": (
        make(
            {"a": number((8,), kind="f32"), "b": number((8,), kind="f32")},
            duel={"attributes": {"player.hp": "a", "boss.hp": "b"}},
        ),
        "attributes.b",
        "attributes.a",
    ),
    "ranges without a number in both": (
        make({"a": number((8,), bounds=(0, 5)), "b": number((8,), bounds=(6, 9))}),
        "attributes.a",
        "attributes.b",
    ),
    "a range without a number": (make({"a": number((8,), bounds=(0.2, 0.8))}), "attributes.a", ""),
    "another module": (
        make({"a": number((8,))}, {"world": Base(module="x.dll", offset=8, source="test")}),
        "bases.world.module",
        "",
    ),
    "before the program": (make({"a": number((8,))}, {"world": Base(offset=-64, source="test")}), "attributes.a", ""),
    "in the headers": (make({"a": number((8,))}, {"world": Base(offset=0x80, source="test")}), "attributes.a", ""),
    "too far in the program": (
        make({"a": number((8,))}, {"world": Base(offset=2**40, source="test")}),
        "attributes.a",
        "",
    ),
    "too far on the heap": (make({"a": number((2**40,))}), "attributes.a", ""),
    "too far from its displacement": (
        make(
            {"a": number((2**40,))},
            {"world": Base(pattern=WORLD.pattern, displacement_at=3, instruction_end=7, source="test")},
        ),
        "attributes.a",
        "",
    ),
    "too far from its match": (make({"a": number((2**40,))}, {"world": WEAK}), "attributes.a", ""),
    "in its own code": (
        make({"a": number((0,))}, {"world": Base(pattern="48 8B 05 11 22", source="test")}),
        "attributes.a",
        "bases.world",
    ),
    "one match and a later one": (
        make({"a": number((8,))}, {"world": WORLD, "later": Base(pattern=WORLD.pattern, pick=1, **POINTER)}),
        "bases.world",
        "bases.later",
    ),
    "one match within two others": (
        make(
            {"a": number((8,))},
            {
                "world": WORLD,
                "game": Base(pattern="48 8B 05 ?? ?? ?? ?? 90 90", **POINTER),
                "weak": WEAK,
            },
        ),
        "bases.weak",
        "bases.world",
    ),
    "too many copies": (
        make({"a": number((8,))}, {"world": Base(pattern="48 8B", pick=4000, source="test", adjust=0x40)}),
        "bases.world.pick",
        "",
    ),
    "a displacement that another pattern fixes": (
        make(
            {"a": number((8,), "inner")},
            {
                "outer": Base(pattern="11 48 8B 01 02 03 04 C3", source="test"),
                "inner": Base(pattern="48 8B ?? ?? ?? ?? C3", displacement_at=2, instruction_end=6, source="test"),
            },
        ),
        "bases.inner",
        "bases.outer",
    ),
    "a list that ends where it begins": (
        make({"a": number((0,), entity="e")}, entities={"e": Entity(**{**LIST, "end": (0x100,)}, id=1)}),
        "entities.e",
        "entities.e",
    ),
    "no id for strangers": (
        make(
            {"a": number((0x20,), entity="e0")},
            entities={f"e{i}": Entity(**LIST, id=i, id_type="u8") for i in range(256)},
        ),
        "entities",
        "",
    ),
    "an id where a value is": (
        make({"a": number((8,), entity="e", kind="f32")}, entities={"e": Entity(**LIST, id=1)}),
        "attributes.a",
        "entities.e",
    ),
    "no version": (make({"a": number((0,))}, versions=("new",)), "process.versions[0]", ""),
    "a great version": (make({"a": number((0,))}, versions=("1.70000",)), "process.versions[0]", ""),
    "too many places in code": (
        make(
            {f"a{i}": number((0x40,), f"b{i}") for i in range(90)},
            {f"b{i}": Base(pattern=f"48 8B {i:02X} C3", source="test") for i in range(90)},
        ),
        "bases",
        "",
    ),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_an_impossible_layout_is_reported_with_its_places(case):
    profile, place, other = IMPOSSIBLE[case]
    with pytest.raises(LayoutError) as error:
        synthesise(profile)
    assert (error.value.place, error.value.other) == (place, other)
    assert str(error.value).startswith(f"{place}: ")
    assert other in str(error.value)
