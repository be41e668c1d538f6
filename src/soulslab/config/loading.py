"""Loading of settings: read a TOML file, apply overrides, and validate the result once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from soulslab.config.checking import check
from soulslab.config.input_files import parse_toml, read_text
from soulslab.errors import ConfigError

T = TypeVar("T", bound=msgspec.Struct)

Keys = tuple[str, ...]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def load_settings(settings_type: type[T], path: Path | None, overrides: Sequence[str] = ()) -> T:
    """Load settings from a TOML file and from overrides, which take precedence.

    Args:
        settings_type: A frozen ``msgspec.Struct`` type with ``forbid_unknown_fields``.
        path: The file; None uses the defaults.
        overrides: Strings ``"a.b=value"``, as after ``--set``. The value is parsed as TOML; a plain word that is not
            TOML (``judge``, ``runs/x``) is text. A later override takes precedence.

    Raises:
        ConfigError: The file cannot be read or is malformed, or a setting is unknown, missing, of the wrong
            type or out of range. ``error.path`` is the setting, ``error.source`` the file or override.
    """
    file_name = str(path) if path is not None else ""
    data = read_toml(path) if path is not None else {}
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
    """Parse overrides ``"a.b=value"`` without a file, as `load_settings` does; names with dots give nested tables.

    Raises:
        ConfigError: An override is malformed; ``error.source`` is the override after its `flag`.
    """
    data: dict[str, Any] = {}
    for override in overrides:
        source = f"{flag} {override}"
        _put(data, *_parse_override(override, source), source)
    return data


def read_toml(path: Path, error_type: type[ConfigError] = ConfigError) -> dict[str, Any]:
    """Return the tables of a TOML file; raise `error_type` if it cannot be read, or exceeds a limit of its reader."""
    fail = partial(error_type, source=path)
    return parse_toml(read_text(path, fail), fail)


def _parse_override(text: str, source: str) -> tuple[Keys, Any]:
    """Split ``a.b=value`` into its keys and its value."""
    name, equals, value = text.partition("=")
    keys = tuple(part.strip() for part in name.split("."))
    if not equals or not all(_BARE_KEY.fullmatch(key) for key in keys):
        raise ConfigError("is not of the form name.of.setting=value", source=source)
    value = value.strip()
    if not value:
        raise ConfigError("has no value; write '' for empty text", path=name.strip(), source=source)
    try:
        parsed = tomllib.loads(f"value = {value}")
    except (ValueError, RecursionError) as error:
        if value[0] in "[{\"'" or not value.isprintable():
            raise ConfigError(f"has a malformed value: {error}", path=name.strip(), source=source) from error
        return keys, value
    if parsed.keys() != {"value"}:
        raise ConfigError("has more than one line; use one --set for each setting", source=source)
    return keys, parsed["value"]


def _put(data: dict[str, Any], keys: Keys, value: Any, source: str) -> None:
    """Set a value in nested tables, and create missing tables."""
    table = data
    for depth, key in enumerate(keys[:-1], start=1):
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise ConfigError("is a value, not a table of settings", path=".".join(keys[:depth]), source=source)
    table[keys[-1]] = value


def _source_of(place: str, sources: dict[Keys, str], file_name: str) -> str:
    """Return the source of the setting at a place: the last override that contains it, or the file."""
    for keys, source in reversed(sources.items()):
        name = ".".join(keys)
        shorter, longer = sorted((name, place), key=len)
        if longer == shorter or longer.startswith((f"{shorter}.", f"{shorter}[")):
            return source
    return file_name
