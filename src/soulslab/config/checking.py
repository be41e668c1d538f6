"""Validation of data against a type: reports the first mistake, with its place, in plain words."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import inspect

from soulslab.config.writing import toml_key
from soulslab.errors import SoulslabError, cut, did_you_mean

T = TypeVar("T", bound=msgspec.Struct)

#: `msgspec.inspect.type_info` with a cache: a call takes milliseconds, and the same types are described many times.
type_info = lru_cache(maxsize=128)(inspect.type_info)

_AT = re.compile(r"(?P<problem>.*?)(?: - at `\$\.?(?P<path>.*)`)?", re.DOTALL)
_STEPS = re.compile(r"([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_MISSING = re.compile(r"Object missing required field `(?P<name>.*)`")
# Names of types in msgspec's messages, and their plain names for users.
_PLAIN_NAMES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}


def check(data: dict[str, Any], settings_type: type[T], error: Callable[[str, str], SoulslabError]) -> T:
    """Convert tables, as read by `tomllib`, to a struct.

    A struct may name settings that no longer exist in a class variable ``removed``.

    Raises:
        SoulslabError: The exception that `error` returns for the problem and the place of the first mistake, such as
            ``attributes."player.hp".offsets[2]``.
    """
    try:
        for problem, place in _problems(data, type_info(settings_type), ""):
            raise error(problem, place)
        return msgspec.convert(data, settings_type)
    except msgspec.ValidationError as invalid:
        raise error(*_explain(str(invalid), data, settings_type)) from invalid
    except RecursionError as deep:
        raise error("tables or lists are nested too deeply", "") from deep


def short(value: object) -> str:
    """Return the representation of a value for a message, shortened if it is long."""
    return cut(repr(value), 100)


def join_place(place: str, key: str) -> str:
    """Return the place of a key in the table at a place."""
    return f"{place}.{toml_key(key)}" if place else toml_key(key)


def _problems(value: Any, expected: inspect.Type, place: str) -> Iterator[tuple[str, str]]:
    """Yield problems, with their places, that msgspec does not report clearly; wrong types are left to msgspec."""
    while isinstance(expected, inspect.Metadata):
        expected = expected.type
    if isinstance(value, dict):
        yield from _table_problems(value, expected, place)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _problems(item, getattr(expected, "item_type", inspect.AnyType()), f"{place}[{index}]")
    elif isinstance(value, float) and math.isnan(value):
        yield "is not a number (nan)", place
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        yield "is too large for a 64-bit integer", place
    elif (choices := _choices(expected)) and type(value) in {str, *map(type, choices)} and value not in choices:
        # A value may be known as a number and as text.
        known = dict.fromkeys(map(str, choices))
        yield f"{short(value)} is not one of its values{did_you_mean(str(value), known)}", place


def _table_problems(table: dict[Any, Any], expected: inspect.Type, place: str) -> Iterator[tuple[str, str]]:
    """Yield the problems of a table for a struct or a dictionary."""
    struct = _struct_in(expected)
    known = {field.encode_name: field.type for field in struct.fields} if struct else {}
    forbids = struct is not None and struct.forbid_unknown_fields
    removed = getattr(struct.cls, "removed", ()) if struct else ()
    for key, item in table.items():
        if not isinstance(key, str):
            yield f"{short(key)} is not a text key", place
            continue
        inner = join_place(place, key)
        if key in known:
            yield from _problems(item, known[key], inner)
        elif key in removed:
            yield "is a setting of an earlier soulslab; remove it", inner
        elif forbids:
            yield f"unknown setting{did_you_mean(key, known)}", inner
        else:
            yield from _problems(item, getattr(expected, "value_type", inspect.AnyType()), inner)


def _struct_in(expected: inspect.Type) -> inspect.StructType | None:
    """Return the struct type for a table, also from ``SomeStruct | None``."""
    for option in expected.types if isinstance(expected, inspect.UnionType) else (expected,):
        if isinstance(option, inspect.StructType):
            return option
    return None


def _choices(expected: inspect.Type) -> tuple[Any, ...]:
    """Return the values of a literal type, which may be optional; empty for other types."""
    options = expected.types if isinstance(expected, inspect.UnionType) else (expected,)
    options = tuple(option for option in options if not isinstance(option, inspect.NoneType))
    literals = [option for option in options if isinstance(option, inspect.LiteralType)]
    return tuple(value for option in literals for value in option.values) if len(literals) == len(options) else ()


def _explain(message: str, data: dict[str, Any], settings_type: type[msgspec.Struct]) -> tuple[str, str]:
    """Convert a message of msgspec to a problem in plain words and the place of the setting."""
    match = _AT.fullmatch(message)
    problem, path = (match["problem"], match["path"] or "") if match else (message, "")
    place, value = _locate(data, settings_type, _STEPS.findall(path))
    missing = _MISSING.fullmatch(problem)
    if missing:
        return "is missing; it has no default", join_place(place, missing["name"])
    plain = re.sub(r"`([^`]*)`", lambda quoted: _plain_type(quoted[1]), problem)
    if ", got" not in plain and isinstance(value, str | int | float):
        plain += f", got {short(value)}"
    return plain[:1].lower() + plain[1:], place


def _plain_type(name: str) -> str:
    """Return the plain words for a type name of msgspec, such as ``int | null``."""
    return " or ".join(_PLAIN_NAMES.get(part, part) for part in name.split(" | "))


def _locate(value: Any, expected: Any, steps: Sequence[tuple[str, str]]) -> tuple[str, Any]:
    """Return the place and the value at a path of msgspec; for ``[...]``, find the key by trying each one."""
    place = ""
    for name, index in steps:
        expected = _container(expected)
        if name:
            place, value = join_place(place, name), value[name]
            expected = get_type_hints(expected, include_extras=True)[name]
        elif index == "...":
            expected = get_args(expected)[1]
            key = next(key for key, item in value.items() if not _fits(item, expected))
            place, value = join_place(place, key), value[key]
        else:
            place, value = f"{place}[{index}]", value[int(index)]
            items = get_args(expected)
            expected = items[0] if len(items) == 1 or items[-1] is ... else items[int(index)]
    return place, value


def _container(annotation: Any) -> Any:
    """Return the struct, dictionary, list or tuple type inside Annotated or a union."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _container(get_args(annotation)[0])
    if origin in (Union, UnionType):
        options = [_container(option) for option in get_args(annotation)]
        return next((option for option in options if get_origin(option) or _is_struct(option)), options[0])
    return annotation


def _is_struct(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, msgspec.Struct)


def _fits(value: Any, expected: Any) -> bool:
    """Return whether a value is valid for a type."""
    try:
        msgspec.convert(value, expected)
    except msgspec.ValidationError:
        return False
    return True
