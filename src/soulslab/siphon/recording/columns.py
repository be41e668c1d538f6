"""Columns of a recording: the position of each attribute and key, and the conversion of values.

Numbers go to ``memory_data`` as float32, as in the public layout. float32 represents whole numbers exactly only up to
2**24, so types that do not fit also get a separate data set under ``values``; text, bytes and vectors have only that
data set.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.siphon.keys import KEYS
from soulslab.siphon.profile import Attribute, Value

N_KEYS = 300
#: The wheel has no key code in evdev; its two directions use the last columns.
_WHEEL_COLUMNS = {"MOUSE_WHEEL_UP": N_KEYS - 2, "MOUSE_WHEEL_DOWN": N_KEYS - 1}
KEY_COLUMNS: dict[str, int] = {name: _WHEEL_COLUMNS.get(name, key.evdev_code) for name, key in KEYS.items()}
"""The column of each key in ``inputs``: its evdev code."""

_IN_FLOAT32 = {"i8", "i16", "u8", "u16", "f32"}
_DTYPES = {"i32": "<i4", "i64": "<i8", "u32": "<u4", "u64": "<u8", "f64": "<f8"}
_TRUTHS = {"bool", "flag"}
_TEXTS = {"utf8", "utf16"}
# A UTF-16 unit of 2 bytes becomes at most 3 bytes of UTF-8.
_UTF8_PER_UTF16_BYTES = 1.5


class OwnColumn(msgspec.Struct, frozen=True):
    """A separate data set under ``values``.

    Attributes:
        name: Name of the attribute.
        dtype: Type of its elements; ``text`` for UTF-8.
        shape: Shape of one sample.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]

    def stored(self, value: Value | None) -> Any:
        """Return the stored form of a value; None (unreadable) becomes 0, empty, or NaN."""
        if self.dtype == "text":
            return b"" if value is None else value.encode("utf-8", "replace")
        if value is None:
            return np.full(self.shape, np.nan) if self.dtype == "<f8" else np.zeros(self.shape, self.dtype)
        if self.dtype == "|u1":
            return np.frombuffer(value, np.uint8)
        return value


class Columns:
    """Storage of some attributes in a recording.

    Args:
        names: Names of the attributes, all known.
        attributes: Definitions of the attributes.

    Attributes:
        names: Names of the attributes: the columns of ``unreadable``.
        numbers: Attributes that are columns of ``memory_data``.
        own: Attributes with a separate data set.
    """

    def __init__(self, names: Sequence[str], attributes: dict[str, Attribute]) -> None:
        self.names = tuple(names)
        self.numbers = tuple(name for name in names if _is_number(attributes[name]))
        self.own = tuple(column for name in names if (column := _own_column(name, attributes[name])) is not None)

    def numbers_of(self, values: dict[str, Value]) -> list[float]:
        """Return a row of ``memory_data``; NaN for unreadable attributes."""
        return [float(values.get(name, np.nan)) for name in self.numbers]

    def unreadable_of(self, values: dict[str, Value]) -> list[bool]:
        """Return a row of ``unreadable``: whether each attribute could not be read."""
        return [name not in values for name in self.names]


def key_row(held: Collection[str]) -> NDArray[np.uint8]:
    """Return a row of ``inputs``: 1 for each held key. (300,) uint8."""
    row = np.zeros(N_KEYS, np.uint8)
    row[[KEY_COLUMNS[key] for key in held]] = 1
    return row


def key_mapping() -> list[str]:
    """Return the key name of each column of ``inputs``; "" for columns without a key."""
    names = [""] * N_KEYS
    for name, column in KEY_COLUMNS.items():
        names[column] = name
    return names


def _is_number(attribute: Attribute) -> bool:
    return attribute.type in _TRUTHS or (attribute.type not in _TEXTS | {"bytes"} and attribute.length == 1)


def _own_column(name: str, attribute: Attribute) -> OwnColumn | None:
    """Return the separate data set of an attribute; None if it has none."""
    kind, length = attribute.type, attribute.length
    if kind == "bytes":
        return OwnColumn(name, "|u1", (length,))
    if kind in _TEXTS:
        return OwnColumn(name, "text", (int(length * (_UTF8_PER_UTF16_BYTES if kind == "utf16" else 1)) + 1,))
    if kind not in _TRUTHS and length > 1:
        return OwnColumn(name, "<f8", (length,))
    if attribute.scale != 1.0 and kind not in _TRUTHS:
        return OwnColumn(name, "<f8", ())
    return None if kind in _IN_FLOAT32 or kind in _TRUTHS else OwnColumn(name, _DTYPES[kind], ())
