"""A gamepad's stick as buttons, and which of its buttons does what.

Buttons are panda3d's, which names them by their places: ``face_a`` is the lower one, on every make of pad.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

#: What the names of pad buttons begin with.
PAD_PREFIX: Final = "pad-"

#: What each button does; the same places as in the commercial games.
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

#: Below this deflection the stick rests; a worn one never comes back to 0.
DEAD_ZONE: Final = 0.35
#: A direction that is held is let go only this much later, so that it does not flutter at the edge of a sector.
_HOLD_RAD: Final = math.radians(6.0)
_SECTOR_RAD: Final = math.pi / 4
#: The sectors, from forward clockwise.
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


class Stick:
    """A stick as the directions of a keyboard: eight of them, with a dead zone.

    Attributes:
        held: Directions that are held.
    """

    def __init__(self) -> None:
        self.held: frozenset[str] = frozenset()

    def move(self, right: float, forward: float) -> frozenset[str]:
        """Take in where the stick is.

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
