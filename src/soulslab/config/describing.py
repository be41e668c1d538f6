"""Description of settings as rows, generated from the type, so that the documentation is always up to date."""

from __future__ import annotations

import docstring_parser
import msgspec
from msgspec import inspect

from soulslab.config.writing import toml_value

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
            words = f"list of {len(described.item_types)}: {', '.join(_words(item) for item in described.item_types)}"
        case inspect.DictType():
            words = f"table of {_words(described.value_type)}"
        case inspect.StructType():
            words = f"table ({described.cls.__name__})"
        case _:
            words = _NAMES.get(type(described), type(described).__name__)
            bounds = [
                f"{sign} {getattr(described, key):g}" for key, sign in _BOUNDS.items() if _has_bound(described, key)
            ]
            words += f" {', '.join(bounds)}" if bounds else ""
    return words


def _has_bound(described: inspect.Type, key: str) -> bool:
    bound = getattr(described, key, None)
    return bound is not None and abs(bound) <= _MAX_BOUND
