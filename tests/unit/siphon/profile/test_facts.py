"""Values derived from the facts of a profile: alternatives, versions, resolved numbers."""

import msgspec
import pytest

from soulslab.errors import PatternError
from soulslab.siphon.profile import Alternative, Attribute, Base, CodeOffset, Entity, ListPlace, Process, Profile
from soulslab.siphon.profile.facts import (
    facts_behind,
    is_for,
    is_for_all,
    numbers,
    place_of,
    variants_of,
    versions_of,
    with_numbers,
)

OLD, MIDDLE, NEW = "1.0", "2.0", "3.0"


def code_offset(**fields):
    return CodeOffset(pattern="8B 83 ?? ?? 00 00", at=2, range=(0, 99), source="x", **fields)


HP = Attribute(
    entity="boss",
    offsets=(8, "hp"),
    type="i32",
    range=(0, 9),
    unit="hp",
    source="own",
    alternatives=(
        Alternative(base="world", scale=1.0, source="from the world"),
        Alternative(offsets=("hp", 0), type="u16", versions=(OLD,), source="old"),
    ),
)
PROFILE = Profile(
    name="x",
    process=Process(executable="x", versions=(NEW, MIDDLE, OLD)),
    bases={"world": Base(offset=0, source="x"), "list": Base(offset=8, versions=(NEW, MIDDLE), source="x")},
    code_offsets={"hp": code_offset(), "begin": code_offset(versions=(MIDDLE, OLD))},
    entities={"boss": Entity(base="list", begin=("begin",), end=(8,), id_offsets=(0, 8), id=7, source="x")},
    attributes={"hp": HP, "hp of all": msgspec.structs.replace(HP, entity="", base="world", alternatives=())},
)


def test_alternatives_are_completed():
    own, world, old = variants_of(HP)
    assert own == msgspec.structs.replace(HP, alternatives=())
    assert (world.base, world.entity, world.offsets, world.source) == ("world", "", (8, "hp"), "from the world")
    assert (old.base, old.entity, old.offsets, old.type, old.versions) == ("", "boss", ("hp", 0), "u16", (OLD,))
    assert {way.unit for way in (own, world, old)} == {"hp"}
    assert [place_of("a b", i) for i in range(2)] == ['attributes."a b"', 'attributes."a b".alternatives[0]']


def test_alternatives_of_a_list_are_completed():
    other = ListPlace(begin=(16,), end=(24,), versions=(NEW,), source="elsewhere")
    boss = msgspec.structs.replace(PROFILE.entities["boss"], begin=(8,), versions=(MIDDLE,), alternatives=(other,))
    own, elsewhere = variants_of(boss)
    assert own == msgspec.structs.replace(boss, alternatives=())
    assert (elsewhere.begin, elsewhere.end, elsewhere.versions, elsewhere.source) == ((16,), (24,), (NEW,), "elsewhere")
    assert (elsewhere.base, elsewhere.id_offsets, elsewhere.id) == ("list", (0, 8), 7)
    assert place_of("boss", 1, "entities") == "entities.boss.alternatives[0]"


def test_attributes_of_an_entity_have_the_versions_of_all_its_lists():
    everywhere, new = (ListPlace(begin=(16,), end=(24,), versions=of, source="x") for of in ((), (NEW,)))
    boss = msgspec.structs.replace(PROFILE.entities["boss"], begin=(8,))
    for versions, others, all_of_it in (
        ((MIDDLE,), (), (MIDDLE,)),
        ((MIDDLE,), (new,), (NEW, MIDDLE)),
        ((MIDDLE,), (everywhere,), (NEW, MIDDLE)),
        ((), (new,), (NEW, MIDDLE)),
    ):
        known = msgspec.structs.replace(boss, versions=versions, alternatives=others)
        profile = msgspec.structs.replace(PROFILE, entities={"boss": known})
        assert versions_of(profile, profile.attributes["hp"]) == all_of_it
        # Its base is for those two only.
        assert versions_of(profile, variants_of(known)[0]) == (versions or (NEW, MIDDLE))


def test_a_way_needs_all_that_it_leads_through():
    own, world, _ = variants_of(HP)
    assert {place for place, _ in facts_behind(PROFILE, own)} == {
        "", "entities.boss", "bases.list", "code_offsets.begin", "code_offsets.hp",
    }  # fmt: skip
    assert [place for place, _ in facts_behind(PROFILE, world)] == ["", "bases.world", "code_offsets.hp"]


def test_a_way_is_for_the_versions_that_all_of_it_is_for():
    assert [versions_of(PROFILE, way) for way in variants_of(HP)] == [(MIDDLE,), (NEW, MIDDLE, OLD), ()]
    assert [is_for(PROFILE, variants_of(HP)[0], version) for version in (NEW, MIDDLE, OLD)] == [False, True, False]
    assert all(is_for(PROFILE, way, "4.0") for way in variants_of(HP))
    assert is_for_all(PROFILE, "hp")
    limited = msgspec.structs.replace(HP, alternatives=())
    assert not is_for_all(msgspec.structs.replace(PROFILE, attributes={"hp": limited}), "hp")


def test_names_become_numbers_as_far_as_they_are_known():
    known = with_numbers(PROFILE, {"hp": 0x138})
    assert [way.offsets for way in variants_of(known.attributes["hp"])] == [(8, 0x138), (8, 0x138), (0x138, 0)]
    assert known.attributes["hp"].alternatives[0].offsets is None
    assert known.entities["boss"].begin == ("begin",)
    assert numbers(known.attributes["hp"].offsets) == (8, 0x138)
    with pytest.raises(PatternError, match=r"code_offsets\.begin: has no number"):
        numbers(known.entities["boss"].begin)
