"""Rows of the settings documentation."""

import pytest

from soulslab.config import Setting, describe_settings, load_settings
from soulslab.siphon.profile import Attribute
from support.settings import Example


def test_rows_in_order_with_everything():
    rows = describe_settings(Example)
    assert [row.path for row in rows[:5]] == ["name", "is_on", "limit", "learner.lr", "learner.n_epochs"]
    assert rows[3] == Setting("learner.lr", "number > 0, ≤ 1", "0.0003", "Learning rate.")


def test_the_docstring_is_used_without_a_description():
    docs = {row.path: row.doc for row in describe_settings(Example)}
    assert docs["learner.widths"] == "Units of each layer, first to last."
    assert docs["learner.mode"] == "How."
    assert docs["name"] == ""


@pytest.mark.parametrize(
    ("path", "kind", "default"),
    [
        ("learner.mode", '"exact" or "fast"', '"fast"'),
        ("learner.widths", "list of integer ≥ 1", "[128, 128]"),
        ("limit", "integer or unset", "unset"),
        ("weights", "table of number", "{}"),
        ("stages", "list of table (Inner)", "[]"),
    ],
)
def test_types_and_defaults(path, kind, default):
    row = next(row for row in describe_settings(Example) if row.path == path)
    assert (row.type, row.default) == (kind, default)


def test_every_default_loads_as_an_override():
    overrides = [f"{row.path}={row.default}" for row in describe_settings(Example) if row.default != "unset"]
    assert load_settings(Example, None, overrides) == Example()


def test_tuples_and_bounds_of_64_bit_numbers():
    rows = {row.path: row.type for row in describe_settings(Attribute)}
    assert rows["range"] == "list of 2: each number or unset"
    assert rows["offsets"] == "list of integer or text"
