"""Commands of the scan prompt."""

from __future__ import annotations

import pytest

from soulslab.errors import ConfigError
from soulslab.siphon.scanner.prompt import ask, typed_lines


@pytest.fixture
def typing(monkeypatch):
    """Type these lines; an error is represented by its key."""

    def typing(*entries):
        left = iter(entries)

        def answer(_prompt):
            entry = next(left)
            if isinstance(entry, str):
                return entry
            raise entry

        monkeypatch.setattr("builtins.input", answer)

    return typing


def test_ctrl_c_drops_a_line_and_ctrl_d_ends(typing, capsys):
    typing("= 5", KeyboardInterrupt(), "undo", EOFError())
    assert list(typed_lines()) == ["= 5", "undo"]
    assert capsys.readouterr().out == "\n"


def test_a_question_may_stay_without_an_answer(typing):
    typing("0..9", EOFError())
    assert ask("range: ") == "0..9"
    with pytest.raises(ConfigError, match="has no answer"):
        ask("range: ")
