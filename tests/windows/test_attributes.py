"""Attributes of real processes on Windows: pointer chains, byte patterns, and a profile of a game."""

from pathlib import Path

import pytest

from soulslab.errors import ImageError, PatternError, PointerError
from soulslab.siphon.attributes.address_resolution import resolve_addresses
from soulslab.siphon.attributes.attribute_table import AttributeTable
from soulslab.siphon.attributes.pattern_scan import scan
from soulslab.siphon.memory.windows import WindowsMemory
from soulslab.siphon.process.image import read_image
from soulslab.siphon.profile import load_profile
from soulslab.siphon.profile.pattern import Pattern
from support.target_attributes_contract import TargetAttributesContract
from support.waiting import wait_for

PROFILE = load_profile(Path(__file__).parents[1] / "support" / "windows_game.toml")


class TestTargetAttributes(TargetAttributesContract):
    pass


@pytest.fixture
def table(game):
    memory = WindowsMemory(game.pid)
    yield wait_for(lambda: opened(memory), "the game")
    memory.close()


def opened(memory):
    """Return the attributes of the game; None while it starts."""
    try:
        image = read_image(memory, PROFILE.process.executable)
        found = AttributeTable(PROFILE, memory, resolve_addresses(PROFILE, memory, image))
        found.read("hp")
    except (ImageError, PatternError, PointerError):
        return None
    return found


def test_reads_the_game_by_its_profile(table):
    found = table.read_many(["hp", "name", "frame_s", "speed", "ticks"])
    ticks = found.pop("ticks")
    assert found.pop("frame_s") == pytest.approx(1 / 60, abs=0.001)
    assert found == {"hp": 200, "name": "Åsa of Wine", "speed": 1.0}
    assert table.sources["speed"] == "windows_game.c"
    wait_for(lambda: table.read("ticks") > ticks + 5)


def test_writes_the_game(game, table):
    table.write({"hp": 123, "name": "Ranni ☾", "speed": 0.5})
    other = WindowsMemory(game.pid)
    assert opened(other).read_many(["hp", "name", "speed"]) == {"hp": 123, "name": "Ranni ☾", "speed": 0.5}
    other.close()


def test_patterns_are_found_in_all_code(target, memory, program):
    image = read_image(memory, program.name)
    bytes_there = memory.read(target.function, 24)
    pattern = Pattern.parse(" ".join(f"{byte:02X}" for byte in bytes_there))
    assert scan({"function": pattern}, memory, image.code_ranges) == {"function": [target.function]}
    # Of all programs and libraries, also the parts of which are not mapped.
    ranges = [(region.start, region.end) for region in memory.regions() if region.is_executable]
    assert target.function in scan({"function": pattern}, memory, ranges)["function"]
