"""Reading settings: a TOML file, then overrides, then one check against the type."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from soulslab.errors import ConfigError, did_you_mean

T = TypeVar("T", bound=msgspec.Struct)

Keys = tuple[str, ...]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_AT = re.compile(r"(?P<problem>.*?)(?: - at `\$\.?(?P<path>.*)`)?", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<name>.*)`")
# What msgspec calls a type, and what a person who writes TOML calls it.
_PLAIN_NAMES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}


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
    data = {} if path is None else _read_toml(path)
    sources: dict[Keys, str] = {}
    for override in overrides:
        source = f"--set {override}"
        keys, value = _parse_override(override, source)
        _put(data, keys, value, source)
        sources[keys] = source

    def error(problem: str, place: str) -> ConfigError:
        return ConfigError(problem, path=place, source=_source_of(place, sources, file_name))

    try:
        for problem, place in _problems(data, inspect.type_info(settings_type), ""):
            raise error(problem, place)
        return msgspec.convert(data, settings_type)
    except msgspec.ValidationError as invalid:
        raise error(*_explain(str(invalid), data)) from invalid
    except RecursionError as deep:
        raise error("tables or lists are nested too deeply", "") from deep


def _read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", source=path) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"is not UTF-8 text (byte {error.start})", source=path) from error
    except (
        ValueError,
        RecursionError,
    ) as error:  # a TOMLDecodeError is a ValueError; so is a 5000-digit number
        raise ConfigError(f"is not valid TOML: {error}", source=path) from error


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


def _problems(value: Any, expected: inspect.Type, place: str) -> Iterator[tuple[str, str]]:
    """Yield each problem that msgspec does not report, or not clearly, with its place; not wrong types."""
    while isinstance(expected, inspect.Metadata):
        expected = expected.type
    struct = _struct_in(expected)
    if isinstance(value, dict) and struct is not None:
        known = {field.encode_name: field.type for field in struct.fields}
        for key, item in value.items():
            inner = f"{place}.{key}" if place else key
            if key in known:
                yield from _problems(item, known[key], inner)
            else:
                yield f"unknown setting{did_you_mean(key, known)}", inner
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _problems(item, getattr(expected, "value_type", inspect.AnyType()), f"{place}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _problems(item, getattr(expected, "item_type", inspect.AnyType()), f"{place}[{index}]")
    elif isinstance(value, float) and math.isnan(value):
        yield "is not a number (nan)", place
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        yield "is too large; whole numbers have 64 bits", place
    elif isinstance(value, str) and isinstance(expected, inspect.LiteralType) and value not in expected.values:
        yield f"{value!r} is not one of its values{did_you_mean(value, map(str, expected.values))}", place


def _struct_in(expected: inspect.Type) -> inspect.StructType | None:
    """Return the struct type that a table is meant for; also out of ``SomeStruct | None``."""
    for option in expected.types if isinstance(expected, inspect.UnionType) else (expected,):
        if isinstance(option, inspect.StructType):
            return option
    return None


def _explain(message: str, data: dict[str, Any]) -> tuple[str, str]:
    """Turn msgspec's message into a problem in plain words and the place of the setting."""
    match = _AT.fullmatch(message)
    problem, place = (match["problem"], match["path"] or "") if match else (message, "")
    missing = _MISSING.fullmatch(problem)
    if missing:
        return "is missing; it has no default", f"{place}.{missing['name']}" if place else missing["name"]
    plain = re.sub(r"`([^`]*)`", lambda quoted: _plain_type(quoted[1]), problem)
    value = _value_at(data, place)
    if ", got" not in plain and isinstance(value, str | int | float):
        plain += f", got {value!r}"
    return plain[:1].lower() + plain[1:], place


def _plain_type(name: str) -> str:
    """Return msgspec's name of a type, such as ``int | null``, in plain words."""
    return " or ".join(_PLAIN_NAMES.get(part, part) for part in name.split(" | "))


def _value_at(data: Any, place: str) -> Any:
    """Return the value at a place, or None where msgspec does not say the key (``[...]``)."""
    for name, index in re.findall(r"([^.\[\]]+)|\[(\d+|\.\.\.)\]", place):
        try:
            data = data[name] if name else data[int(index)]
        except (LookupError, TypeError, ValueError):
            return None
    return data
