"""Keys of which several have the same control of the pad."""

from contextlib import closing

import pytest

from soulslab.siphon.input.held_input import HeldInput
from soulslab.siphon.input.pad_sender import PadSender
from soulslab.siphon.pad import Pad

A = Pad(buttons=("A",)).to_bytes()
UP = Pad().to_bytes()


@pytest.fixture
def sent():
    """The states that the game sees, with whether each has to be seen before the next one."""
    return []


class Keyboard:
    """A keyboard without keys."""

    def close(self):
        pass


@pytest.fixture
def held(sent):
    sender = PadSender(
        Keyboard(), {"E": frozenset({"A"}), "ENTER": frozenset({"A"})}, lambda *state: sent.append(state)
    )
    with closing(HeldInput(sender, sender.set_pad)) as held:
        yield held


def test_two_keys_of_a_control_are_two_presses(held, sent):
    held.set_held(("E",))
    held.set_held(("ENTER",))
    assert sent == [(A, False), (UP, True), (A, False)]


def test_a_press_while_another_key_holds_the_control_is_seen(held, sent):
    held.set_held(("E",))
    held.set_held(("E", "ENTER"))
    assert sent == [(A, False), (UP, True), (A, False)]
    sent.clear()
    held.set_held(("E", "ENTER"), again=("E",))
    assert sent == [(UP, True), (A, False)]
    sent.clear()
    held.set_held(("ENTER",))
    assert sent == []
    held.set_held(())
    assert sent == [(UP, False)]
