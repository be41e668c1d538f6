"""From key presses to actions.

A terminal tells that a key went down, and repeats it while it is held, but never that it came up. So a direction counts
as held for a little longer than the time between two repeats, and two of them within that time make a diagonal.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from soulslab.arena.vocabulary import ACTIONS, NOTHING

#: A direction is held for this long after its key was seen.
HOLD_S = 0.15
#: A roll or attack pressed too early is kept for this long, until it is open.
BUFFER_S = 0.4

HELP = "W A S D move   SPACE + direction roll   J attack   K heavy attack   L parry   Q quit"

#: Arrow keys, as terminals and the Windows console tell them.
_ARROWS = {"\x1b[A": "w", "\x1b[B": "s", "\x1b[C": "d", "\x1b[D": "a"}
_ARROWS |= {"\xe0H": "w", "\xe0P": "s", "\xe0M": "d", "\xe0K": "a"}
_DIRECTIONS = {"w": "forward", "s": "backward", "a": "left", "d": "right"}
_OPPOSITE = {"forward": "backward", "backward": "forward", "left": "right", "right": "left"}
_BUTTONS = {" ": "roll", "j": "light_attack", "k": "heavy_attack", "l": "parry"}
_NUMBER = {frozenset(keys): number for number, keys in enumerate(ACTIONS)}


class Controls:
    """What the player holds, and what it last pressed."""

    def __init__(self) -> None:
        self._held: dict[str, float] = {}
        self._button = ""
        self._pressed_s = 0.0

    def press(self, keys: str, now_s: float) -> None:
        """Take in the characters that the terminal gave at a time; unknown ones count for nothing."""
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
        """Return the action for a decision, and forget the button if it was used.

        Args:
            mask: Open actions, bool (A,).
            now_s: Time of the decision, of the same clock as that of `press`.
        """
        ways = frozenset(way for way, seen_s in self._held.items() if now_s - seen_s <= HOLD_S)
        if self._button and now_s - self._pressed_s <= BUFFER_S:
            # Without a direction a roll goes backwards, out of reach.
            keys = {self._button} | ((ways or {"backward"}) if self._button == "roll" else frozenset())
            action = _NUMBER[frozenset(keys)]
            if mask[action]:
                self._button = ""
                return action
        move = _NUMBER[ways]
        return move if mask[move] else NOTHING
