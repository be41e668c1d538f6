"""Gamepad input: conversion of a stick to buttons, and the default commands of the pad buttons.

The names are panda3d's, which name buttons by position: ``face_a`` is the lower one on pads of every manufacturer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import msgspec

#: Prefix of the names of pad buttons.
PAD_PREFIX: Final = "pad-"

#: Command of each button; the positions are those of the commercial games.
PAD_BUTTONS: Final[Mapping[str, str]] = {
    "face_b": "roll",
    "rshoulder": "light_attack",
    "rtrigger": "heavy_attack",
    "ltrigger": "parry",
    "rstick": "lock_on",
    "back": "restart",
    "start": "pause",
    "dpad_up": "forward",
    "dpad_down": "backward",
    "dpad_left": "left",
    "dpad_right": "right",
}

#: All buttons of pads; triggers count as pressed from `TRIGGER_DOWN` on.
BUTTON_NAMES: Final = (
    *("face_a", "face_b", "face_x", "face_y", "lshoulder", "rshoulder", "ltrigger", "rtrigger", "lstick", "rstick"),
    *("back", "start", "guide", "dpad_up", "dpad_down", "dpad_left", "dpad_right"),
)
TRIGGER_DOWN: Final = 0.5

#: Deflections below this count as rest, because a worn stick does not return to 0.
DEAD_ZONE: Final = 0.35
#: A held direction is released only beyond this margin, so that it does not flicker at the edge of a sector.
_HOLD_RAD: Final = math.radians(6.0)
_SECTOR_RAD: Final = math.pi / 4
#: The sectors, clockwise from forward.
_SECTORS: Final[tuple[frozenset[str], ...]] = tuple(
    frozenset(names.split())
    for names in (
        "forward",
        "forward right",
        "right",
        "backward right",
        "backward",
        "backward left",
        "left",
        "forward left",
    )
)


class PadState(msgspec.Struct, frozen=True, kw_only=True):
    """Positions of the axes of a pad.

    Attributes:
        right: Left stick, -1 to 1.
        forward: Left stick, -1 to 1.
        left_trigger: 0 to 1.
        right_trigger: 0 to 1.
    """

    right: float = 0.0
    forward: float = 0.0
    left_trigger: float = 0.0
    right_trigger: float = 0.0

    @property
    def triggers(self) -> dict[str, bool]:
        """Whether each trigger is down; many pads report triggers as axes and not as buttons."""
        depths = {"ltrigger": self.left_trigger, "rtrigger": self.right_trigger}
        return {name: depth >= TRIGGER_DOWN for name, depth in depths.items()}


class Stick:
    """Conversion of a stick to the four directions of a keyboard: eight sectors and a dead zone.

    Attributes:
        held: Directions that are held.
    """

    def __init__(self) -> None:
        self.held: frozenset[str] = frozenset()

    def move(self, right: float, forward: float) -> frozenset[str]:
        """Update the position of the stick.

        Args:
            right: -1 to 1.
            forward: -1 to 1.

        Returns:
            The directions that are held.
        """
        if math.hypot(right, forward) < DEAD_ZONE:
            self.held = frozenset()
            return self.held
        angle = math.atan2(right, forward)
        if self.held:
            middle = _SECTORS.index(self.held) * _SECTOR_RAD
            if abs(math.remainder(angle - middle, math.tau)) <= _SECTOR_RAD / 2 + _HOLD_RAD:
                return self.held
        self.held = _SECTORS[round(angle / _SECTOR_RAD) % len(_SECTORS)]
        return self.held
