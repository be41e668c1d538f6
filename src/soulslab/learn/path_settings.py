"""Settings that are paths, which the files of a run store as absolute paths: it may be resumed from any folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from soulslab.learn.settings import AlgorithmSettings

S = TypeVar("S", bound=AlgorithmSettings)
IsPath: TypeAlias = Callable[[Path], bool]

_PATHS: Final[dict[str, IsPath]] = {
    "run.start_from": Path.exists,
    "learner.teacher": Path.exists,
    "demonstrations.path": Path.exists,
    "env.options.boss": lambda path: path.suffix == ".toml",
    "env.options.folder": Path.exists,
    "env.options.mask": Path.is_file,
    "env.options.profile": Path.is_file,
    "env.options.proton": Path.exists,
    "env.options.tls": Path.exists,
    "env.options.token_file": Path.exists,
}
"""Settings that may be paths, and whether a value is one, or the name of a boss, a game, a policy or a data set."""


def with_absolute_paths(settings: S) -> S:
    """Return the settings of a run with absolute paths; relative paths belong to the working directory."""
    changed: dict[str, Any] = {
        "env": msgspec.structs.replace(settings.env, options=absolute_options(settings.env.options))
    }
    for place in ("run.start_from", "learner.teacher", "demonstrations.path"):
        name, _, key = place.partition(".")
        table: Any = getattr(settings, name, None)
        if value := getattr(table, key, ""):
            changed[name] = msgspec.structs.replace(table, **{key: absolute_paths(place, value)})
    return msgspec.structs.replace(settings, **changed)


def absolute_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of an environment with absolute paths; relative paths belong to the working directory."""
    return dict(absolute_paths("env.options", options))


def absolute_paths(place: str, value: Any) -> Any:
    """Return the value of a setting, such as ``env.options.boss`` or ``env.options``, with absolute paths."""
    return _change_paths(place, value, _absolute)


def without_folders(place: str, value: Any) -> Any:
    """Return the value of a setting with only the last part of each path.

    Settings are compared in this form, because the files of a run may have been moved.
    """
    return _change_paths(place, value, lambda text, _: Path(text).name)


def _change_paths(place: str, value: Any, change: Callable[[str, IsPath], str]) -> Any:
    if place == "env.options" and isinstance(value, Mapping):
        return {name: _change_paths(f"{place}.{name}", each, change) for name, each in value.items()}
    if place not in _PATHS or not value:
        return value
    if isinstance(value, list | tuple):  # a value for each game
        return [_change_paths(place, each, change) for each in value]
    return change(value, _PATHS[place]) if isinstance(value, str) else value


def _absolute(text: str, is_path: IsPath) -> str:
    try:
        return str(Path(text).resolve()) if is_path(Path(text)) else text
    except (OSError, ValueError):  # too long, or with a zero byte: it is reported when the file is opened
        return text
