"""The fake backend passes the contract suite of its kind."""

from __future__ import annotations

import pytest

from soulslab.siphon.input import Input
from soulslab.testing.fake_game import FakeInput
from support.input_contract import InputContract


class Rig:
    def __init__(self):
        self.input = FakeInput()
        self._n_seen = 0

    def new_events(self):
        events = self.input.events[self._n_seen :]
        self._n_seen += len(events)
        return events


class TestFakeInput(InputContract):
    @pytest.fixture
    def rig(self):
        return Rig()


def test_it_adds_up_the_movements_of_the_mouse():
    fake = FakeInput()
    fake.move_mouse(3, -4)
    fake.move_mouse(2, 1)
    assert fake.mouse_px == (5, -3)


def test_it_is_an_input():
    checked: Input = FakeInput()
    assert checked.backend == "fake"
