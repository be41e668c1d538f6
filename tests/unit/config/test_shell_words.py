"""Paths in commands that users copy."""

import shlex
from pathlib import Path

import pytest

from soulslab.config.shell_words import shell_word


@pytest.mark.parametrize("path", ["runs/x", "my runs/it's $HOME", 'a "b" & c;d'])
def test_a_path_is_one_word_of_a_shell(path):
    assert shlex.split(f"soulslab train --resume {shell_word(Path(path))} --trust")[3] == path


def test_an_ordinary_path_stays_as_it_is():
    assert shell_word(Path("runs/2026-01-02_03-04/run.toml")) == "runs/2026-01-02_03-04/run.toml"


@pytest.mark.parametrize(("path", "word"), [("C:\\runs\\x", "C:\\runs\\x"), ("C:\\my runs", '"C:\\my runs"')])
def test_windows_knows_double_quotation_marks(monkeypatch, path, word):
    monkeypatch.setattr("soulslab.config.shell_words.os.name", "nt")
    assert shell_word(path) == word
