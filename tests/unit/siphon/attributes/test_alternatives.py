"""Alternatives of attributes: the first readable and plausible one is chosen, except while the game loads."""

import logging
import struct

import pytest

from soulslab.errors import (
    AttributeVersionError,
    EntityNotFoundError,
    ImplausibleValueError,
    InvalidValueError,
    PatternError,
    PointerError,
    ReadOnlyError,
    UndecidedAttributeError,
    UnknownAttributeError,
)
from soulslab.siphon.attributes.address_resolution import ResolvedAddresses
from soulslab.siphon.attributes.attribute_table import AttributeTable
from soulslab.siphon.profile import Alternative, Attribute, Base, CodeOffset, Entity, Process, Profile
from soulslab.testing.fake_memory import FakeMemory

A, B, C = 0x10000, 0x11000, 0x12000
OWN, FIRST, SECOND = "the attribute's own source", "a tool", "another tool"
OLD, NEW = "1.0.0.0", "2.0.0.0"
LOGGER = "soulslab.siphon.attributes.alternatives"


def way(offsets=None, source=FIRST, **fields):
    return Alternative(offsets=offsets, source=source, **fields)


def speed(*alternatives, offsets=(0, 0x10), kind="f32", bounds=(0.5, 2), **fields):
    return Attribute(
        base="" if "entity" in fields else "place",
        offsets=offsets,
        type=kind,
        range=bounds,
        source=OWN,
        alternatives=alternatives,
        **fields,
    )


class Game:
    """Object A has pointers to B at 0 and to C at 8, null at 0x10, an invalid one at 0x18, otherwise zeros."""

    def __init__(self, places=None, versions=(), **attributes):
        self.memory = FakeMemory(3)
        for page in (A, B, C):
            self.memory.map(page, bytearray(0x1000))
        self.memory.write(A, struct.pack("<4Q", B, C, 0, 0xDDDDDDDDDDDDDDDD))
        code_offset = CodeOffset(pattern="8B 83 ?? ?? 00 00", at=2, range=(0, 0x300), source="x")
        self.profile = Profile(
            name="made up",
            process=Process(executable="x", versions=versions),
            bases={
                "place": Base(offset=0, source="x"),
                "old": Base(pattern="11 22", versions=versions[:1], source="x"),
            },
            code_offsets={"x": code_offset, "y": code_offset},
            entities={"boss": Entity(base="place", begin=(8, "x"), end=(8, 8), id_offsets=("y",), id=7, source="x")},
            attributes=attributes,
        )
        fields = {"bases": {"place": A, "old": A}, "code_offsets": {"x": 0x0, "y": 0x20}, **(places or {})}
        self.table = AttributeTable(self.profile, self.memory, ResolvedAddresses(**fields))

    def put(self, address, *values, form="<f"):
        for i, value in enumerate(values):
            self.memory.write(address + i * struct.calcsize(form), struct.pack(form, value))

    def list_boss(self, number=7):
        """A list of one entity, B."""
        self.put(C, C + 0x100, C + 0x108, form="<Q")
        self.put(C + 0x100, B, form="<Q")
        self.put(B + 0x20, number, form="<I")


def test_the_main_alternative_is_chosen_if_it_is_plausible(caplog):
    game = Game(speed=speed(way((8, 0x10))))
    game.put(B + 0x10, 1.0)
    game.put(C + 0x10, 1.5)
    assert game.table.sources == {"speed": ""}
    with caplog.at_level(logging.DEBUG, LOGGER):
        assert game.table.read("speed") == 1.0
    assert game.table.sources == {"speed": OWN}
    assert [record.message for record in caplog.records] == [f"attribute 'speed': \"{OWN}\" holds, as it gives 1.0"]


