"""Loading of settings from files and overrides, and the errors."""

import contextlib

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from soulslab.config import load_settings
from soulslab.errors import ConfigError
from support.settings import Example, Inner


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "settings.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_defaults_alone():
    assert load_settings(Example, None) == Example()


def test_file_and_overrides(write):
    path = write('name = "f"\n[learner]\nlr = 0.5\nn_epochs = 2\n[options]\nboss = "judge"\n')
    settings = load_settings(Example, path, ["learner.lr=1", "learner.lr=0.25", "options.pose=true"])
    assert settings == Example(name="f", learner=Inner(lr=0.25, n_epochs=2), options={"boss": "judge", "pose": True})


def test_a_byte_order_mark_is_not_part_of_the_file(write):
    text = 'name = "f"\n[learner]\nlr = 0.5\n'
    expected = load_settings(Example, write(text))
    assert load_settings(Example, write(text.encode("utf-8-sig"))) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("judge", "judge"),
        ("runs/x", "runs/x"),
        ("'1'", "1"),
        ("1", 1),
        ("1e-3", 1e-3),
        ("true", True),
        ("[1, 2]", [1, 2]),
        ("{win = 1.0}", {"win": 1.0}),
        ("a=b", "a=b"),
    ],
)
def test_override_values(text, value):
    assert load_settings(Example, None, [f"options.x={text}"]).options == {"x": value}


@pytest.mark.parametrize(
    ("text", "path", "problem"),
    [
        ("[learner]\nlrr = 1", "learner.lrr", "unknown setting; did you mean 'lr'?"),
        ("learnr = 1", "learnr", "unknown setting; did you mean 'learner'?"),
        ("[learner]\nwarmup = 1", "learner.warmup", "is a setting of an earlier soulslab; remove it"),
        ("[[stages]]\n[[stages]]\nq = 1", "stages[1].q", "unknown setting"),
        ("[maybe]\nq = 1", "maybe.q", "unknown setting"),
        ("[learner]\nlr = 0", "learner.lr", "expected a number > 0.0, got 0"),
        ("[learner]\nlr = 'fast'", "learner.lr", "expected a number, got text"),
        ("[learner]\nmode = 'fats'", "learner.mode", "'fats' is not one of its values; did you mean 'fast'?"),
        ("[learner]\nwidths = [3, 0]", "learner.widths[1]", "expected a whole number >= 1, got 0"),
        ("learner = 3", "learner", "expected a table, got a whole number"),
        ("limit = 'x'", "limit", "expected a whole number or nothing, got text"),
        ("name = ''", "name", "expected text of length >= 1, got ''"),
        ("[weights]\na = nan", "weights.a", "is not a number"),
        ("limit = 0x1" + "0" * 5000, "limit", "is too large"),
        ("[learner]\nlr = 1\nlr = 2\n", "", "is not valid TOML: Cannot overwrite a value (at line 3"),
        ("x = ", "", "is not valid TOML"),
        (b"\xff\xfe", "", "is not UTF-8 text (byte 0)"),
        ("a." * 3000 + "b = 1", "", "nested too deeply"),
        ("[options]\n" + "a." * 3000 + "b = 1", "", "nested too deeply"),
    ],
)
def test_mistakes_in_a_file(write, text, path, problem):
    file = write(text)
    with pytest.raises(ConfigError) as caught:
        load_settings(Example, file)
    assert (caught.value.path, caught.value.source) == (path, str(file))
    assert problem in caught.value.problem
    assert str(caught.value).startswith(f"{file}: {path}")


@pytest.mark.parametrize(
    ("override", "path", "problem"),
    [
        ("learner.lr=-1", "learner.lr", "expected a number > 0.0, got -1"),
        ("learner={lr = -1}", "learner.lr", "expected a number > 0.0"),
        ("learner.lrr=1", "learner.lrr", "did you mean 'lr'?"),
        ("name.x=1", "name", "is a value, not a table of settings"),
        ("learner=3", "learner", "expected a table"),
        ("learner.lr", "", "is not of the form"),
        ("=1", "", "is not of the form"),
        ("learner..lr=1", "", "is not of the form"),
        ("learner.lr=", "learner.lr", "has no value"),
        ("options.x=[1,", "options.x", "malformed"),
        ("options.x=1\ny=2", "", "more than one line"),
    ],
)
def test_mistakes_in_an_override(write, override, path, problem):
    with pytest.raises(ConfigError) as caught:
        load_settings(Example, write("name = 'f'"), [override])
    assert (caught.value.path, caught.value.source) == (path, f"--set {override}")
    assert problem in caught.value.problem


class Several(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A setting with a union type."""

    times: str | tuple[int, int] = ""


@pytest.mark.parametrize(("value", "found"), [("boss", "boss"), ("[1, 2]", (1, 2))])
def test_a_setting_with_a_union_type(value, found):
    assert load_settings(Several, None, [f"times={value}"]).times == found


def test_a_mistake_in_a_union_type_has_its_place():
    with pytest.raises(ConfigError, match=r"times\[1\]: expected a whole number, got text"):
        load_settings(Several, None, ["times=[1, 'x']"])


def test_mistake_in_the_file_is_not_blamed_on_an_override(write):
    file = write("[learner]\nlr = -1")
    with pytest.raises(ConfigError) as caught:
        load_settings(Example, file, ["learner.n_epochs=3"])
    assert caught.value.source == str(file)


def test_missing_file_and_missing_setting(tmp_path):
    class Needy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
        x: int

    with pytest.raises(ConfigError, match=r"no\.toml: cannot be read: No such file"):
        load_settings(Example, tmp_path / "no.toml")
    with pytest.raises(ConfigError, match="x: is missing; it has no default"):
        load_settings(Needy, None)


_toml_like = st.text(st.sampled_from("[]{}=.,'\"#\n ab01e-+x_") | st.characters(codec="utf-8"))


@given(_toml_like)
@example("options = {a = 0x" + "f" * 5000 + "}")
def test_no_file_crashes(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_text(text, encoding="utf-8")
    with contextlib.suppress(ConfigError):
        assert isinstance(load_settings(Example, path), Example)


@given(st.lists(st.builds("{}{}".format, st.sampled_from(["", "options.a=", "name=", "learner.lr="]), _toml_like)))
@example(["options.a=\udc80"])
@example(["options." + "a." * 3000 + "b=1"])
@example(["options.a=" + "[" * 3000])
def test_no_override_crashes(overrides):
    with contextlib.suppress(ConfigError):
        assert isinstance(load_settings(Example, None, overrides), Example)
