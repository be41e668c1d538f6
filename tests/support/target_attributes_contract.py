"""Contract of attributes of a real process that moves and frees its objects."""

import time

import numpy as np
import pytest

from soulslab.errors import (
    EntityNotFoundError,
    ImplausibleValueError,
    InvalidValueError,
    PointerError,
    ProcessExitedError,
)
from soulslab.siphon.attributes.attribute_table import AttributeTable
from soulslab.siphon.attributes.read_plan import N_READS_TO_PACK
from support.long_form import IS_LONG
from support.target import ATTRIBUTES, PROFILE, Target, places_of

POISON = 0xDDDDDDDD
#: Reads of a game that replaces its objects all the time.
N_READS = 3000 if IS_LONG else 1000


class TargetAttributesContract:
    """Contract tests. The fixtures `target` and `memory` are in ``conftest.py``."""

    @pytest.fixture
    def table(self, target: Target, memory) -> AttributeTable:
        return AttributeTable(PROFILE, memory, places_of(target))

    def test_reads_all_types(self, table: AttributeTable):
        for _ in range(N_READS_TO_PACK + 2):
            found = table.read_many()
            assert list(found) == list(ATTRIBUTES)
            position = found.pop("position")
            assert isinstance(position, np.ndarray)
            assert position.tolist() == [1.5, -2.25, 1000.0]
            assert found == {
                "hp": 100,
                "x": 1.5,
                "is_hurt": True,
                "is_seen": False,
                "is_alive": True,
                "speed": 0.1,
                "name": "Margité",
                "title": "The Fell é",
                "raw": b"Margit",
                "angle": 1.5,
                "mark": 1,
                "serial": 1,
                "exp": 1234567890123,
                "boss_hp": 11,
                "boss_title": "The Fell é",
                "other_hp": 12,
            }

    def test_writes_all_types(self, table: AttributeTable):
        values = {
            "hp": 7,
            "position": [1.0, 2.0, 3.0],
            "is_hurt": False,
            "is_seen": True,
            "is_alive": False,
            "speed": 0.05,
            "name": "Radahn",
            "title": "Starscourge ☄",
            "angle": -0.5,
            "mark": 2**32 - 1,
            "exp": 5,
            "boss_hp": 500,
        }
        table.write(values)
        found = table.read_many(list(values))
        assert found.pop("position").tolist() == values.pop("position")
        assert found == values
        with pytest.raises(InvalidValueError):
            table.write({"hp": 8, "title": "x" * 16})
        assert table.read("hp") == 7

    @pytest.mark.parametrize("n_before", [1, N_READS_TO_PACK + 2])
    def test_follows_an_object_that_moves(self, target: Target, table: AttributeTable, n_before: int):
        names = ("hp", "mark", "serial")
        for _ in range(n_before):
            table.read_many(names)
        for n in range(1, 5):
            target.do("move")
            found = table.read_many(names)
            assert found["hp"] == 100 + n
            assert found["mark"] == found["serial"] != POISON
        target.do("body")
        with pytest.raises(ImplausibleValueError) as caught:
            table.read("exp")
        assert caught.value.value == -1

    def test_a_level_change(self, target: Target, table: AttributeTable):
        table.read_many()
        target.do("null")
        with pytest.raises(PointerError, match="null") as caught:
            table.read_many(["hp"])
        assert (caught.value.attribute, caught.value.level, caught.value.address) == ("hp", 0, target.root)
        target.do("restore")
        assert table.read("hp") == 100
        target.do("unmap")
        with pytest.raises(PointerError, match="not mapped") as caught:
            table.read_many(["hp"])
        assert (caught.value.attribute, caught.value.level) == ("hp", 3)
        target.do("null")
        with pytest.raises(PointerError):
            table.write({"hp": 1})

    def test_a_protected_page_has_no_value(self, target: Target, table: AttributeTable):
        table.read("hp")
        target.do("protect")
        with pytest.raises(PointerError, match="not mapped"):
            table.read("hp")

    def test_entities_come_and_go(self, target: Target, table: AttributeTable):
        names = ("boss_hp", "other_hp")
        for _ in range(N_READS_TO_PACK + 2):
            assert table.read_many(names) == {"boss_hp": 11, "other_hp": 12}
        # The list grows at its front, so that every entity has another place.
        target.do("insert 77")
        assert table.read_many(names) == {"boss_hp": 11, "other_hp": 12}
        target.do("free 0")
        table.forget()
        assert table.read_many(names) == {"boss_hp": 11, "other_hp": 12}
        target.do("insert 11")
        assert table.read("boss_hp") == 11
        target.do("id 5")
        assert table.read("boss_hp") == 11
        target.do("empty")
        with pytest.raises(EntityNotFoundError):
            table.read_many(names)

    def test_a_running_game_never_shows_a_dead_object(self, target: Target, table: AttributeTable):
        names = ("mark", "serial", "x", "title")
        target.do("spin")
        serials: set[int] = set()
        n_reads, end = 0, time.monotonic() + 120.0
        # On a busy machine the reader may get the processor only now and then.
        while n_reads < N_READS or len(serials) <= 100:
            assert time.monotonic() < end, f"{n_reads} reads have seen {len(serials)} objects"
            n_reads += 1
            try:
                found = table.read_many(names)
            except PointerError as error:
                assert "changes while it is read" in str(error)
                continue
            assert found["mark"] == found["serial"] != POISON
            assert (found["x"], found["title"]) == (1.5, "The Fell é")
            serials.add(found["serial"])

    def test_the_end_of_the_process(self, target: Target, table: AttributeTable):
        table.read_many()
        target.exit()
        for use in (table.read_many, lambda: table.read("hp"), lambda: table.write({"hp": 5})):
            with pytest.raises(ProcessExitedError) as caught:
                use()
            assert caught.value.pid == target.pid
