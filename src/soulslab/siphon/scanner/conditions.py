"""Conditions of a scan: a value, or its change since the last round."""

from __future__ import annotations

import math
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.errors import ScanError
from soulslab.siphon.profile import NumberType

ConditionKind = Literal[
    "exact", "between", "unknown", "changed", "unchanged", "increased", "decreased", "increased_by", "decreased_by"
]
#: Conditions that compare with the last round, so a scan cannot start with them.
COMPARING = ("changed", "unchanged", "increased", "decreased", "increased_by", "decreased_by")

DTYPES: dict[NumberType, np.dtype[Any]] = {
    "i8": np.dtype("<i1"),
    "i16": np.dtype("<i2"),
    "i32": np.dtype("<i4"),
    "i64": np.dtype("<i8"),
    "u8": np.dtype("<u1"),
    "u16": np.dtype("<u2"),
    "u32": np.dtype("<u4"),
    "u64": np.dtype("<u8"),
    "f32": np.dtype("<f4"),
    "f64": np.dtype("<f8"),
}

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
    """Raise an error if a condition is not valid.

    Raises:
        ScanError: A number does not fit the type, or a range is empty.
    """
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
    """Return which values fulfil a condition.

    Args:
        condition: Condition, checked with `check_condition`.
        now: (n,) current values, of one of `DTYPES`.
        before: (n,) values in the last round; None in the first.
    """
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
        case _:
            if before is None:
                raise ScanError(
                    f"{condition.kind!r} compares with an earlier round; begin with exact, between or unknown"
                )
            mask = _compared(condition, now, before)
    return mask


def _compared(condition: Condition, now: Values, before: Values) -> Mask:
    """Return which values have changed as required."""
    mask: Mask
    match condition.kind:
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
        case _:
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
    with np.errstate(over="ignore", invalid="ignore"):
        difference = larger - smaller
    if difference.dtype.kind == "i":
        # The difference of two signed numbers may need the sign bit.
        difference = difference.view(f"u{difference.itemsize}")
    tolerance = condition.tolerance
    if difference.dtype.kind == "f" and not tolerance:
        # The game has computed in its own precision, with rounding.
        with np.errstate(over="ignore", invalid="ignore"):
            expected: Mask = smaller + smaller.dtype.type(condition.value) == larger
        return expected
    if not tolerance:  # without floats, which would round whole numbers from 2**53
        return _between(difference, condition.value, condition.value)
    return _between(difference, condition.value - tolerance, condition.value + tolerance)
