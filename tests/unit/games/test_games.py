"""The games that come with soulslab."""

from __future__ import annotations

from pathlib import Path

import pytest

from soulslab.errors import ConfigError
from soulslab.games import known_games, profile_path
from soulslab.siphon.profile import load_profile


@pytest.mark.parametrize("game", known_games())
def test_every_game_has_a_profile_that_reads(game):
    assert load_profile(profile_path(Path(game))).attributes


def test_a_file_wins_over_a_game_of_the_same_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "doom").touch()
    assert profile_path(Path("doom")) == Path("doom")


def test_what_is_neither_is_told_with_a_guess():
    with pytest.raises(ConfigError, match="did you mean 'doom'"):
        profile_path(Path("doum"))
