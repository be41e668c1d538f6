"""Held keys after a failure to send."""

from __future__ import annotations

import pytest

from soulslab.errors import DisplayError, InputError, WindowGoneError
from soulslab.siphon.input.held_input import HeldInput


class BrokenSender:
    backend = "broken"

    def __init__(self):
        self.sent = []
        self.is_closed = False
        self.error = None
        self.refusal = None

    def check(self, keys):
        del keys
        if self.refusal:
            raise self.refusal

    def send(self, changes):
        self.sent += [(change.key.name, change.is_press) for change in changes]
        if self.error:
            raise self.error

    def move_mouse(self, dx_px, dy_px):
        raise AssertionError(f"moved by {dx_px}, {dy_px}")

    def close(self):
        self.is_closed = True


def test_a_refused_change_does_not_release_keys():
    sender = BrokenSender()
    keys = HeldInput(sender)
    keys.set_held(["W"])
    sender.refusal = InputError("another window has the focus")
    with pytest.raises(InputError):
        keys.set_held(["A"])
    assert keys.held == {"W"}
    assert sender.sent == [("W", True)]


def test_keys_in_doubt_after_an_error_are_released_at_the_end():
    sender = BrokenSender()
    keys = HeldInput(sender)
    keys.set_held(["W"])
    sender.error = InputError("half of it was sent")
    with pytest.raises(InputError):
        keys.set_held(["A"])
    sender.error = None
    sender.sent.clear()
    keys.close()
    assert sender.sent == [("A", False), ("W", False)]


@pytest.mark.parametrize("error", [WindowGoneError("closed"), DisplayError("ended")])
def test_close_after_the_end_of_the_window_or_display_is_allowed(error):
    sender = BrokenSender()
    keys = HeldInput(sender)
    keys.set_held(["W"])
    sender.error = error
    keys.close()
    assert sender.is_closed


def test_a_mouse_movement_of_zero_sends_no_event():
    HeldInput(BrokenSender()).move_mouse(0, 0)
