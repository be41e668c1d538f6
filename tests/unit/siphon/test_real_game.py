"""Opening the parts of a game that is starting; tests/integration/siphon opens complete games."""

import os
import struct
import time

import pytest

from soulslab.errors import ProcessExitedError, WaitTimeoutError
from soulslab.siphon.attributes.address_resolution import ResolvedAddresses
from soulslab.siphon.attributes.attribute_table import AttributeTable
from soulslab.siphon.profile import Attribute, Base, ClockFacts, Process, Profile
from soulslab.siphon.real_game import RealGame, _open_clock
from soulslab.siphon.session import SessionOptions
from soulslab.testing.fake_memory import FakeMemory

ROOT, OBJECT = 0x1000, 0x20000
PROFILE = Profile(
    name="slow",
    process=Process(executable="slow"),
    bases={"world": Base(offset=0, is_pointer=True, source="made up")},
    attributes={"speed": Attribute(base="world", offsets=(8,), type="f32", range=(0, 10), source="made up")},
    clock=ClockFacts(grade="scaled", speed_attribute="speed"),
)


class LoadingGame(RealGame):
    """A game whose world is loaded after some reads."""

    def __init__(self, n_looks):
        super().__init__(os.getpid(), None)
        memory = FakeMemory(self.pid)
        self._root = memory.map(ROOT, bytearray(8))
        self._object = memory.map(OBJECT, bytearray(16))
        self.attributes = AttributeTable(PROFILE, memory, ResolvedAddresses(bases={"world": ROOT}))
        self._n_looks = n_looks

    def check_alive(self):
        self._n_looks -= 1
        if not self._n_looks:
            struct.pack_into("<Q", self._root, 0, OBJECT)
            struct.pack_into("<f", self._object, 8, 1.0)


def test_a_clock_waits_for_its_values_while_the_game_loads():
    game = LoadingGame(3)
    choice = _open_clock(game, PROFILE, SessionOptions(), time.monotonic() + 20.0)
    assert (game.clock.grade, game.clock.speed, choice.reason) == ("scaled", 1.0, "")
    game.clock.close()


def test_a_timeout_names_the_missing_clock_values():
    with pytest.raises(WaitTimeoutError, match=r"clock of slow; .*base 'world', is_pointer: is a null pointer"):
        _open_clock(LoadingGame(0), PROFILE, SessionOptions(), time.monotonic() + 0.05)


def test_a_game_that_ends_while_it_loads_ends_the_wait():
    game = LoadingGame(0)

    def check_alive():
        raise ProcessExitedError("process 1 has ended", pid=1)

    game.check_alive = check_alive
    with pytest.raises(ProcessExitedError):
        _open_clock(game, PROFILE, SessionOptions(), time.monotonic() + 20.0)
