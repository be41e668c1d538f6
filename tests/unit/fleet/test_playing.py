"""The process that watches the games of a machine."""

import sys
from multiprocessing import get_context

import pytest

from soulslab.errors import FleetError
from soulslab.fleet import playing
from soulslab.fleet.access import Access, new_password, write_access
from soulslab.fleet.playing import PlaySettings, play

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks the process of a game")


def fail(folder):
    """Fail as a game whose window does not open, in its process."""
    (folder / "log").write_text("the window does not open\n")
    sys.exit(1)


def test_a_game_that_fails_repeatedly_is_given_up_with_the_reason(tmp_path, monkeypatch):
    join = tmp_path / "join.toml"
    write_access(join, Access(address="redis://127.0.0.1:1", run="run", user="play", password=new_password()))
    monkeypatch.setattr(playing, "_run_game", fail)
    monkeypatch.setattr(playing, "_process_context", lambda: get_context("fork"))
    with pytest.raises(
        FleetError, match=r"pc/0: gave up: ended with 1: the window does not open \(3 times in an hour\)"
    ):
        play(join, PlaySettings(name="pc", max_failures=2))
