"""Conversion of key presses to actions.

A terminal reports when a key is pressed, and repeats it while it is held, but does not report its release. Therefore a
direction counts as held for slightly longer than the time between two repeats, and two directions within that time give
a diagonal.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from soulslab.arena.vocabulary import ACTIONS, NOTHING

#: Time for which a direction counts as held after its last key event.
HOLD_S = 0.15
#: Time for which a roll or attack that is not yet possible is kept.
BUFFER_S = 0.4

HELP = "W A S D move   SPACE + direction roll   J attack   K heavy attack   L parry   Q quit"

#: Key codes of the arrow keys in terminals and in the Windows console.
_ARROWS = {"\x1b[A": "w", "\x1b[B": "s", "\x1b[C": "d", "\x1b[D": "a"}
_ARROWS |= {"\xe0H": "w", "\xe0P": "s", "\xe0M": "d", "\xe0K": "a"}
_DIRECTIONS = {"w": "forward", "s": "backward", "a": "left", "d": "right"}
_OPPOSITE = {"forward": "backward", "backward": "forward", "left": "right", "right": "left"}
_BUTTONS = {" ": "roll", "j": "light_attack", "k": "heavy_attack", "l": "parry"}
_NUMBER = {frozenset(keys): number for number, keys in enumerate(ACTIONS)}


class Controls:
    """State of the keys: held directions, and the last button."""

    def __init__(self) -> None:
        self._held: dict[str, float] = {}
        self._button = ""
        self._pressed_s = 0.0

    def press(self, keys: str, now_s: float) -> None:
        """Process characters from the terminal; unknown ones are ignored."""
        for arrow, letter in _ARROWS.items():
            keys = keys.replace(arrow, letter)
        for key in keys.lower():
            if key in _DIRECTIONS:
                direction = _DIRECTIONS[key]
                self._held[direction] = now_s
                self._held.pop(_OPPOSITE[direction], None)
            elif key in _BUTTONS:
                self._button, self._pressed_s = _BUTTONS[key], now_s

    def action(self, mask: NDArray[np.bool_], now_s: float) -> int:
        """Return the action for a decision, and clear the button if it was used.

        Args:
            mask: Allowed actions, bool (A,).
            now_s: Time of the decision, from the same clock as in `press`.
        """
        directions = frozenset(name for name, seen_s in self._held.items() if now_s - seen_s <= HOLD_S)
        if self._button and now_s - self._pressed_s <= BUFFER_S:
            # A roll without a direction goes backwards, away from the boss.
            keys = {self._button} | ((directions or {"backward"}) if self._button == "roll" else frozenset())
            action = _NUMBER[frozenset(keys)]
            if mask[action]:
                self._button = ""
                return action
        move = _NUMBER[directions]
        return move if mask[move] else NOTHING
