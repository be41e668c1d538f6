"""Alternatives for the location of an entity list, and their versions."""

import logging
import struct

import pytest

from soulslab.errors import AttributeVersionError, EntityNotFoundError, PointerError
from soulslab.siphon.attributes.address_resolution import ResolvedAddresses
from soulslab.siphon.attributes.attribute_table import AttributeTable
from soulslab.siphon.profile import Attribute, Base, Entity, ListPlace, Process, Profile
from soulslab.testing.fake_memory import FakeMemory

A, LIST, OTHER = 0x10000, 0x20000, 0x20800
OLD, MIDDLE, NEW = "1.0.0.0", "2.0.0.0", "3.0.0.0"
LOGGER = "soulslab.siphon.attributes.alternatives"
BEFORE = ListPlace(begin=(0, 0x28), end=(0, 0x30), versions=(OLD,), source="before")
SAME = ListPlace(begin=(0, 0x30), end=(0, 0x38), versions=(OLD,), source="as in the others")


class Game:
    """List A has a pointer to the world at 0x100; the boss has its id, 7, at 8 and its health at 0x10."""

    def __init__(self, version, *others, versions=(NEW, MIDDLE)):
        self.memory = FakeMemory(3)
        for page in (A, LIST):
            self.memory.map(page, bytearray(0x1000))
        self.memory.write(A, struct.pack("<Q", A + 0x100))
        boss = Entity(
            base="place", begin=(0, 0x30), end=(0, 0x38), id_offsets=(8,), id=7, versions=versions,
            alternatives=others, source="own",
        )  # fmt: skip
        hp = Attribute(entity="boss", offsets=(0x10,), type="i32", range=(0, 999), source="x")
        profile = Profile(
            name="made up",
            process=Process(executable="x", versions=(NEW, MIDDLE, OLD)),
            bases={"place": Base(offset=0, source="x")},
            entities={"boss": boss},
            attributes={"boss.hp": hp, "boss.mp": Attribute(entity="boss", offsets=(0x14,), type="bool", source="x")},
        )
        self.table = AttributeTable(profile, self.memory, ResolvedAddresses(bases={"place": A}, version=version))

    def ends(self, at, begin, end):
        self.memory.write(A + 0x100 + at, struct.pack("<2Q", begin, end))

    def boss_in(self, begin, hp=500):
        """A list that contains only the boss."""
        one = begin + 0x100
        self.memory.write(begin, struct.pack("<Q", one))
        self.memory.write(one + 8, struct.pack("<Ii", 7, 0)[:4])
        self.memory.write(one + 0x10, struct.pack("<i", hp))


@pytest.mark.parametrize(("version", "at"), [(NEW, 0x30), (MIDDLE, 0x30), (OLD, 0x28)])
def test_each_version_has_a_list(version, at, caplog):
    caplog.set_level(logging.DEBUG, LOGGER)
    game = Game(version, BEFORE)
    game.boss_in(LIST)
    game.ends(at, LIST, LIST + 8)
    assert game.table.read_many() == {"boss.hp": 500, "boss.mp": False}
    game.table.write({"boss.hp": 20})
    assert game.memory.read(LIST + 0x110, 4) == struct.pack("<i", 20)
    # There was nothing to choose from.
    assert not caplog.records


@pytest.mark.parametrize(("at", "source"), [(0x28, "before"), (0x30, "as in the others")])
def test_the_list_that_has_the_entity_holds(at, source, caplog):
    caplog.set_level(logging.DEBUG, LOGGER)
    game = Game(OLD, BEFORE, SAME)
    game.boss_in(LIST)
    game.ends(at, LIST, LIST + 8)
    assert game.table.read("boss.hp") == 500
    assert [record.getMessage() for record in caplog.records] == [f"entity 'boss': the list of {source!r} has it"]
    # It holds, also where the other one becomes a list with the boss.
    game.boss_in(OTHER, hp=3)
    game.ends(0x28, OTHER, OTHER + 8)
    game.ends(at, LIST, LIST + 8)
    assert game.table.read_many() == {"boss.hp": 500, "boss.mp": False}
    assert len(caplog.records) == 1


def test_no_alternative_is_chosen_while_none_is_plausible():
    game = Game(OLD, BEFORE, SAME)
    game.ends(0x30, LIST, LIST + 8)
    both = r"none of its 2 lists \(before: .*; as in the others: "
    for use in (
        lambda: game.table.read("boss.hp"),
        lambda: game.table.write({"boss.hp": 5}),
        lambda: game.table.address_of("boss.hp"),
    ):
        with pytest.raises(EntityNotFoundError, match=both) as caught:
            use()
        assert (caught.value.entity, caught.value.n_entities) == ("boss", 1)
    (finding,) = game.table.examine()["boss.hp"]
    assert (finding.trouble, finding.source) == ("loading", "x")
    game.boss_in(LIST)
    assert game.table.read("boss.hp") == 500


def test_an_unloaded_world_is_reported():
    game = Game(OLD, BEFORE, SAME)
    game.memory.write(A, bytes(8))
    with pytest.raises(PointerError, match="null") as caught:
        game.table.read("boss.hp")
    assert caught.value.is_null


def test_attributes_of_a_list_unknown_for_the_version_are_refused():
    game = Game(OLD)
    with pytest.raises(AttributeVersionError) as caught:
        game.table.read("boss.hp")
    assert caught.value.known == (NEW, MIDDLE)
    assert game.table.read_many() == {}


def test_an_unknown_version_is_tried_with_all_lists():
    game = Game("9.0.0.0", BEFORE, SAME)
    game.boss_in(LIST)
    game.ends(0x28, LIST, LIST + 8)
    assert game.table.read("boss.hp") == 500
