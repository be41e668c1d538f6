"""Settings of the window: its keys and pad buttons, with panda3d's names of them, and its other options.

Keys are identified by position, as in commercial games: panda3d reports positions by events with the prefix ``raw-``,
named after the American keyboard layout.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import msgspec

from soulslab.config.loading import read_toml
from soulslab.errors import ConfigError, did_you_mean
from soulslab.siphon.keys import KEYS as ALL_KEYS

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
#: All commands that can have a key, and those of the window, which do not change the fight.
COMMANDS = tuple(KEYS)
WINDOW_COMMANDS = ("pause", "help", "fullscreen", "screenshot")

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

#: All buttons of pads.
BUTTON_NAMES: Final = (
    *("face_a", "face_b", "face_x", "face_y", "lshoulder", "rshoulder", "ltrigger", "rtrigger", "lstick", "rstick"),
    *("back", "start", "guide", "dpad_up", "dpad_down", "dpad_left", "dpad_right"),
)

#: panda3d's name of each button and trigger of `soulslab.siphon.pad`.
PANDA_CONTROLS: Final = {
    **{name: f"face_{name.lower()}" for name in ("A", "B", "X", "Y")},
    **{name: name.lower() for name in ("BACK", "START", "GUIDE", "DPAD_UP", "DPAD_DOWN", "DPAD_LEFT", "DPAD_RIGHT")},
    **{
        f"{side}_{control}": f"{side[0].lower()}{name}"
        for side in ("LEFT", "RIGHT")
        for control, name in (("BUMPER", "shoulder"), ("TRIGGER", "trigger"), ("STICK", "stick"))
    },
}

MIN_SIZE_PX = 64
MAX_SIZE_PX = 8192

# Keys whose name in panda3d is not ours in lower case.
_OTHER_NAMES: Final = {
    "ESC": "escape",
    "MINUS": "-",
    "EQUALS": "=",
    "LEFT_BRACKET": "[",
    "RIGHT_BRACKET": "]",
    "SEMICOLON": ";",
    "APOSTROPHE": "'",
    "GRAVE": "`",
    "BACKSLASH": "\\",
    "COMMA": ",",
    "PERIOD": ".",
    "SLASH": "/",
    "ANGLE_BRACKET": "<",
    "MOUSE_WHEEL_UP": "wheel_up",
    "MOUSE_WHEEL_DOWN": "wheel_down",
    **{f"{lock}LOCK": f"{lock.lower()}_lock" for lock in ("CAPS", "NUM", "SCROLL")},
    **{f"{way}_ARROW": f"arrow_{way.lower()}" for way in ("UP", "DOWN", "LEFT", "RIGHT")},
    **{f"MOUSE_{button}": f"mouse{i}" for i, button in enumerate(("LEFT", "MIDDLE", "RIGHT", "4", "5"), start=1)},
    **{
        f"{side}_{key}": f"{side[0].lower()}{name}"
        for side in ("LEFT", "RIGHT")
        for key, name in (("CTRL", "control"), ("SHIFT", "shift"), ("ALT", "alt"), ("SUPER", "meta"))
    },
}
#: Keys that panda3d reports as other keys: a keypad key is reported as the digit or sign that it types.
_AMBIGUOUS_KEYS: Final = frozenset(name for name in ALL_KEYS if name.startswith("KEYPAD_"))

PANDA_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {name: _OTHER_NAMES.get(name, name.lower()) for name in ALL_KEYS if name not in _AMBIGUOUS_KEYS}
)
"""panda3d's name of each key."""


class WindowSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the game program.

    Attributes:
        boss: Name of a shipped boss, ``generated:SEED``, or the path of a boss file.
        speed: Factor of game time at the start.
        renderer: ``gpu`` (OpenGL), ``software``, or ``auto``: OpenGL with hardware support, otherwise software.
        keys: Key of each command (`COMMANDS`).
        pad: Command of each pad button (`BUTTON_NAMES`).
        shows_buttons: Show the buttons in use, for watching a policy or a replay.
        folder: Folder of screenshots.
        log: Path of the key log.
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


def key_names(chosen: Mapping[str, str], changes: Mapping[str, str], source: str) -> dict[str, str]:
    """Return the key of each command after applying changes of some commands; ``source`` is their origin.

    Raises `ConfigError` if a command or key does not exist, or a key would have two commands.
    """
    return _changed(chosen, changes, "key", PANDA_NAMES, source)


def pad_names(chosen: Mapping[str, str], changes: Mapping[str, str], source: str) -> dict[str, str]:
    """Return the command of each pad button after applying changes, which have new buttons by command.

    Raises `ConfigError` if a command or button does not exist, or a button would have two commands.
    """
    before = {command: button for button, command in chosen.items()}
    after = _changed(before, changes, "pad button", BUTTON_NAMES, source, "pad.")
    return {button: command for command, button in after.items()}


def pad_of_profile(controls: Mapping[str, str]) -> dict[str, str]:
    """Return the command of each pad button, where a profile's controls (`Profile.pad`) replace the default buttons.

    The left stick always has the directions, so a direction with another control of a profile has both.
    """
    own = {
        PANDA_CONTROLS[control]: command
        for command, control in controls.items()
        if command in COMMANDS and control in PANDA_CONTROLS
    }
    kept = {button: command for button, command in PAD_BUTTONS.items() if command not in own.values()}
    return kept | own


def _changed(
    chosen: Mapping[str, str],
    changes: Mapping[str, str],
    what: str,
    known: Collection[str],
    source: str,
    place: str = "",
) -> dict[str, str]:
    after = dict(chosen)
    for command, key in changes.items():
        path = place + command
        if command not in COMMANDS:
            raise ConfigError(f"there is no such action{did_you_mean(command, COMMANDS)}", path=path, source=source)
        if key not in known:
            raise ConfigError(f"there is no {what} {key!r}{did_you_mean(key, known)}", path=path, source=source)
        after[command] = key
    owners: dict[str, str] = {}
    for command, key in after.items():
        if key in owners:
            raise ConfigError(
                f"{key} is already the {what} of {owners[key]}; choose another one for one of them",
                path=place + command,
                source=source,
            )
        owners[key] = command
    return after


def read_keys(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Return the keys and the pad buttons, by command, of a TOML file: ``roll = "LEFT_SHIFT"``, buttons in ``[pad]``.

    Raises `ConfigError` if the file cannot be read, or is invalid.
    """
    data = read_toml(path)
    pad = data.pop("pad", {})
    if not isinstance(pad, dict):
        raise ConfigError("must be a table", path="pad", source=path)
    for place, table in (("", data), ("pad.", pad)):
        for command, key in table.items():
            if not isinstance(key, str):
                raise ConfigError(f"must be a name, not {key!r}", path=place + command, source=path)
    return data, pad
