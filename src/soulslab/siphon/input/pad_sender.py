"""A gamepad for keys: keys of actions that have a control of the pad are sent by the pad, all others by the keyboard.

The state of the pad lies in the page that the game shares with the clock library, which supplies it to the game without
a driver. A game reads the state of a pad once in a frame, so a press that follows a release at once would be invisible.
Such intermediate states are marked, and the game sees each of them for one read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

from soulslab.siphon.input.held_input import Change, HeldInput, Sender
from soulslab.siphon.keys import Key
from soulslab.siphon.pad import Pad
from soulslab.siphon.profile import Profile

SetState: TypeAlias = Callable[[bytes, bool], None]
"""Sets the state of the pad (`Pad.to_bytes`); with True the game sees it before any later state."""


def controls_of_keys(profile: Profile) -> dict[str, frozenset[str]]:
    """Return the controls of the pad by key, for the actions that have both."""
    controls: dict[str, frozenset[str]] = {}
    for action, control in profile.pad.items():
        key = profile.keys[action]
        controls[key] = controls.get(key, frozenset()) | {control}
    return controls


class PadSender:
    """Sends keys by a pad, or by a keyboard if the pad has no control for them (`held_input.Sender`).

    Args:
        keyboard: Sender of all other keys.
        controls: Controls of the pad by key (`controls_of_keys`).
        set_state: Sets the state that the game sees.
    """

    backend = "pad"

    def __init__(self, keyboard: Sender, controls: Mapping[str, frozenset[str]], set_state: SetState) -> None:
        self._keyboard = keyboard
        self._controls = controls
        self._set_state = set_state
        self._down: set[str] = set()
        self._pad = Pad()

    def check(self, keys: Collection[Key]) -> None:
        """See `Sender.check`."""
        others = [key for key in keys if key.name not in self._controls]
        if others:
            self._keyboard.check(others)

    def send(self, changes: Sequence[Change]) -> None:
        """See `Sender.send`. If a control changes twice, the game sees the state in between.

        Several keys may have the same control. A press while another key holds it is a new press of the control.
        """
        changed: set[str] = set()
        for change in changes:
            controls = self._controls.get(change.key.name)
            if controls is None:
                continue
            if not changed.isdisjoint(controls):
                self._apply(must_be_seen=True)
                changed.clear()
            held = self._held()
            is_pressed_again = change.is_press and not controls.isdisjoint(held)
            if is_pressed_again:
                self._apply(must_be_seen=True, released=controls)
            (self._down.add if change.is_press else self._down.discard)(change.key.name)
            if is_pressed_again or self._held() != held:
                changed |= controls
        if changed:
            self._apply()
        others = [change for change in changes if change.key.name not in self._controls]
        if others:
            self._keyboard.send(others)

    def set_pad(self, pad: Pad) -> None:
        """Set the state of the pad; held keys are added to it."""
        self._pad = pad
        self._apply()

    def move_mouse(self, dx_px: int, dy_px: int) -> None:
        """See `Sender.move_mouse`."""
        self._keyboard.check(())
        self._keyboard.move_mouse(dx_px, dy_px)

    def close(self) -> None:
        """Set the pad to rest and close the keyboard."""
        self._down.clear()
        try:
            self.set_pad(Pad())
        finally:
            self._keyboard.close()

    def _held(self) -> set[str]:
        return {control for key in self._down for control in self._controls[key]}

    def _apply(self, *, must_be_seen: bool = False, released: frozenset[str] = frozenset()) -> None:
        self._set_state(self._pad.with_controls(self._held() - released).to_bytes(), must_be_seen)


def open_pad_input(keyboard: Sender, profile: Profile, set_state: SetState) -> HeldInput:
    """Return the input of a game with a pad and a keyboard."""
    sender = PadSender(keyboard, controls_of_keys(profile), set_state)
    return HeldInput(sender, sender.set_pad)