@pytest.mark.parametrize(
    ("own", "why"),
    [
        ((0, 0x10), "reads 0.0, which is outside its plausible range 0.5 to 2"),
        ((0x18, 0x10), "holds 0xdddddddddddddddd, which is not an address"),
        ((0, 0x5000), "leads to memory that is not mapped"),
        ((0, 0x40, 0x5000), "is a null pointer"),
    ],
)
def test_a_wrong_alternative_is_skipped(own, why, caplog):
    game = Game(speed=speed(way((8, 0x14)), way((8, 0x10), SECOND), offsets=own))
    game.put(C + 0x10, 1.5)
    with caplog.at_level(logging.INFO, LOGGER):
        assert game.table.read_many() == {"speed": 1.5}
    (line,) = [record.message for record in caplog.records]
    assert "attribute 'speed'" in line
    assert f"{SECOND!r} " in line
    assert f"{OWN}: " in line
    assert f"{FIRST}: " in line
    assert why in line
    is_decided = "null" not in why
    assert game.table.sources == {"speed": SECOND if is_decided else ""}
    assert ("holds" in line.split("; passed over")[0]) is is_decided


def test_a_chosen_alternative_is_kept():
    game = Game(speed=speed(way((8, 0x10))))
    game.put(C + 0x10, 1.5)
    assert game.table.read("speed") == 1.5
    game.put(B + 0x10, 1.0)
    assert game.table.read("speed") == 1.5
    game.put(C + 0x10, 9.0)
    with pytest.raises(ImplausibleValueError, match="reads 9"):
        game.table.read("speed")
    game.put(A + 8, 0, form="<Q")
    with pytest.raises(PointerError, match="null"):
        game.table.read("speed")
    assert (
        AttributeTable(game.profile, game.memory, ResolvedAddresses(bases={"place": A, "old": A})).read("speed") == 1.0
    )


def test_a_chosen_alternative_is_read_like_other_attributes():
    """Alternatives are read at once, with a plan that is created once."""
    game = Game(speed=speed(way((8, 0x10))), plain=speed(offsets=(8, 0x10)))
    game.put(C + 0x10, 1.5)
    game.table.read_many()
    plain = Game(speed=speed(offsets=(8, 0x10)), plain=speed(offsets=(8, 0x10)))
    plain.put(C + 0x10, 1.5)
    plain.table.read_many()
    counts = []
    for one in (game, plain):
        before = one.memory.n_reads
        for _ in range(10):
            assert one.table.read_many() == {"speed": 1.5, "plain": 1.5}
        counts.append(one.memory.n_reads - before)
    assert counts[0] == counts[1]


def test_no_alternative_is_chosen_while_the_game_loads():
    game = Game(speed=speed(way((8, 0x10))))
    game.put(A, 0, 0, form="<Q")
    with pytest.raises(UndecidedAttributeError) as caught:
        game.table.read("speed")
    assert caught.value.attribute == "speed"
    assert [problem.split(":")[0] for problem in caught.value.problems] == [OWN, FIRST]
    assert "none of its 2 variants gives a plausible value" in str(caught.value)
    assert all(problem in str(caught.value) for problem in caught.value.problems)
    game.put(A, B, C, form="<Q")
    game.put(B + 0x10, 1.0)
    assert game.table.read("speed") == 1.0


def test_a_later_alternative_stays_possible_while_an_earlier_one_may_be_loading(caplog):
    """A null pointer proves nothing: the later variant may read unrelated data."""
    game = Game(speed=speed(way((8, 0x10))), other=speed(offsets=(8, 0x10)))
    game.put(A, 0, form="<Q")
    game.put(C + 0x10, 1.5)
    with caplog.at_level(logging.INFO, LOGGER):
        for _ in range(3):
            assert game.table.read_many() == {"speed": 1.5, "other": 1.5}
    assert game.table.sources == {"speed": ""}
    assert len(caplog.records) == 1
    with pytest.raises(UndecidedAttributeError, match=f"nothing was written.*may only be loading: {OWN}: "):
        game.table.write({"other": 1.0, "speed": 1.0})
    assert game.table.read("other") == 1.5
    game.put(A, B, form="<Q")
    game.put(B + 0x10, 1.0)
    assert game.table.read_many() == {"speed": 1.0, "other": 1.5}
    assert game.table.sources == {"speed": OWN}


