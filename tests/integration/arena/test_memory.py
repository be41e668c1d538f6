"""A fight in the memory of another process, under its own profile and under those of other games."""

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from soulslab.errors import EntityNotFoundError, PointerError, ReadOnlyError
from soulslab.games import known_games, profile_path
from soulslab.siphon.attributes.address_resolution import resolve_addresses
from soulslab.siphon.attributes.attribute_table import AttributeTable
from soulslab.siphon.memory.linux import LinuxMemory
from soulslab.siphon.process.discovery import check_version, find_process
from soulslab.siphon.process.image import read_image
from soulslab.siphon.profile import load_profile

PROGRAM = Path(__file__).parents[2] / "support/memory_program.py"
DUELS = [name for name in known_games() if load_profile(profile_path(Path(name))).duel]


class Game:
    """The process, found as any game is found."""

    def __init__(self, path, undo):
        self.profile = load_profile(path)
        self._process = undo.enter_context(
            subprocess.Popen([sys.executable, PROGRAM, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        undo.callback(self._process.kill)
        assert self._process.stdout.readline() == "ready\n"
        self.pid = find_process(self.profile.process, self._process.pid)
        memory = undo.enter_context(ExitStack())
        self.memory = LinuxMemory(self.pid)
        memory.callback(self.memory.close)
        image = read_image(self.memory, self.profile.process.executable)
        check_version(image, self.profile.process, allow_unknown=False)
        self.table = AttributeTable(self.profile, self.memory, resolve_addresses(self.profile, self.memory, image))

    def tell(self, command):
        """Return the answer to a command."""
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@pytest.fixture(scope="module", params=DUELS)
def game(request):
    """One process for both tests, of which the second one writes values that no fight has."""
    with ExitStack() as undo:
        yield Game(profile_path(Path(request.param)), undo)


def check_same(game, truth):
    """Check that all that the fight has is read as it has it."""
    found = game.table.read_many()
    for name, wanted in truth["values"].items():
        if isinstance(wanted, str):
            assert wanted == (found[name].hex() if isinstance(found[name], bytes) else found[name])
        else:
            np.testing.assert_allclose(found[name], wanted, rtol=1e-6, atol=1e-3, err_msg=name)


def test_a_fight_in_another_process_is_found_read_and_written(game):
    assert Path(f"/proc/{game.pid}/comm").read_text() == game.profile.process.executable[:15] + "\n"
    for n_ticks in (0, 1, 30):
        check_same(game, game.tell(f"tick {n_ticks}"))
    stored = game.table.read("boss.hp")
    game.table.write({"boss.hp": type(stored)(321), "player.no_death": True, "game.speed": 0.5})
    truth = game.tell("tick 0")
    assert (truth["values"]["boss.hp"], truth["values"]["player.no_death"]) == (321, True)
    assert truth["values"]["game.speed"] == 0.5
    check_same(game, truth)
    before = game.table.address_of("boss.hp")
    assert game.tell("restart")["stage"] == "loading"
    with pytest.raises((PointerError, EntityNotFoundError)):
        game.table.read_many()
    truth = game.tell("tick 60")
    assert truth["stage"] == "fighting"
    check_same(game, truth)
    assert game.table.address_of("boss.hp") != before


def another(attribute, value):
    """Return a value that an attribute may have, other than the one it has."""
    if isinstance(value, bool):
        return not value
    low, high = attribute.range
    if attribute.type[0] != "f" and attribute.scale == 1.0:
        return low_or_high(max(int(low), -(2**31)), min(int(high), 2**31 - 1), value)
    # What 32 bits hold exactly, and what is a whole number of steps where there is a scale.
    return low_or_high(max(low, -1.0), min(high, 1.0), value)


def low_or_high(low, high, value):
    """Return one end of a range for each number of a value, wherever it is not there already."""
    ends = np.where(np.isclose(value, low), high, low)
    return ends if ends.shape else ends.item()


def test_every_attribute_is_plausible_and_what_may_be_written_is_read_back(game):
    found = game.table.read_many()
    assert set(found) == set(game.profile.attributes)
    n_written = 0
    for name, attribute in game.profile.attributes.items():
        if not attribute.is_writable:
            with pytest.raises(ReadOnlyError):
                game.table.write({name: found[name]})
            continue
        wanted = another(attribute, found[name])
        game.table.write({name: wanted})
        np.testing.assert_allclose(game.table.read(name), wanted, rtol=1e-6, err_msg=name)
        n_written += 1
    assert n_written > 10
