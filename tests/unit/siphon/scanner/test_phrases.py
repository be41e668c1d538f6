"""Parsing of typed conditions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulslab.errors import ConfigError
from soulslab.siphon.scanner.conditions import (
    COMPARING,
    DTYPES,
    HELP,
    TYPE_NAMES,
    Condition,
    check_condition,
    mask_of,
    parse_condition,
    parse_number,
)

I32_MAX = 2**31 - 1


@pytest.mark.parametrize(
    ("line", "condition"),
    [
        ("= 100", Condition("exact", 100)),
        ("100", Condition("exact", 100)),
        ("== 100", Condition("exact", 100)),
        ("=  -5", Condition("exact", -5)),
        ("= 0x1F", Condition("exact", 31)),
        ("= 100 ~ 2", Condition("exact", 100, tolerance=2.0)),
        ("> 10", Condition("between", 11, I32_MAX)),
        (">= 10", Condition("between", 10, I32_MAX)),
        ("< 10", Condition("between", -(2**31), 9)),
        ("<=10", Condition("between", -(2**31), 10)),
        ("1..5", Condition("between", 1, 5)),
        ("-5 .. -2", Condition("between", -5, -2)),
        ("between 1 and 5", Condition("between", 1, 5)),
        ("BETWEEN 1 5", Condition("between", 1, 5)),
        ("?", Condition("unknown")),
        ("=", Condition("unchanged")),
        ("Unchanged", Condition("unchanged")),
        ("!", Condition("changed")),
        (">", Condition("increased")),
        ("decreased", Condition("decreased")),
        ("+5", Condition("increased_by", 5)),
        ("-5", Condition("decreased_by", 5)),
        ("decreased by 5", Condition("decreased_by", 5)),
    ],
)
def test_conditions(line, condition):
    assert parse_condition(line, "i32") == condition


@pytest.mark.parametrize(
    ("line", "tolerance"), [("= 38", 0.5), ("= 37.5", 0.05), ("= 38 ~ 0", 0.0), ("= 1e3", 500.0), ("= 0x10", 0.0)]
)
def test_a_displayed_float_matches_all_values_with_this_display(line, tolerance):
    if "e" in line:
        tolerance = 0.5 * 10**3  # its last digit stands for thousands
    assert parse_condition(line, "f32").tolerance == pytest.approx(tolerance)


def test_a_difference_of_two_rounded_numbers_may_be_off_by_one():
    assert parse_condition("+5", "f32") == Condition("increased_by", 5.0, tolerance=1.0)


def test_above_leaves_the_number_itself_out():
    values = np.array([9.999999, 10.0, 10.000001], "<f4")
    assert mask_of(parse_condition("> 10", "f32"), values, None).tolist() == [False, False, True]
    assert mask_of(parse_condition("<= 10", "f32"), values, None).tolist() == [True, True, False]


@pytest.mark.parametrize("line", ["list", "path 1", "hello", "save hp range=0..1", "health 100"])
def test_other_lines_are_not_conditions(line):
    assert parse_condition(line, "i32") is None


@pytest.mark.parametrize("line", ["= ten", "= 1.5", "1..", "> x", "= 0xg", "5 6", "+-5", "= 1e3", "?5"])
def test_mistakes_are_reported(line):
    with pytest.raises(ConfigError):
        parse_condition(line, "i32")


@given(st.text(alphabet="0123456789=<>+-.~!?xe abetwn", max_size=12), st.sampled_from(sorted(DTYPES)))
def test_every_line_is_a_condition_or_empty_or_an_error(line, value_type):
    try:
        condition = parse_condition(line, value_type)
    except ConfigError:
        return
    if condition is not None and condition.kind not in COMPARING:
        assert all(math.isfinite(number) for number in (condition.value, condition.high, condition.tolerance))


@given(st.sampled_from(sorted(DTYPES)), st.integers(-128, 127))
def test_equal_values_are_found(value_type, number):
    dtype = DTYPES[value_type]
    if dtype.kind == "u":
        number = abs(number)
    condition = parse_condition(f"= {number}", value_type)
    check_condition(condition, value_type)
    assert mask_of(condition, np.array([number], dtype), None).all()


def test_numbers():
    assert parse_number("0x10", "f32") == 16.0
    assert parse_number("-7", "i8") == -7
    for text, value_type in (("inf", "f32"), ("nan", "f64"), ("1.0", "i32"), ("", "i32")):
        with pytest.raises(ConfigError):
            parse_number(text, value_type)


def test_every_type_has_a_name_that_players_know():
    assert set(TYPE_NAMES.values()) == set(DTYPES)
    assert TYPE_NAMES["float"] == "f32"
    assert TYPE_NAMES["4bytes"] == "i32"


def test_the_examples_of_the_help_are_understood():
    examples = [part.strip() for usage, _ in HELP for part in usage.replace(" or ", ", ").split(", ")]
    assert len(examples) > len(HELP)
    assert all(parse_condition(example, "f32") for example in examples)