def test_an_earlier_way_that_turns_out_wrong_confirms_the_later():
    game = Game(speed=speed(way((8, 0x10))))
    game.put(A, 0, form="<Q")
    game.put(C + 0x10, 1.5)
    assert game.table.read("speed") == 1.5
    game.put(A, B, form="<Q")
    assert game.table.read("speed") == 1.5
    assert game.table.sources == {"speed": FIRST}


def test_a_missing_entity_does_not_choose_an_alternative():
    game = Game(speed=speed(way(base="place", offsets=(8, 0x10)), entity="boss", offsets=(0x30,)))
    game.put(C + 0x10, 1.5)
    assert game.table.read("speed") == 1.5
    assert game.table.sources == {"speed": ""}
    game.list_boss()
    game.put(B + 0x30, 1.25)
    assert game.table.read("speed") == 1.25
    assert game.table.sources == {"speed": OWN}
    game.put(B + 0x20, 8, form="<I")
    with pytest.raises(EntityNotFoundError):
        game.table.read("speed")


# --- writing ------------------------------------------------------------------------------------------------


def test_a_write_decides():
    game = Game(speed=speed(way((8, 0x10))))
    game.put(C + 0x10, 1.5)
    game.table.write({"speed": 0.75})
    assert game.table.sources == {"speed": FIRST}
    assert game.memory.read(C + 0x10, 4) == struct.pack("<f", 0.75)
    assert game.memory.read(B + 0x10, 4) == bytes(4)


def test_a_write_without_a_chosen_alternative_changes_nothing():
    game = Game(speed=speed(way((8, 0x10))), other=speed(offsets=(8, 0x20)))
    game.put(C + 0x20, 1.5)
    with pytest.raises(UndecidedAttributeError, match="none of its 2 variants"):
        game.table.write({"other": 1.0, "speed": 1.0})
    assert game.table.read("other") == 1.5
    with pytest.raises(UnknownAttributeError):
        game.table.write({"speed": 1.0, "no such": 1})


def test_each_alternative_has_its_type_bit_and_scale():
    game = Game(
        time=speed(way((8, 0x10), type="u16", scale=0.25), bounds=(1, 100)),
        is_dead=Attribute(
            base="old", offsets=(0, 0), type="flag", bit=1, source=OWN,
            alternatives=(way((8, 0x20), base="place", bit=3),),
        ),
        is_shut=speed(is_writable=False),
        places={"missing": {"bases.old": PatternError("nowhere", base="old")}},
    )  # fmt: skip
    game.put(C + 0x10, 10, form="<H")
    game.put(C + 0x20, 0xFF, form="<B")
    game.put(B + 0x10, 1.0)
    # The own way to `time` reads 1.0, which is plausible, too.
    assert game.table.read("time") == 1.0
    game = Game(time=game.profile.attributes["time"], is_dead=game.profile.attributes["is_dead"],
                places={"missing": {"bases.old": PatternError("nowhere", base="old")}})  # fmt: skip
    game.put(C + 0x10, 10, form="<H")
    game.put(C + 0x20, 0xFF, form="<B")
    assert game.table.read_many() == {"time": 2.5, "is_dead": True}
    game.table.write({"time": 7.5, "is_dead": False})
    assert game.memory.read(C + 0x10, 2) == b"\x1e\x00"
    assert game.memory.read(C + 0x20, 1) == b"\xf7"
    with pytest.raises(InvalidValueError, match="between 1 and 100"):
        game.table.write({"time": 0.5})


def test_no_alternative_is_chosen_for_a_read_only_attribute():
    game = Game(speed=speed(way((8, 0x10)), is_writable=False))
    with pytest.raises(ReadOnlyError):
        game.table.write({"speed": 1.0})
    assert game.table.sources == {"speed": ""}


