"""Settings written as TOML give equal settings when they are loaded."""

import tomllib
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulslab.config import dump_settings, load_settings
from soulslab.errors import ConfigError
from support.settings import Example, Inner

_ints = st.integers(-(2**63), 2**63 - 1)
_texts = st.text(st.characters(codec="utf-8"))
_floats = st.floats(allow_nan=False)
_values = st.recursive(
    st.booleans() | _ints | _floats | _texts,
    lambda inner: st.lists(inner) | st.dictionaries(_texts, inner),
    max_leaves=8,
)
_inners = st.builds(
    Inner,
    lr=st.floats(1e-300, 1),
    n_epochs=st.integers(1, 2**40),
    widths=st.lists(st.integers(1, 9)).map(tuple),
)
_examples = st.builds(
    Example,
    name=st.text(st.characters(codec="utf-8"), min_size=1),
    is_on=st.booleans(),
    limit=st.none() | _ints,
    learner=_inners,
    options=st.dictionaries(_texts, _values),
    weights=st.dictionaries(_texts, _floats),
    stages=st.lists(_inners),
    maybe=st.none() | _inners,
)


@given(_examples)
def test_round_trip(tmp_path_factory, settings):
    path = tmp_path_factory.getbasetemp() / "written.toml"
    path.write_text(dump_settings(settings), encoding="utf-8")
    assert load_settings(Example, path) == settings


def test_readable():
    settings = Example(limit=3, options={"boss": "judge", "a b": {"x": [1.5, True]}})
    text = dump_settings(settings)
    assert "[learner]\nlr = 0.0003\nn_epochs = 4\n" in text
    assert '[options."a b"]\nx = [1.5, true]\n' in text
    assert tomllib.loads(text)["limit"] == 3


@pytest.mark.parametrize(("value", "path"), [(date(2020, 1, 1), "options.x"), ([object()], "options.x[0]")])
def test_values_that_toml_cannot_represent(value, path):
    with pytest.raises(ConfigError, match="cannot be written as TOML") as caught:
        dump_settings(Example(options={"x": value}))
    assert caught.value.path == path


def test_key_that_is_not_text():
    with pytest.raises(ConfigError, match="key 1 is not text"):
        dump_settings(Example(options={1: 2}))
