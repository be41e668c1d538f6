"""Colours of the picture from above, and the appearance of each boss."""

from __future__ import annotations

from typing import Literal

import msgspec

from soulslab.arena.boss_file import Boss
from soulslab.arena.picture.canvas import Colour

STEEL: Colour = (158, 164, 176)
DARK_STEEL: Colour = (92, 98, 112)
CRIMSON: Colour = (148, 30, 34)
LEATHER: Colour = (92, 66, 44)
BLADE: Colour = (226, 232, 240)
WOOD: Colour = (94, 66, 42)
LIGHT_BLUE: Colour = (150, 215, 255)
GOLD: Colour = (255, 206, 96)

Body = Literal["halberd", "daggers", "beast"]


class Look(msgspec.Struct, frozen=True):
    """Appearance of a boss.

    ``glow`` is the colour of its eyes, and of its effects in the second phase; ``tint`` is that of the ground.
    """

    body: Body
    cloth: Colour
    armour: Colour
    glow: Colour
    tint: tuple[float, float, float]


_LOOKS: dict[Body, Look] = {
    "halberd": Look("halberd", (58, 46, 74), (166, 128, 70), (255, 120, 40), (1.0, 0.96, 0.91)),
    "daggers": Look("daggers", (172, 166, 158), (196, 160, 92), (206, 130, 255), (0.97, 0.95, 1.02)),
    "beast": Look("beast", (128, 152, 176), (214, 230, 242), (110, 220, 255), (0.88, 0.98, 1.12)),
}
#: A boss with a larger radius is drawn as a beast.
BEAST_RADIUS_M = 1.1


def look_of(boss: Boss) -> Look:
    """Return the appearance of a boss, derived from its size and moves, as boss files do not describe it."""
    if boss.radius_m > BEAST_RADIUS_M:
        return _LOOKS["beast"]
    throws = any(window.projectile is not None for move in boss.moves for window in move.windows)
    return _LOOKS["daggers" if throws else "halberd"]
