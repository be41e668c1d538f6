"""Reading settings: a TOML file, then overrides, then one check against the type."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from soulslab.config.checking import check
from soulslab.config.input_files import read_toml_table
from soulslab.errors import ConfigError

T = TypeVar("T", bound=msgspec.Struct)

Keys = tuple[str, ...]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def load_settings(settings_type: type[T], path: Path | None, overrides: Sequence[str] = ()) -> T:
    """Read settings from a TOML file and from overrides, which win over the file.

    Args:
        settings_type: A frozen ``msgspec.Struct`` type with ``forbid_unknown_fields``.
        path: The file; None takes every setting from its default.
        overrides: Each ``"a.b=value"``, as after ``--set``. The value is read as TOML; a plain word that
            is no TOML value (``judge``, ``runs/x``) is text. A later override wins.

    Returns:
        The settings, complete and checked.

    Raises:
        ConfigError: The file cannot be read or is malformed, or a setting is unknown, missing, of the wrong
            type or out of range. ``error.path`` says which, ``error.source`` where it was set.
    """
    file_name = "" if path is None else str(path)
    data = {} if path is None else read_toml(path)
    sources: dict[Keys, str] = {}
    for override in overrides:
        source = f"--set {override}"
        keys, value = _parse_override(override, source)
        _put(data, keys, value, source)
        sources[keys] = source

    def error(problem: str, place: str) -> ConfigError:
        return ConfigError(problem, path=place, source=_source_of(place, sources, file_name))

    return check(data, settings_type, error)


def read_overrides(overrides: Sequence[str], flag: str) -> dict[str, Any]:
    """Read overrides alone, as `load_settings` does.

    Args:
        overrides: Each ``"a.b=value"``.
        flag: Of the command line that they were given with, for errors.

    Returns:
        Their values, in tables within tables where a name has dots.

    Raises:
        ConfigError: One is malformed; ``error.source`` says which.
    """
    data: dict[str, Any] = {}
    for override in overrides:
        source = f"{flag} {override}"
        _put(data, *_parse_override(override, source), source)
    return data


def read_toml(path: Path, error_type: type[ConfigError] = ConfigError) -> dict[str, Any]:
    """Return the tables of a TOML file.

    Args:
        path: The file.
        error_type: What to raise.

    Raises:
        ConfigError: It cannot be read, is not UTF-8 or not TOML, or exceeds a limit of `soulslab.config.input_files`.
    """
    return read_toml_table(path, partial(error_type, source=path))


def _parse_override(text: str, source: str) -> tuple[Keys, Any]:
    """Split ``a.b=value`` into its keys and its value."""
    name, equals, value = text.partition("=")
    keys = tuple(part.strip() for part in name.split("."))
    if not equals or not all(_BARE_KEY.fullmatch(key) for key in keys):
        raise ConfigError("is not of the form name.of.setting=value", source=source)
    value = value.strip()
    if not value:
        raise ConfigError("has no value; empty text is written ''", path=name.strip(), source=source)
    try:
        parsed = tomllib.loads(f"value = {value}")
    except (ValueError, RecursionError) as error:
        if value[0] in "[{\"'" or not value.isprintable():
            raise ConfigError(f"has a malformed value: {error}", path=name.strip(), source=source) from error
        return keys, value
    if parsed.keys() != {"value"}:
        raise ConfigError("has more than one line; give each setting its own --set", source=source)
    return keys, parsed["value"]


def _put(data: dict[str, Any], keys: Keys, value: Any, source: str) -> None:
    """Set a value in nested tables, making those that are missing."""
    table = data
    for depth, key in enumerate(keys[:-1], start=1):
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise ConfigError("is a value and has no settings of its own", path=".".join(keys[:depth]), source=source)
    table[keys[-1]] = value


def _source_of(place: str, sources: dict[Keys, str], file_name: str) -> str:
    """Return where the setting at a place was set: by the last override that touches it, or the file."""
    for keys, source in reversed(sources.items()):
        name = ".".join(keys)
        shorter, longer = sorted((name, place), key=len)
        if longer == shorter or longer.startswith((f"{shorter}.", f"{shorter}[")):
            return source
    return file_name
