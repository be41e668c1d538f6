"""Conversion of settings to TOML; loading the text gives equal settings."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from soulslab.errors import ConfigError

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def dump_settings(settings: msgspec.Struct) -> str:
    """Write settings as TOML.

    A setting with the value None is left out, because TOML has no null; its default must be None.

    Args:
        settings: A struct of text, numbers, booleans, lists, dictionaries with text keys, and such structs.

    Returns:
        TOML text with one table per nested struct or dictionary; ``load_settings`` returns equal settings for it.

    Raises:
        ConfigError: A value has another type; ``error.path`` is its setting.
    """
    return "\n".join(_table(_fields(settings), "")).strip() + "\n"


def _fields(value: Any) -> dict[str, Any]:
    """Return the entries of a struct or dictionary that are not None."""
    if isinstance(value, msgspec.Struct):
        value = {field.encode_name: getattr(value, field.name) for field in msgspec.structs.fields(value)}
    return {key: item for key, item in value.items() if item is not None}


def _table(entries: dict[str, Any], name: str) -> list[str]:
    """Return the lines of one table: first its plain entries, then a table with a header for each nested one."""
    lines: list[str] = []
    nested: list[str] = []
    for key, item in entries.items():
        inner = f"{name}.{_key(key, name)}" if name else _key(key, name)
        if isinstance(item, msgspec.Struct | dict):
            nested += ["", f"[{inner}]", *_table(_fields(item), inner)]
        else:
            lines.append(f"{_key(key, name)} = {toml_value(item, inner)}")
    return lines + nested


def _key(key: Any, place: str) -> str:
    """Return a key, quoted if necessary."""
    if not isinstance(key, str):
        raise ConfigError(f"the key {key!r} is not text and cannot be written as TOML", path=place)
    return toml_key(key)


def toml_key(key: str) -> str:
    """Return a key in TOML syntax, quoted if necessary."""
    return key if _BARE_KEY.fullmatch(key) else _text(key)


def toml_value(value: Any, place: str = "") -> str:
    """Return one value as TOML on one line.

    Args:
        value: Text, a number, a boolean, a list, a dictionary or a struct.
        place: The path of the setting, for the error.

    Raises:
        ConfigError: The value has another type.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return _text(value)
        case list() | tuple():
            return f"[{', '.join(toml_value(item, f'{place}[{i}]') for i, item in enumerate(value))}]"
        case dict() | msgspec.Struct():
            entries = (
                f"{_key(key, place)} = {toml_value(item, f'{place}.{key}')}" for key, item in _fields(value).items()
            )
            return f"{{{', '.join(entries)}}}"
    raise ConfigError(f"a {type(value).__name__} cannot be written as TOML", path=place)


def _text(text: str) -> str:
    """Return text as a TOML basic string; its escapes equal those of JSON, except for one control character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
