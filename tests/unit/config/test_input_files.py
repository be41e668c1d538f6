"""Limits when reading untrusted files."""

import os
from functools import partial
from pathlib import Path

import pytest

from soulslab.config.input_files import MAX_DEPTH, MAX_TEXT_BYTES, parse_json, parse_toml, read_bytes, read_text
from soulslab.errors import ConfigError

FAIL = partial(ConfigError, source="file")


@pytest.mark.parametrize(
    "key",
    [
        "a." * 30_000 + "a = 1",
        '"a" . ' * 10_000 + "a = 1",
        "[" + "'a'." * 20_000 + "a]",
        "x = { " + "a." * 40 + "a = 1 }",
    ],
)
def test_long_keys_are_refused_before_they_are_parsed(key):
    """Without the limit, 60 kB of ``a.a.a`` took 63 s and 3.8 GB."""
    with pytest.raises(ConfigError, match="a key has more than 32 parts"):
        parse_toml(key, FAIL)


def test_ordinary_keys_and_text_are_read():
    text = 'learner.a.b-c."d.e".f = 1\nurl = "a.b.c.d.e.f.g"\n[t."x.y"]\nn = [1.5, 2.5]\n'
    assert parse_toml(text, FAIL) == {
        "learner": {"a": {"b-c": {"d.e": {"f": 1}}}},
        "url": "a.b.c.d.e.f.g",
        "t": {"x.y": {"n": [1.5, 2.5]}},
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = " + "[" * 60_000, "is not valid TOML"),
        ("x = " + "[" * 65 + "]" * 65, "more than 64 deep"),
        ("x = " + "9" * 100_000, "is not valid TOML"),
        ("#" * (MAX_TEXT_BYTES + 1), "is too large"),
        ("x = 1\nx = 2", "is not valid TOML"),
    ],
)
def test_toml_has_limits(text, words):
    with pytest.raises(ConfigError, match=words):
        parse_toml(text, FAIL)


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000 + b"]" * 100_000,
        b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1),
        b"9" * 100_000,
        b"1e999",
        b'"\xff"',
        b"{",
        b"",
    ],
)
def test_json_has_limits(data):
    with pytest.raises(ConfigError, match=r"more than 64 deep|is not valid JSON of the expected form"):
        parse_json(data, object, FAIL)


def test_files_have_limits(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert read_bytes(path, 5, FAIL) == b"12345"
    assert read_bytes(path, 5, FAIL, n_first_bytes=2) == b"12"
    with pytest.raises(ConfigError, match="file: is too large: 5 bytes, the limit is 4"):
        read_bytes(path, 4, FAIL)
    os.truncate(path, 1 << 40)  # takes no room on the disk
    with pytest.raises(ConfigError, match="is too large"):
        read_text(path, FAIL)
    path.write_bytes(b"ab\xff")
    with pytest.raises(ConfigError, match=r"is not UTF-8 text \(byte 2\)"):
        read_text(path, FAIL)


@pytest.mark.parametrize("path", ["a\0b", "nowhere", ".", "/dev/zero", "fifo"])
def test_only_regular_files_are_read(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo")
    with pytest.raises(ConfigError, match="file: cannot be read"):
        read_bytes(Path(path), 100, FAIL)
