"""panda3d's names of the keys of `soulslab.siphon.keys`, and the configuration of keys and pad buttons.

Keys are identified by position, as in commercial games: panda3d reports positions by events with the prefix ``raw-``,
named after the American keyboard layout.
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

# Keys whose name in panda3d is not ours in lower case.
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
#: Keys that panda3d reports as other keys: a keypad key is reported as the digit or sign that it types.
_AMBIGUOUS_KEYS: Final = frozenset(name for name in KEYS if name.startswith("KEYPAD_"))

PANDA_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {name: _OTHER_NAMES.get(name, name.lower()) for name in KEYS if name not in _AMBIGUOUS_KEYS}
)
"""panda3d's name of each key."""


def key_names(chosen: Mapping[str, str], changes: Mapping[str, str], source: str) -> dict[str, str]:
    """Return the key of each command after applying changes.

    Args:
        chosen: Key of each command.
        changes: New keys of some commands.
        source: Origin of the changes, for error messages.

    Raises:
        ConfigError: A command or key does not exist, or a key would have two commands.
    """
    return _changed(chosen, changes, "key", PANDA_NAMES, source)


def pad_names(chosen: Mapping[str, str], changes: Mapping[str, str], source: str) -> dict[str, str]:
    """Return the command of each pad button after applying changes.

    Args:
        chosen: Command of each button.
        changes: New buttons of some commands, by command.
        source: Origin of the changes, for error messages.

    Raises:
        ConfigError: A command or button does not exist, or a button would have two commands.
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
                f"{key} is already the {what} of {owners[key]}; choose another one for one of them",
                path=place + command,
                source=source,
            )
        owners[key] = command
    return after


def read_keys(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Read a TOML file with the key of each command, and with the pad buttons in its table ``pad``.

    ::

        roll = "LEFT_SHIFT"

        [pad]
        roll = "face_a"

    Returns:
        The keys and the buttons, by command.

    Raises:
        ConfigError: The file cannot be read, or is invalid.
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
