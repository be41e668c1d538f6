"""The command of a profile: its options, and the text that replaces them. It is the same on all platforms."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import PurePath

from soulslab.errors import ConfigError, did_you_mean
from soulslab.siphon.profile import Process

#: Audio backends without a device, which would pace the game; used in lockstep or on a private display, unless the
#: profile sets the variables.
SILENT = {
    "SDL_AUDIODRIVER": "dummy",  # SDL 1.2 and 2
    "SDL_AUDIO_DRIVER": "dummy",  # SDL 3
    "ALSOFT_DRIVERS": "null",  # OpenAL Soft
    "ALSA_CONFIG_PATH": os.devnull,
    "PULSE_SERVER": "unix:/dev/null",
    "PIPEWIRE_REMOTE": os.devnull,
    "JACK_NO_START_SERVER": "1",
}
_MAX_OPTION_CHARACTERS = 4096
_PLACE = re.compile(r"\{(\w+)\}")


def check_options(process: Process, options: Mapping[str, str]) -> None:
    """Raise `ConfigError` if the profile has no such option, or a value is not valid on a command line."""
    for name, value in options.items():
        if name not in process.options:
            raise ConfigError(f"unknown option{did_you_mean(name, process.options)}", path=f"options.{name:.64}")
        if "\0" in value or len(value) > _MAX_OPTION_CHARACTERS:
            raise ConfigError(
                f"has a zero character or more than {_MAX_OPTION_CHARACTERS} characters", path=f"options.{name}"
            )


def fill_command(process: Process, options: Mapping[str, str], directory: PurePath) -> tuple[list[str], dict[str, str]]:
    """Return the command and the variables of a profile, with the values of its options in place of their names.

    ``{directory}`` stands for the private folder of the game. Raises `ConfigError` as `check_options`, for an unknown
    name, and if the profile has no command.
    """
    if not process.command:
        raise ConfigError("is empty, so this game cannot be started; start it yourself", path="process.command")
    check_options(process, options)
    values = {**process.options, **options, "directory": str(directory)}
    command = [_fill(text, values, f"process.command[{i}]") for i, text in enumerate(process.command)]
    variables = {name: _fill(text, values, f"process.environment.{name}") for name, text in process.environment.items()}
    return command, variables


def _fill(text: str, values: Mapping[str, str], path: str) -> str:
    """Return a text with ``{name}`` placeholders replaced."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in values:
            raise ConfigError(f"unknown option {{{name}}}{did_you_mean(name, values)}", path=path)
        return values[name]

    return _PLACE.sub(value, text)
