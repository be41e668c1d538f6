"""Waiting for a game."""

import pytest

from soulslab.errors import PointerError, ProcessExitedError, WaitTimeoutError
from soulslab.games.waiting import Patience, press_each, wait_until
from soulslab.testing.fake_session import FakeSession


@pytest.fixture
def session():
    with FakeSession() as one:
        yield one


def test_a_true_condition_needs_no_time(session):
    assert wait_until(session, "ticks", lambda: session.read("ticks"), lambda ticks: ticks == 0) == 0
    assert session.clock.game_time_s == 0.0


def test_time_passes_until_the_condition_is_true(session):
    found = wait_until(session, "ticks", lambda: session.read("ticks"), lambda ticks: ticks >= 10)
    assert 10 <= found <= 13
    assert session.clock.game_time_s == pytest.approx(0.2, abs=0.051)


def test_keys_are_pressed_before_each_read_and_released(session):
    wait_until(session, "y", lambda: session.read("y"), lambda y: y >= 6, Patience(poll_s=0.1), ("W",))
    assert session.toy.held == frozenset()
    presses = [key for key, is_press in session.toy.input.events if is_press]
    assert presses == ["W", "W"]


def test_keys_are_pressed_one_after_another(session):
    press_each(session, ("W", "D"), 0.1)
    assert (session.read("x"), session.read("y")) == (3, 3)


def test_a_timeout_names_the_condition_and_the_last_value(session):
    with pytest.raises(WaitTimeoutError, match=r"waited 0.5 s for the toy to be hurt; last value: False") as caught:
        wait_until(session, "the toy to be hurt", lambda: session.read("is_hurt"), bool, Patience(deadline_s=0.5))
    assert caught.value.what == "the toy to be hurt"


def test_unreadable_values_during_loading_count_as_false(session):
    session.toy.is_loading = True
    with pytest.raises(WaitTimeoutError, match=r"last value: .*null pointer"):
        wait_until(session, "hp", lambda: session.read("hp"), bool, Patience(deadline_s=0.2))
    with pytest.raises(PointerError):
        session.read("hp")


def test_consecutive_reads(session):
    seen = iter([True, False, True, True, True])
    wait_until(session, "it to last", lambda: next(seen), bool, Patience(n_looks=3))
    assert next(seen, None) is None


def test_the_game_runs_or_is_stopped_afterwards_as_before(session):
    for speed in (1.0, 3.0):
        session.clock.run(speed)
        until = session.read("ticks") + 10
        wait_until(session, "ticks", lambda: session.read("ticks"), lambda ticks, until=until: ticks >= until)
        assert session.clock.speed == speed
    session.clock.pause()
    with pytest.raises(WaitTimeoutError):
        wait_until(session, "never", lambda: 0, bool, Patience(deadline_s=0.1))
    assert session.clock.speed == 0.0


def test_the_exit_of_the_game_is_an_error(session):
    session.toy.is_alive = False
    with pytest.raises(ProcessExitedError):
        wait_until(session, "hp", lambda: session.read("hp"), bool)
