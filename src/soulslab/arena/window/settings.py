"""Settings of the window."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from soulslab.arena.live_fight import BUTTONS
from soulslab.arena.window.gamepad import PAD_BUTTONS

Renderer: TypeAlias = Literal["auto", "gpu", "software"]

#: Default keys, with the names of `soulslab.siphon.keys`.
KEYS: Final[Mapping[str, str]] = {
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
    "pause": "ESC",
    "help": "F1",
    "fullscreen": "F11",
    "screenshot": "F12",
}
#: Commands that change the fight, besides the buttons.
FIGHT_COMMANDS = ("lock_on", "restart")
#: Commands of the window, which do not change the fight.
WINDOW_COMMANDS = ("pause", "help", "fullscreen", "screenshot")
#: All commands that can have a key.
COMMANDS = (*BUTTONS, *FIGHT_COMMANDS, *WINDOW_COMMANDS)

MIN_SIZE_PX = 64
MAX_SIZE_PX = 8192


class WindowSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the game program.

    Attributes:
        boss: Name of a shipped boss, or the path of a boss file.
        phase: ``"1"``, ``"2"`` or ``"full"``.
        random_pose: Draw the player's start from the ground's poses.
        seed: Seed of the first fight.
        speed: Factor of game time at the start.
        size_px: Width and height of the window.
        renderer: ``gpu`` (OpenGL), ``software``, or ``auto``: OpenGL with hardware support, otherwise software.
        title: Title of the window.
        keys: Key of each command (`COMMANDS`).
        pad: Command of each pad button (`soulslab.arena.window.gamepad`).
        is_fullscreen: Start in full screen.
        shows_help: Show the list of keys at the start.
        shows_buttons: Show the buttons in use, for watching a policy or a replay.
        folder: Folder of screenshots.
        log: Path of the key log; None for no log.
    """

    boss: str | Path = "judge"
    phase: str = "full"
    random_pose: bool = False
    seed: int = 0
    speed: float = 1.0
    size_px: tuple[int, int] = (800, 450)
    renderer: Renderer = "auto"
    title: str = "soulslab arena"
    keys: dict[str, str] = msgspec.field(default_factory=lambda: dict(KEYS))
    pad: dict[str, str] = msgspec.field(default_factory=lambda: dict(PAD_BUTTONS))
    is_fullscreen: bool = False
    shows_help: bool = True
    shows_buttons: bool = False
    folder: Path = Path()
    log: Path | None = None
