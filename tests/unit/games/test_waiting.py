"""Waiting for a game."""

import pytest

from soulslab.errors import PointerError, ProcessExitedError, WaitTimeoutError
from soulslab.games.waiting import Patience, press_each, wait_until
from soulslab.siphon.fake import FakeSession


@pytest.fixture
def session():
    with FakeSession() as one:
        yield one


def test_what_is_there_is_found_without_any_time(session):
    assert wait_until(session, "ticks", lambda: session.read("ticks"), lambda ticks: ticks == 0) == 0
    assert session.clock.game_time_s == 0.0


def test_time_passes_until_it_is_there(session):
    found = wait_until(session, "ticks", lambda: session.read("ticks"), lambda ticks: ticks >= 10)
    assert 10 <= found <= 13
    assert session.clock.game_time_s == pytest.approx(0.2, abs=0.051)


def test_keys_are_pressed_anew_before_each_look_and_released(session):
    wait_until(session, "y", lambda: session.read("y"), lambda y: y >= 6, Patience(poll_s=0.1), ("W",))
    assert session.toy.held == frozenset()
    presses = [key for key, is_press in session.toy.input.events if is_press]
    assert presses == ["W", "W"]


def test_keys_are_pressed_one_after_another(session):
    press_each(session, ("W", "D"), 0.1)
    assert (session.read("x"), session.read("y")) == (3, 3)


def test_it_says_what_it_waited_for_and_what_it_saw_last(session):
    with pytest.raises(WaitTimeoutError, match=r"waited 0.5 s for the toy to be hurt; last value: False") as caught:
        wait_until(session, "the toy to be hurt", lambda: session.read("is_hurt"), bool, Patience(deadline_s=0.5))
    assert caught.value.what == "the toy to be hurt"


def test_what_cannot_be_read_while_the_game_loads_is_not_there_yet(session):
    session.toy.is_loading = True
    with pytest.raises(WaitTimeoutError, match=r"last value: .*null pointer"):
        wait_until(session, "hp", lambda: session.read("hp"), bool, Patience(deadline_s=0.2))
    with pytest.raises(PointerError):
        session.read("hp")


def test_it_has_to_last(session):
    seen = iter([True, False, True, True, True])
    wait_until(session, "it to last", lambda: next(seen), bool, Patience(n_looks=3))
    assert next(seen, None) is None


def test_a_game_that_ran_runs_on_and_one_that_stood_stands(session):
    for speed in (1.0, 3.0):
        session.clock.run(speed)
        until = session.read("ticks") + 10
        wait_until(session, "ticks", lambda: session.read("ticks"), lambda ticks, until=until: ticks >= until)
        assert session.clock.speed == speed
    session.clock.pause()
    with pytest.raises(WaitTimeoutError):
        wait_until(session, "never", lambda: 0, bool, Patience(deadline_s=0.1))
    assert session.clock.speed == 0.0


def test_the_end_of_the_game_is_told_as_such(session):
    session.toy.is_alive = False
    with pytest.raises(ProcessExitedError):
        wait_until(session, "hp", lambda: session.read("hp"), bool)
