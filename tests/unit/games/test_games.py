"""The games that come with soulslab."""

from __future__ import annotations

from pathlib import Path

import pytest

from soulslab import games
from soulslab.errors import ConfigError
from soulslab.games import known_games, profile_path
from soulslab.siphon.profile import load_profile


@pytest.mark.parametrize("game", known_games())
def test_every_game_has_a_valid_profile(game):
    assert load_profile(profile_path(Path(game))).attributes


def test_doom_consists_of_a_profile_and_little_python():
    package = Path(games.__file__).parents[1]
    files = (package / "envs" / "tasks" / "process" / "doom.py", *(package / "games" / "doom").glob("*.py"))
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files) <= 150


def test_a_file_precedes_a_game_of_the_same_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "doom").touch()
    assert profile_path(Path("doom")) == Path("doom")


def test_a_folder_with_the_name_of_a_game_is_not_a_profile(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "doom").mkdir()
    assert profile_path(Path("doom")).name == "profile.toml"


def test_an_unknown_profile_is_an_error_with_a_suggestion():
    with pytest.raises(ConfigError, match="did you mean 'doom'"):
        profile_path(Path("doum"))
