"""Settings of the window."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from soulslab.arena.live_fight import BUTTONS

Renderer: TypeAlias = Literal["auto", "gpu", "software"]

#: Keys, by the names of `soulslab.siphon.keys`.
KEYS = {
    "forward": "W",
    "left": "A",
    "backward": "S",
    "right": "D",
    "roll": "SPACE",
    "light_attack": "J",
    "heavy_attack": "K",
    "parry": "L",
    "lock_on": "Q",
    "restart": "R",
}
#: All that a key can be given to.
COMMANDS = (*BUTTONS, "lock_on", "restart")


class WindowSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What `soulslab arena` takes.

    Attributes:
        boss: Name of a shipped boss, or the path of a boss file.
        phase: ``"1"``, ``"2"`` or ``"full"``.
        random_pose: Draw the player's start from the ground's poses.
        seed: Of the first fight.
        size_px: Width and height of the window.
        renderer: ``gpu`` (OpenGL), ``software``, or ``auto``: OpenGL where it is fast, else software.
        title: Of the window.
        keys: Key of each command (`COMMANDS`).
        log: File that the buttons of each tick are written to; None for none.
        replay: A log that plays instead of the keyboard; None for none.
    """

    boss: str | Path = "judge"
    phase: str = "full"
    random_pose: bool = False
    seed: int = 0
    size_px: tuple[int, int] = (800, 450)
    renderer: Renderer = "auto"
    title: str = "soulslab arena"
    keys: dict[str, str] = msgspec.field(default_factory=lambda: dict(KEYS))
    log: Path | None = None
    replay: Path | None = None
