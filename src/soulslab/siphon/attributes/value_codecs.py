"""Conversion of values between the game's little-endian bytes and Python, checked against the profile.

Malformed text, a bool that is neither 0 nor 1, NaN, and numbers outside their range are errors, because a wrong address
gives such values.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from soulslab.errors import ImplausibleValueError, InvalidValueError
from soulslab.siphon.profile import NUMBER_CODES, Attribute, Value, ValueType

_FLOATS = ("f32", "f64")


class Codec:
    """Converts the values of one attribute.

    Attributes:
        code: Format code of `struct`: a number, or the bytes of any other type.
        size: Size in memory in bytes.
        is_number: Whether `struct` gives a number, so that only `scale`, `low` and `high` remain to be applied.
    """

    def __init__(self, name: str, attribute: Attribute) -> None:
        self.name = name
        self._attribute = attribute
        self._type: ValueType = attribute.type
        self._number = NUMBER_CODES.get(attribute.type, "")
        self.is_number = bool(self._number) and attribute.length == 1
        self.scale = attribute.scale
        self.size = size_of(attribute)
        self.code = self._number if self.is_number else f"{self.size}s"
        self._stored = struct.Struct(f"<{self._number or 'B'}")
        low, high = attribute.range or (-math.inf, math.inf)
        self.low, self.high = (
            (self._widened(low, min), self._widened(high, max)) if attribute.type == "f32" else (low, high)
        )

    def decode(self, raw: Any) -> Value:
        """Convert the result of unpacking with `code` to a value. Raises `ImplausibleValueError`."""
        match self._type:
            case "bool":
                if raw[0] > 1:
                    raise ImplausibleValueError(self.name, raw[0], 0, 1)
                return raw[0] == 1
            case "flag":
                return bool(raw[0] >> self._attribute.bit & 1)
            case "bytes":
                return raw
            case "utf8":
                return self._decode_text(raw.partition(b"\0")[0], "utf-8")
            case "utf16":
                return self._decode_text(_up_to_zero(raw), "utf-16-le")
        return self._decode_numbers(raw)

    def encode(self, value: Value) -> bytes:
        """Return the bytes to write; for a flag, one byte that is 0 or 1.

        Raises `InvalidValueError` if the value has the wrong type, is out of range, or does not fit.
        """
        match self._type:
            case "bool" | "flag":
                if not isinstance(value, bool | np.bool_):
                    raise self._invalid(value, "it has to be true or false")
                return bytes([bool(value)])
            case "bytes":
                if not isinstance(value, bytes | bytearray) or len(value) != self.size:
                    raise self._invalid(value, f"it has to be {self.size} bytes")
                return bytes(value)
            case "utf8":
                return self._encode_text(value, "utf-8", b"\0")
            case "utf16":
                return self._encode_text(value, "utf-16-le", b"\0\0")
        if self.is_number:
            return self._encode_number(value)
        items = value.tolist() if isinstance(value, np.ndarray) else value
        if not isinstance(items, Sequence) or isinstance(items, str | bytes) or len(items) != self._attribute.length:
            raise self._invalid(value, f"it has to be {self._attribute.length} numbers")
        return b"".join(self._encode_number(item) for item in items)

    def implausible(self, value: Value) -> ImplausibleValueError:
        """Return the error for a value outside the range."""
        return ImplausibleValueError(self.name, value, self.low, self.high)

    def _widened(self, bound: float, outer: Any) -> float:
        """Return a bound widened to the nearest 32-bit number: 0.1 is read back as 0.10000000149."""
        try:
            (nearest,) = self._stored.unpack(self._stored.pack(bound / self.scale))
        except OverflowError:
            return bound
        return float(outer(bound, nearest * self.scale))

    def _decode_text(self, raw: bytes, encoding: str) -> str:
        try:
            return raw.decode(encoding)
        except UnicodeDecodeError as error:
            problem = f"which is not {self._type} text"
            raise ImplausibleValueError(self.name, raw, math.nan, math.nan, problem=problem) from error

    def _decode_numbers(self, raw: bytes) -> Value:
        stored = np.frombuffer(raw, f"<{self._number}")
        if self._type in _FLOATS or self.scale != 1:
            values = stored.astype(np.float64) * self.scale
        else:
            values = stored.astype(np.uint64 if self._type == "u64" else np.int64)
        # With a NaN, minimum and maximum are NaN, and every comparison with NaN is false.
        if not (self.low <= values.min() and values.max() <= self.high):
            raise self.implausible(values.tolist())
        return values

    def _encode_number(self, value: Value) -> bytes:
        is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        stores_float = self._type in _FLOATS
        if not is_whole and not ((stores_float or self.scale != 1) and isinstance(value, float | np.floating)):
            what = "a number" if stores_float or self.scale != 1 else "a whole number"
            raise self._invalid(value, f"it has to be {what}")
        number = value.item() if isinstance(value, np.generic) else value
        if not self.low <= number <= self.high:
            raise self._invalid(value, f"it has to lie between {self.low:g} and {self.high:g}")
        if self.scale != 1:
            number = number / self.scale
            if not stores_float:
                number = self._nearest(value, number)
        try:
            return self._stored.pack(number)
        except (struct.error, OverflowError) as error:
            raise self._invalid(value, f"it does not fit {self._type}") from error

    def _nearest(self, value: Value, quotient: float) -> int:
        """Return the stored whole number for a value, such that it reads back within the range."""
        if math.isinf(quotient):
            raise self._invalid(value, f"it does not fit {self._type}")
        for stored in (round(quotient), math.floor(quotient), math.ceil(quotient)):
            if self.low <= stored * self.scale <= self.high:
                return stored
        raise self._invalid(value, f"no stored number times {self.scale:g} lies in its range")

    def _encode_text(self, value: Value, encoding: str, end: bytes) -> bytes:
        if not isinstance(value, str) or "\0" in value:
            raise self._invalid(value, "it has to be text without a zero character")
        try:
            encoded = value.encode(encoding) + end
        except UnicodeEncodeError as error:
            raise self._invalid(value, f"it cannot be written as {self._type}") from error
        if len(encoded) > self.size:
            raise self._invalid(value, f"it needs {len(encoded)} bytes with its end, and there are {self.size}")
        return encoded

    def _invalid(self, value: Value, problem: str) -> InvalidValueError:
        return InvalidValueError(self.name, value, problem)


def size_of(attribute: Attribute) -> int:
    """Return the size of an attribute in memory in bytes."""
    if attribute.type in NUMBER_CODES:
        return struct.calcsize(f"<{NUMBER_CODES[attribute.type]}") * attribute.length
    return attribute.length if attribute.type in ("bytes", "utf8", "utf16") else 1


def _up_to_zero(raw: bytes) -> bytes:
    raw = raw[: len(raw) // 2 * 2]
    units = memoryview(raw).cast("H").tolist()
    return raw[: 2 * units.index(0)] if 0 in units else raw
