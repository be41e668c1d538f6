"""Parsing of typed conditions: ``= 100``, ``>``, ``+5``, ``10..20``, ``unchanged``."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final

import numpy as np

from soulslab.errors import ConfigError
from soulslab.siphon.profile import NumberType
from soulslab.siphon.scanner.conditions import DTYPES, Condition, ConditionKind

#: Names of our types in other memory scanners.
TYPE_NAMES: Final[dict[str, NumberType]] = {
    **{name: name for name in DTYPES},
    "byte": "u8",
    "2bytes": "i16",
    "4bytes": "i32",
    "8bytes": "i64",
    "short": "i16",
    "int": "i32",
    "long": "i64",
    "float": "f32",
    "double": "f64",
}

_NUMBER = r"[+-]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
_PLAIN: Final[dict[str, ConditionKind]] = {
    "?": "unknown",
    "unknown": "unknown",
    "any": "unknown",
    "=": "unchanged",
    "same": "unchanged",
    "unchanged": "unchanged",
    "!": "changed",
    "!=": "changed",
    "changed": "changed",
    ">": "increased",
    "+": "increased",
    "increased": "increased",
    "<": "decreased",
    "-": "decreased",
    "decreased": "decreased",
}

HELP: Final = (
    ("= 100", "it is 100 now; 38 as a float stands for all that is shown as 38, from 37.5 to 38.5"),
    ("= 37.5 ~ 0.1", "it is 37.5, give or take 0.1; ~ 0 takes that float only"),
    ("> 10, <= 10, 10..20", "it is above 10, at most 10, from 10 to 20"),
    ("?", "it is anything: to begin with when the number is not shown"),
    ("> or increased", "it is more than in the last round"),
    ("< or decreased", "it is less than in the last round"),
    ("+5, -5", "it is 5 more, 5 less than in the last round"),
    ("! or changed", "it is another than in the last round"),
    ("= or unchanged", "it is the same as in the last round"),
)


def parse_condition(line: str, value_type: NumberType) -> Condition | None:
    """Parse a line as a condition; return None if it is not one.

    Args:
        line: Typed line; `HELP` lists the forms.
        value_type: Type of the value.

    Raises:
        ConfigError: The line is a malformed condition.
    """
    text = " ".join(line.split())
    if text.lower() in _PLAIN:
        return Condition(_PLAIN[text.lower()])
    for pattern, make in _FORMS:
        match = pattern.fullmatch(text)
        if match:
            return make(match, value_type)
    if re.match(r"[=<>?!+\-\d]|\.\d", text):
        raise ConfigError("is not a known condition; see help", source=line)
    return None


def _exact(match: re.Match[str], value_type: NumberType) -> Condition:
    value = parse_number(match["a"], value_type)
    if match["t"] is not None:
        return Condition("exact", value, tolerance=float(parse_number(match["t"], "f64")))
    return Condition("exact", value, tolerance=_rounding(match["a"]) if value_type in ("f32", "f64") else 0.0)


def _compared(match: re.Match[str], value_type: NumberType) -> Condition:
    dtype = DTYPES[value_type]
    limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    value, sign = parse_number(match["a"], value_type), match["sign"]
    if "=" not in sign:
        value = _next(value, up=sign == ">", is_float=dtype.kind == "f", value_type=value_type)
    low, high = (value, limits.max) if sign[0] == ">" else (limits.min, value)
    return Condition("between", _plain(low), _plain(high))


def _between(match: re.Match[str], value_type: NumberType) -> Condition:
    return Condition("between", parse_number(match["a"], value_type), parse_number(match["b"], value_type))


def _changed_by(match: re.Match[str], value_type: NumberType) -> Condition:
    kind: ConditionKind = "increased_by" if match["sign"] in ("+", "increased") else "decreased_by"
    # A typed difference is that of two rounded numbers.
    tolerance = 2 * _rounding(match["a"]) if value_type in ("f32", "f64") else 0.0
    return Condition(kind, parse_number(match["a"], value_type), tolerance=tolerance)


_A = f"(?P<a>{_NUMBER})"
_UNSIGNED = f"(?P<a>{_NUMBER.removeprefix('[+-]?')})"
_B = f"(?P<b>{_NUMBER})"
_FORMS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str], NumberType], Condition]], ...]] = tuple(
    (re.compile(pattern, re.IGNORECASE), make)
    for pattern, make in (
        (f"(?P<sign>[+-]|increased|decreased) ?(?:by )?{_UNSIGNED}", _changed_by),
        (f"(?:==? ?)?{_A}(?: ?~ ?(?P<t>{_NUMBER}))?", _exact),
        (f"(?P<sign>[<>]=?) ?{_A}", _compared),
        (rf"(?:between )?{_A}(?: ?\.\. ?| and ){_B}", _between),
        (f"between {_A} {_B}", _between),
    )
)


def parse_number(text: str, value_type: NumberType) -> int | float:
    """Parse a number.

    Raises:
        ConfigError: The text is not a number of the type.
    """
    try:
        if value_type in ("f32", "f64"):
            number = float(int(text, 0)) if "x" in text.lower() else float(text)
            if math.isfinite(number):
                return number
        elif "x" in text.lower():
            return int(text, 16)
        else:
            return int(text)
    except ValueError:
        pass
    raise ConfigError(f"is not a number of type {value_type}", source=text)


def _rounding(text: str) -> float:
    """Return half of the last typed digit, because games show rounded numbers."""
    if "x" in text.lower():
        return 0.0
    mantissa, _, exponent = text.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return float(0.5 * 10.0 ** (int(exponent or 0) - decimals))


def _next(value: float, *, up: bool, is_float: bool, value_type: NumberType) -> int | float:
    """Return the number next to a value, in its type."""
    if not is_float:
        return int(value) + (1 if up else -1)
    dtype = DTYPES[value_type].type
    return float(np.nextafter(dtype(value), dtype(np.inf if up else -np.inf)))


def _plain(number: object) -> int | float:
    return number.item() if isinstance(number, np.generic) else number  # type: ignore[return-value]
