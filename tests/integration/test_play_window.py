"""Watch a policy in the window until the window is closed."""

from contextlib import closing

import psutil
import pytest

import soulslab  # noqa: F401 (registers the environments)
from soulslab.arena.vocabulary import NOTHING
from soulslab.errors import SiphonError
from soulslab.play.policy_actions import watch_in_window
from soulslab.siphon.process.private_display import PrivateDisplay
from soulslab.siphon.process.window import find_window
from soulslab.siphon.process.x11 import XConnection
from support.waiting import wait_for

#: On a busy machine a faster game may show the end of a fight, 3 s of game time, between two readings.
OPTIONS = {"size_px": (160, 90), "renderer": "software", "game_speed": 4.0}


@pytest.fixture
def x(monkeypatch, caplog):
    caplog.set_level("INFO", "soulslab.play.policy_actions")
    with PrivateDisplay((320, 200)) as display:
        for name, value in display.environment().items():
            monkeypatch.setenv(name, value)
        with closing(XConnection(display.name)) as x:
            yield x


def test_a_policy_fights_until_the_window_is_closed(x, caplog):
    masks, decisions = [], []

    def stand_and_die(observation, mask, n_decisions):
        assert len(observation) > 20
        masks.append(mask)
        decisions.append(n_decisions)
        if "0 of 1 fights won" in caplog.text and decisions.count(0) == 2:
            close_window(x)
        return NOTHING

    tally = watch_in_window(lambda _: stand_and_die, OPTIONS, seed=5)
    assert (tally.fights, tally.wins) == (1, 0)
    assert all(mask[NOTHING] for mask in masks)
    # Counted from 0 in each of the two fights.
    assert decisions[0] == 0
    assert decisions.count(0) == 2
    assert "the window was closed (" in caplog.text


def test_a_window_that_is_closed_between_two_fights_stays_closed(x, caplog):
    def make_act(env):
        task = env.unwrapped._task
        begin = task.begin

        def close_and_begin(*args):
            if "0 of 1 fights won" in caplog.text:
                close_window(x)
            return begin(*args)

        task.begin = close_and_begin
        return lambda *_: NOTHING

    tally = watch_in_window(make_act, OPTIONS, seed=5)
    assert (tally.fights, tally.wins) == (1, 0)
    assert "the window was closed between two fights" in caplog.text


def test_a_missing_display_is_an_error(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    with pytest.raises(SiphonError, match="display"):
        watch_in_window(lambda _: lambda *_: NOTHING, {"size_px": (160, 90), "renderer": "software"}, seed=5)


def close_window(x):
    """Close the window of the game as its user does, and wait until its process has ended."""
    game = next(one for one in psutil.Process().children(recursive=True) if one.name().startswith("soulslab-arena"))
    find_window(x, game.pid, "soulslab arena").ask_to_close()
    # The process stays a zombie until its session waits for it.
    wait_for(lambda: game.status() == psutil.STATUS_ZOMBIE)
