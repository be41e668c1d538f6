"""Conditions of a scan: a value, or its change since the last round; also as typed (``= 100``, ``>``, ``10..20``)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final, Literal, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.errors import ConfigError, ScanError
from soulslab.siphon.profile import NUMBER_CODES, NumberType

ConditionKind = Literal[
    "exact", "between", "unknown", "changed", "unchanged", "increased", "decreased", "increased_by", "decreased_by"
]
#: Conditions that compare with the last round, so a scan cannot start with them.
COMPARING = ("changed", "unchanged", "increased", "decreased", "increased_by", "decreased_by")

DTYPES: dict[NumberType, np.dtype[Any]] = {name: np.dtype(f"<{NUMBER_CODES[name]}") for name in get_args(NumberType)}

Values = NDArray[Any]
Mask = NDArray[np.bool_]


class Condition(msgspec.Struct, frozen=True):
    """A condition on values.

    Attributes:
        kind: ``exact`` and ``between`` test the value, ``unknown`` accepts any, the others compare with a round.
        value: Wanted value; the minimum for ``between``; the difference for ``increased_by`` and ``decreased_by``.
        high: Maximum for ``between``.
        tolerance: Largest distance from `value`. Games show rounded numbers: 37.5 to 38.5 is ``exact`` 38 with
            tolerance 0.5. A float without tolerance must be the nearest float to `value`.
    """

    kind: ConditionKind
    value: float | int = 0
    high: float | int = 0
    tolerance: float = 0.0


def check_condition(condition: Condition, value_type: NumberType) -> None:
    """Raise `ScanError` if a number does not fit the type, or a range is empty."""
    kind = condition.kind
    numbers = (condition.value, condition.high, condition.tolerance)
    if not all(math.isfinite(number) for number in numbers) or condition.tolerance < 0:
        raise ScanError(f"the numbers of a condition have to be finite, and the tolerance not negative; got {numbers}")
    if kind == "between" and condition.value > condition.high:
        raise ScanError(f"the range {condition.value:g} to {condition.high:g} is empty; give the smaller number first")
    if kind in ("increased_by", "decreased_by") and condition.value <= 0:
        raise ScanError(f"{kind} needs a difference above 0; {condition.value:g} is none")
    dtype = DTYPES[value_type]
    if kind == "exact" and dtype.kind != "f" and not condition.tolerance:
        limits = np.iinfo(dtype)
        if condition.value != int(condition.value) or not limits.min <= condition.value <= limits.max:
            raise ScanError(
                f"{condition.value!r} is not of type {value_type}: a whole number from {limits.min} to {limits.max}"
            )


def mask_of(condition: Condition, now: Values, before: Values | None) -> Mask:
    """Return which of (n,) values fulfil a checked condition; `before` holds those of the last round, if any."""
    mask: Mask
    match condition.kind:
        case "unknown":
            mask = np.ones(now.shape, np.bool_)
        case "exact" if not condition.tolerance:
            with np.errstate(over="ignore"):
                mask = now == now.dtype.type(condition.value)
        case "exact":
            mask = _between(now, condition.value - condition.tolerance, condition.value + condition.tolerance)
        case "between":
            mask = _between(now, condition.value, condition.high)
        case kind if before is None:
            raise ScanError(f"{kind!r} compares with an earlier round; begin with exact, between or unknown")
        case "changed":
            mask = _bits(now) != _bits(before)
        case "unchanged":
            mask = _bits(now) == _bits(before)
        case "increased":
            mask = now > before
        case "decreased":
            mask = now < before
        case "increased_by":
            mask = (now > before) & _differs_by(now, before, condition)
        case "decreased_by":
            mask = (now < before) & _differs_by(before, now, condition)
    return mask


def _bits(values: Values) -> Values:
    """Return the values as whole numbers, so that a NaN equals itself."""
    return values.view(f"u{values.itemsize}")


def _between(now: Values, low: float, high: float) -> Mask:
    """Return which values lie in a range, both ends included; the ends are rounded inwards for whole numbers."""
    if now.dtype.kind != "f":
        limits = np.iinfo(now.dtype)
        low, high = max(math.ceil(low), limits.min), min(math.floor(high), limits.max)
        if low > high:
            return np.zeros(now.shape, np.bool_)
    with np.errstate(over="ignore"):  # beyond the largest float lies infinity, which is correct here
        mask: Mask = (now >= now.dtype.type(low)) & (now <= now.dtype.type(high))
    return mask


def _differs_by(larger: Values, smaller: Values, condition: Condition) -> Mask:
    """Return which differences are as required; meaningless where the first value is not the larger."""
    value, tolerance = condition.value, condition.tolerance or 0  # 0.0 would round whole numbers from 2**53
    with np.errstate(over="ignore", invalid="ignore"):
        if larger.dtype.kind == "f" and not tolerance:
            # The game has computed in its own precision, with rounding.
            expected: Mask = smaller + smaller.dtype.type(value) == larger
            return expected
        difference = larger - smaller
    if difference.dtype.kind == "i":
        # The difference of two signed numbers may need the sign bit.
        difference = difference.view(f"u{difference.itemsize}")
    return _between(difference, value - tolerance, value + tolerance)


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
_WORDS: Final[dict[ConditionKind, tuple[str, ...]]] = {
    "unknown": ("?", "unknown", "any"),
    "unchanged": ("=", "same", "unchanged"),
    "changed": ("!", "!=", "changed"),
    "increased": (">", "+", "increased"),
    "decreased": ("<", "-", "decreased"),
}
_KINDS: Final = {word: kind for kind, words in _WORDS.items() for word in words}

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
    """Parse a typed line as a condition; return None if it is not one.

    Raises `ConfigError` for a malformed condition; `HELP` lists the forms.
    """
    text = " ".join(line.split())
    if text.lower() in _KINDS:
        return Condition(_KINDS[text.lower()])
    for pattern, make in _FORMS:
        match = pattern.fullmatch(text)
        if match:
            return make(match, value_type)
    if re.match(r"[=<>?!+\-\d]|\.\d", text):
        raise ConfigError("is not a known condition; see help", source=line)
    return None


def _parse_exact(match: re.Match[str], value_type: NumberType) -> Condition:
    tolerance = match["t"]
    return Condition(
        "exact",
        parse_number(match["a"], value_type),
        tolerance=_rounding(match["a"], value_type) if tolerance is None else float(parse_number(tolerance, "f64")),
    )


def _parse_compared(match: re.Match[str], value_type: NumberType) -> Condition:
    dtype = DTYPES[value_type]
    limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    value, sign = parse_number(match["a"], value_type), match["sign"]
    if sign in "<>" and dtype.kind == "f":
        value = float(np.nextafter(dtype.type(value), dtype.type(np.inf if sign == ">" else -np.inf)))
    elif sign in "<>":
        value += 1 if sign == ">" else -1
    low, high = (value, limits.max) if sign[0] == ">" else (limits.min, value)
    return Condition("between", np.asarray(low).item(), np.asarray(high).item())


def _parse_between(match: re.Match[str], value_type: NumberType) -> Condition:
    return Condition("between", parse_number(match["a"], value_type), parse_number(match["b"], value_type))


def _parse_changed_by(match: re.Match[str], value_type: NumberType) -> Condition:
    kind: ConditionKind = "increased_by" if match["sign"] in ("+", "increased") else "decreased_by"
    # A typed difference is that of two rounded numbers.
    return Condition(kind, parse_number(match["a"], value_type), tolerance=2 * _rounding(match["a"], value_type))


_A = f"(?P<a>{_NUMBER})"
_UNSIGNED = f"(?P<a>{_NUMBER.removeprefix('[+-]?')})"
_B = f"(?P<b>{_NUMBER})"
_FORMS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str], NumberType], Condition]], ...]] = tuple(
    (re.compile(pattern, re.IGNORECASE), make)
    for pattern, make in (
        (f"(?P<sign>[+-]|increased|decreased) ?(?:by )?{_UNSIGNED}", _parse_changed_by),
        (f"(?:==? ?)?{_A}(?: ?~ ?(?P<t>{_NUMBER}))?", _parse_exact),
        (f"(?P<sign>[<>]=?) ?{_A}", _parse_compared),
        (rf"(?:between )?{_A}(?: ?\.\. ?| and ){_B}", _parse_between),
        (f"between {_A} {_B}", _parse_between),
    )
)


def parse_number(text: str, value_type: NumberType) -> int | float:
    """Parse a number. Raises `ConfigError` if the text is not a number of the type."""
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


def _rounding(text: str, value_type: NumberType) -> float:
    """Return half of the last typed digit of a float, because games show rounded numbers."""
    if value_type not in ("f32", "f64") or "x" in text.lower():
        return 0.0
    mantissa, _, exponent = text.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return float(0.5 * 10.0 ** (int(exponent or 0) - decimals))
