"""Conditions compared with a plain implementation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulslab.errors import ScanError
from soulslab.siphon.scanner.conditions import DTYPES, Condition, check_condition, mask_of

TYPES = sorted(DTYPES)


def number_of(value_type):
    dtype = DTYPES[value_type]
    if dtype.kind == "f":
        return st.floats(width=dtype.itemsize * 8, allow_nan=False, allow_infinity=False)
    limits = np.iinfo(dtype)
    return st.integers(int(limits.min), int(limits.max))


@st.composite
def cases(draw):
    value_type = draw(st.sampled_from(TYPES))
    numbers = number_of(value_type)
    pairs = draw(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=8))
    return value_type, [before for before, _ in pairs], [now for _, now in pairs]


@given(cases(), st.sampled_from(["changed", "unchanged", "increased", "decreased"]))
def test_comparisons(case, kind):
    value_type, before, now = case
    dtype = DTYPES[value_type]
    meaning = {
        "changed": lambda was, is_: was != is_ or math.copysign(1, was) != math.copysign(1, is_),
        "unchanged": lambda was, is_: was == is_ and math.copysign(1, was) == math.copysign(1, is_),
        "increased": lambda was, is_: is_ > was,
        "decreased": lambda was, is_: is_ < was,
    }[kind]
    mask = mask_of(Condition(kind), np.array(now, dtype), np.array(before, dtype))
    assert mask.tolist() == [meaning(was, is_) for was, is_ in zip(before, now, strict=True)]


@given(cases())
def test_exact_and_between(case):
    value_type, before, now = case
    values = np.array(now, DTYPES[value_type])
    low, high = sorted((before[0], now[0]))
    check_condition(Condition("between", low, high), value_type)
    assert mask_of(Condition("between", low, high), values, None).tolist() == [low <= value <= high for value in now]
    check_condition(Condition("exact", low), value_type)
    assert mask_of(Condition("exact", low), values, None).tolist() == [value == low for value in now]


@given(st.sampled_from([name for name in TYPES if DTYPES[name].kind != "f"]), st.data())
def test_differences_do_not_wrap_around(value_type, data):
    was, is_ = data.draw(number_of(value_type)), data.draw(number_of(value_type))
    by = data.draw(st.integers(1, 2**32) | st.just(max(abs(is_ - was), 1)))
    arrays = np.array([is_], DTYPES[value_type]), np.array([was], DTYPES[value_type])
    assert mask_of(Condition("increased_by", by), *arrays).tolist() == [is_ - was == by]
    assert mask_of(Condition("decreased_by", by), *arrays).tolist() == [was - is_ == by]


def test_differences_of_great_whole_numbers_are_exact():
    by = 2**53 + 1
    now, before = np.array([by, by - 1], "<i8"), np.zeros(2, "<i8")
    assert mask_of(Condition("increased_by", by), now, before).tolist() == [True, False]
    assert mask_of(Condition("decreased_by", by), -now, before).tolist() == [True, False]


def test_a_float_is_found_by_its_displayed_value():
    values = np.array([37.4, 37.5, 38.0, 38.49, 38.6], "<f4")
    mask = mask_of(Condition("exact", 38, tolerance=0.5), values, None)
    assert mask.tolist() == [False, True, True, True, False]
    assert mask_of(Condition("exact", 0.1), np.array([0.1], "<f4"), None).tolist() == [True]


def test_nan_is_in_no_range_and_can_be_unchanged():
    values = np.array([np.nan, np.inf], "<f4")
    assert not mask_of(Condition("between", -1e300, 1e300), values, None)[0]
    assert mask_of(Condition("unchanged"), values, values.copy()).all()
    assert not mask_of(Condition("increased"), values, values.copy()).any()


def test_a_tolerance_reaches_over_whole_numbers_too():
    values = np.array([8, 9, 10, 11, 12], "<u1")
    assert mask_of(Condition("exact", 10, tolerance=1), values, None).tolist() == [False, True, True, True, False]
    assert mask_of(Condition("between", -1000, 9), values, None).tolist() == [True, True, False, False, False]
    assert not mask_of(Condition("between", 9.2, 9.8), values, None).any()


def test_a_float_increase_is_compared_in_its_precision():
    was = np.array([16777216.0, 0.1], "<f4")
    now = was + np.float32(2.3)
    assert mask_of(Condition("increased_by", 2.3), now, was).all()


@pytest.mark.parametrize(
    ("condition", "value_type", "problem"),
    [
        (Condition("exact", 300), "u8", "not of type u8"),
        (Condition("exact", 1.5), "i32", "not of type i32"),
        (Condition("exact", float("nan")), "f32", "finite"),
        (Condition("exact", 1, tolerance=-1), "f32", "not negative"),
        (Condition("between", 2, 1), "i32", "is empty"),
        (Condition("increased_by", 0), "i32", "above 0"),
    ],
)
def test_an_invalid_condition_is_reported(condition, value_type, problem):
    with pytest.raises(ScanError, match=problem):
        check_condition(condition, value_type)