# --- code offsets and versions ------------------------------------------------------------------------------


def test_names_of_code_offsets_are_numbers_everywhere():
    game = Game(
        {"code_offsets": {"x": 8, "y": 0x20}},
        own=speed(offsets=("x", "y")),
        other=speed(way(("x", 0x24)), offsets=(0, 0)),
    )
    game.put(C + 0x20, 1.5, 1.25)
    assert game.table.read_many() == {"own": 1.5, "other": 1.25}


def test_an_entity_is_found_by_names():
    game = Game(speed=speed(entity="boss", offsets=(0x30,)))
    game.list_boss()
    game.put(B + 0x30, 1.25)
    assert game.table.read("speed") == 1.25


def test_ways_for_other_versions_are_not_tried():
    attribute = speed(way((8, 0x14), versions=(OLD,)), way((8, 0x10), SECOND, versions=(NEW,)), versions=(OLD,))
    for version, sources, value in ((OLD, {"speed": ""}, 1.0), (NEW, {}, 1.5), ("3.0.0.0", {"speed": ""}, 1.0)):
        game = Game({"version": version}, (OLD, NEW), speed=attribute)
        game.put(B + 0x10, 1.0)
        game.put(C + 0x10, 1.5)
        assert game.table.sources == sources
        assert game.table.read("speed") == value


def test_an_attribute_unknown_for_the_version_is_an_error():
    game = Game({"version": NEW}, (OLD, NEW), hp=speed(versions=(NEW,)), speed=speed(offsets=(0,), versions=(OLD,)))
    game.put(B + 0x10, 1.0)
    for use in (
        lambda: game.table.read("speed"),
        lambda: game.table.read_many(("hp", "speed")),
        lambda: game.table.write({"speed": 1.0}),
        lambda: game.table.address_of("speed"),
    ):
        with pytest.raises(
            AttributeVersionError, match=r"'speed' is not known for version 2\.0\.0\.0.*1\.0\.0\.0"
        ) as no:
            use()
        assert (no.value.attribute, no.value.version, no.value.known) == ("speed", NEW, (OLD,))
    assert game.table.read_many() == {"hp": 1.0}


def test_attributes_that_need_facts_of_another_version_have_no_version():
    game = Game({"version": NEW}, (OLD, NEW), speed=Attribute(
        base="old", offsets=(0, 0x10), type="f32", range=(0, 1), source=OWN))  # fmt: skip
    with pytest.raises(AttributeVersionError, match=r"only for 1\.0\.0\.0"):
        game.table.read("speed")
    assert game.table.read_many() == {}


def test_a_missing_match_on_an_unknown_version_is_reported():
    missing = {
        "bases.old": PatternError("'11 22' was found nowhere", base="old"),
        "code_offsets.x": PatternError("was found nowhere", base="x", place="code_offsets.x.pattern"),
    }
    attributes = {
        "old": Attribute(base="old", offsets=(0,), type="f32", range=(0, 1), source=OWN),
        "named": speed(offsets=(0, "x")),
        "both": speed(way((0, "x")), offsets=(0, "x", 8)),
        "one": speed(way((0, "x")), offsets=(0, 0x10)),
        "of boss": speed(entity="boss", offsets=(0,)),
    }
    places = {"version": "3.0.0.0", "missing": missing, "bases": {"place": A}, "code_offsets": {"y": 0x20}}
    game = Game(places, (OLD, NEW), **attributes)
    game.put(B + 0x10, 1.0)
    assert game.table.read_many() == {"one": 1.0}
    for name, error in (("old", "base 'old'"), ("named", "code_offsets.x.pattern"), ("of boss", "code_offsets.x")):
        with pytest.raises(PatternError, match=error):
            game.table.read(name)
    with pytest.raises(UndecidedAttributeError, match="found nowhere"):
        game.table.read("both")
