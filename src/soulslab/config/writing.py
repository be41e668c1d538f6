"""Settings as text: TOML, from which equal settings are loaded, and rows for the documentation."""

from __future__ import annotations

import json
import re
from typing import Any

import docstring_parser
import msgspec
from msgspec import inspect

from soulslab.errors import ConfigError

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")

_NAMES: dict[type[inspect.Type], str] = {
    inspect.IntType: "integer",
    inspect.FloatType: "number",
    inspect.BoolType: "boolean",
    inspect.StrType: "text",
    inspect.AnyType: "any value",
    inspect.NoneType: "unset",
}
_BOUNDS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}
#: Larger bounds are not shown: they only keep numbers within the limits of files and messages.
_MAX_BOUND = 2**53


def dump_settings(settings: msgspec.Struct) -> str:
    """Write settings as TOML.

    A setting with the value None is left out, because TOML has no null; its default must be None.

    Args:
        settings: A struct of text, numbers, booleans, lists, dictionaries with text keys, and such structs.

    Returns:
        TOML text, for which ``load_settings`` returns equal settings.

    Raises:
        ConfigError: A value has another type.
    """
    return "\n".join(_table(_fields(settings), "")).strip() + "\n"


def _fields(value: Any) -> dict[str, Any]:
    """Return the entries of a struct or dictionary that are not None."""
    if isinstance(value, msgspec.Struct):
        value = {field.encode_name: getattr(value, field.name) for field in msgspec.structs.fields(value)}
    return {key: item for key, item in value.items() if item is not None}


def _table(entries: dict[str, Any], name: str) -> list[str]:
    """Return the lines of one table: first its plain entries, then a table with a header for each nested struct."""
    lines: list[str] = []
    nested: list[str] = []
    for key, item in entries.items():
        inner = f"{name}.{_key(key, name)}" if name else _key(key, name)
        if isinstance(item, msgspec.Struct | dict):
            nested += ["", f"[{inner}]", *_table(_fields(item), inner)]
        elif isinstance(item, list | tuple) and item and all(isinstance(one, msgspec.Struct) for one in item):
            for one in item:
                nested += ["", f"[[{inner}]]", *_table(_fields(one), inner)]
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
    """Return one value as TOML on one line; `place` is the path of the setting, for the `ConfigError`."""
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


class Setting(msgspec.Struct, frozen=True):
    """Description of one setting.

    Attributes:
        path: Name in files and after ``--set``: ``learner.lr``.
        type: Type and range in words: ``number > 0``.
        default: Default as TOML; "" if a value is required, "unset" if the setting may be left out.
        doc: Meaning: ``Meta(description=...)``, otherwise the entry under ``Attributes`` in the docstring of the
            struct or its bases; "" if neither exists.
    """

    path: str
    type: str
    default: str
    doc: str


def describe_settings(settings_type: type[msgspec.Struct]) -> list[Setting]:
    """Return a row for each setting of a type, in the order of the fields, including nested structs."""
    info = inspect.type_info(settings_type)
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"{settings_type!r} is not a msgspec.Struct type")
    return _rows(info, "")


def _rows(struct: inspect.StructType, prefix: str) -> list[Setting]:
    rows: list[Setting] = []
    attributes: dict[str, str] = {}
    for cls in reversed(struct.cls.__mro__):  # a struct documents only the fields that it adds or changes
        parsed = docstring_parser.parse(cls.__doc__ or "", docstring_parser.DocstringStyle.GOOGLE)
        attributes |= {entry.arg_name: entry.description or "" for entry in parsed.params}
    for field in struct.fields:
        path = f"{prefix}{field.encode_name}"
        inner, doc = _unwrap(field.type)
        if isinstance(inner, inspect.StructType):
            rows += _rows(inner, f"{path}.")
        else:
            doc = doc or " ".join(attributes.get(field.name, "").split())
            rows.append(Setting(path=path, type=_words(inner), default=_default(field), doc=doc))
    return rows


def _unwrap(described: inspect.Type) -> tuple[inspect.Type, str]:
    """Return the type without its metadata, and its description."""
    if isinstance(described, inspect.Metadata):
        inner, doc = _unwrap(described.type)
        return inner, str((described.extra_json_schema or {}).get("description", doc))
    return described, ""


def _default(field: inspect.Field) -> str:
    """Return the default of a field as TOML."""
    default = field.default
    if field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    if default is msgspec.NODEFAULT:
        return ""
    return toml_value(default, field.encode_name) if default is not None else "unset"


def _words(described: inspect.Type) -> str:
    """Return a type and its range in words."""
    described, _ = _unwrap(described)
    match described:
        case inspect.LiteralType():
            words = " or ".join(toml_value(value) for value in described.values)
        case inspect.UnionType():
            words = " or ".join(_words(option) for option in described.types)
        case inspect.ListType() | inspect.VarTupleType():
            words = f"list of {_words(described.item_type)}"
        case inspect.TupleType():
            items = [_words(item) for item in described.item_types]
            listed = f"each {items[0]}" if len(set(items)) == 1 else ", ".join(items)
            words = f"list of {len(items)}: {listed}"
        case inspect.DictType():
            words = f"table of {_words(described.value_type)}"
        case inspect.StructType():
            words = f"table ({described.cls.__name__})"
        case _:
            words = _NAMES.get(type(described), type(described).__name__)
            bounds = {sign: getattr(described, key, None) for key, sign in _BOUNDS.items()}
            shown = [
                f"{sign} {bound:g}" for sign, bound in bounds.items() if bound is not None and abs(bound) <= _MAX_BOUND
            ]
            words += f" {', '.join(shown)}" if shown else ""
    return words
