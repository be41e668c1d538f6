"""The session's own logic: its states, and what its errors become."""

import pytest

from soulslab.errors import (
    InputError,
    LaunchError,
    ProcessExitedError,
    ReadOnlyError,
    SessionStateError,
    WindowGoneError,
    WindowNotFoundError,
)
from soulslab.siphon.fake import TOY_PROFILE, FakeSession
from soulslab.siphon.local import LocalSession
from soulslab.siphon.session import SessionOptions, Step


class Refusing:
    """Opens nothing."""

    is_closed = False

    def open(self, *_):
        raise LaunchError("there is no such game")

    def close(self):
        self.is_closed = True


def test_a_session_that_cannot_be_opened_lets_go_of_everything():
    opener = Refusing()
    with pytest.raises(LaunchError, match="no such game"):
        LocalSession(TOY_PROFILE, SessionOptions(), opener)
    assert opener.is_closed


def test_a_game_that_did_not_come_back_is_said_until_it_does():
    with FakeSession() as session:
        with pytest.raises(ValueError, match="invalid literal"):
            session.restart({"level": "no number"})
        with pytest.raises(SessionStateError, match="restart"):
            session.read("hp")
        session.restart({"level": "7"})
        assert session.read("level") == 7
        assert session.info.n_starts == 2
        session.restart()
        assert session.read("level") == 7  # the options stay


def test_a_read_only_session_takes_keys_but_no_values():
    with FakeSession(SessionOptions(is_read_only=True)) as session:
        with pytest.raises(ReadOnlyError, match="hp"):
            session.write({"hp": 5})
        assert session.step(Step(held=("W",), advance_s=0.1)).snapshot["hp"] == 100
        assert session.read("y") == 6.0


def test_a_session_without_a_window_has_memory_and_time():
    with FakeSession(SessionOptions(with_window=False)) as session:
        assert session.info.window_px == (0, 0)
        assert session.step(Step(advance_s=0.1)).snapshot["ticks"] == 6
        for use in (session.capture, lambda: session.input, lambda: session.step(Step(held=("W",)))):
            with pytest.raises(WindowNotFoundError, match="with_window=False"):
                use()


def test_a_step_that_presses_again_says_what_is_held():
    with pytest.raises(InputError, match="presses SPACE again, but has no keys held"):
        Step(again=("SPACE",), advance_s=0.1)


def test_a_closed_window_is_told_from_a_game_that_ended():
    with FakeSession() as session:
        session.toy.has_window = False
        with pytest.raises(WindowGoneError):
            session.capture()
        session.toy.is_alive = False
        with pytest.raises(ProcessExitedError):
            session.capture()
