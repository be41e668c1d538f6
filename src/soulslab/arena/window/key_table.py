"""The keys of `soulslab.siphon.keys` by panda3d's names, and reading which key does what.

Keys are places on the keyboard, as commercial games bind them: panda3d tells places by events that begin with ``raw-``,
named by what an American keyboard prints there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from soulslab.arena.window.gamepad import BUTTON_NAMES
from soulslab.arena.window.settings import COMMANDS
from soulslab.config.loading import read_toml
from soulslab.errors import ConfigError, did_you_mean
from soulslab.siphon.keys import KEYS

# Where panda3d's name is not the lower case of ours.
_OTHER_NAMES: Final = {
    "ESC": "escape",
    "MINUS": "-",
    "EQUALS": "=",
    "LEFT_BRACKET": "[",
    "RIGHT_BRACKET": "]",
    "LEFT_CTRL": "lcontrol",
    "RIGHT_CTRL": "rcontrol",
    "SEMICOLON": ";",
    "APOSTROPHE": "'",
    "GRAVE": "`",
    "LEFT_SHIFT": "lshift",
    "RIGHT_SHIFT": "rshift",
    "BACKSLASH": "\\",
    "COMMA": ",",
    "PERIOD": ".",
    "SLASH": "/",
    "LEFT_ALT": "lalt",
    "RIGHT_ALT": "ralt",
    "ANGLE_BRACKET": "<",
    "CAPSLOCK": "caps_lock",
    "NUMLOCK": "num_lock",
    "SCROLLLOCK": "scroll_lock",
    "UP_ARROW": "arrow_up",
    "DOWN_ARROW": "arrow_down",
    "LEFT_ARROW": "arrow_left",
    "RIGHT_ARROW": "arrow_right",
    "LEFT_SUPER": "lmeta",
    "RIGHT_SUPER": "rmeta",
    "MOUSE_LEFT": "mouse1",
    "MOUSE_MIDDLE": "mouse2",
    "MOUSE_RIGHT": "mouse3",
    "MOUSE_4": "mouse4",
    "MOUSE_5": "mouse5",
    "MOUSE_WHEEL_UP": "wheel_up",
    "MOUSE_WHEEL_DOWN": "wheel_down",
}
#: Keys that panda3d does not tell from others: it takes the keypad for the digits and signs that it types.
_TWINS: Final = frozenset(name for name in KEYS if name.startswith("KEYPAD_"))

PANDA_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {name: _OTHER_NAMES.get(name, name.lower()) for name in KEYS if name not in _TWINS}
)
"""panda3d's name of each key."""


def key_names(chosen: Mapping[str, str], changes: Mapping[str, str], source: str) -> dict[str, str]:
    """Return the key of each command, after some changes.

    Args:
        chosen: Key of each command.
        changes: New keys of some.
        source: Where the changes come from, for errors.

    Raises:
        ConfigError: There is no such command or key, or a key would do two things.
    """
    return _changed(chosen, changes, "key", PANDA_NAMES, source)


def pad_names(chosen: Mapping[str, str], changes: Mapping[str, str], source: str) -> dict[str, str]:
    """Return the command of each button of a pad, after some changes.

    Args:
        chosen: Command of each button.
        changes: New buttons of some commands, by the command.
        source: Where the changes come from, for errors.

    Raises:
        ConfigError: There is no such command or button, or a button would do two things.
    """
    before = {command: button for button, command in chosen.items()}
    after = _changed(before, changes, "pad button", BUTTON_NAMES, source, "pad.")
    return {button: command for command, button in after.items()}


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
                f"{key} is the {what} of {owners[key]} already; give one of them another",
                path=place + command,
                source=source,
            )
        owners[key] = command
    return after


def read_keys(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Read a TOML file with the key of each action, and in its table ``pad`` the buttons of pads.

    ::

        roll = "LEFT_SHIFT"

        [pad]
        roll = "face_a"

    Returns:
        The keys and the buttons, by the action.

    Raises:
        ConfigError: It cannot be read, or holds something else.
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
