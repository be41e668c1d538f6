"""States of a local session, and the conversion of its errors."""

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
from soulslab.siphon.attributes.pointer_chains import ChainNumber
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.local import LocalSession
from soulslab.siphon.session import SessionOptions, Step
from soulslab.testing.fake_session import LAYOUT, OBJECT_AT, OBJECT_SIZE, OWNER_OFFSET, TOY_PROFILE, FakeSession


class Refusing:
    """Opener that opens no game."""

    is_closed = False

    def open(self, *_):
        raise LaunchError("the game does not exist")

    def close(self):
        self.is_closed = True


def test_a_session_that_cannot_be_opened_releases_all_resources():
    opener = Refusing()
    with pytest.raises(LaunchError, match="the game does not exist"):
        LocalSession(TOY_PROFILE, SessionOptions(), opener)
    assert opener.is_closed


def test_a_failed_restart_is_reported_until_it_succeeds():
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


CHANGES = {
    "write hp": lambda session: session.write({"hp": 5}),
    "write a number": lambda session: session.write_number(HP, 5),
    "send keys": lambda session: session.input.set_held(("W",)),
    "send keys by typing": lambda session: session.input.type(("W",)),
    "move the mouse": lambda session: session.input.move_mouse(1, 0),
    "change the speed": lambda session: session.clock.run(2.0),
    "pause": lambda session: session.clock.pause(),
    "advance": lambda session: session.clock.advance(0.1),
    "restart": lambda session: session.restart(),
    "step with keys": lambda session: session.step(Step(held=())),
    "step with the mouse": lambda session: session.step(Step(mouse_px=(0, 1))),
    "step with time": lambda session: session.step(Step(advance_s=0.1)),
}
HP = ChainNumber(base="toy", offsets=(OWNER_OFFSET, LAYOUT["hp"][1]), type="i32")


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_read_only_session_changes_nothing(change):
    with FakeSession(SessionOptions(is_read_only=True)) as session:
        before = bytes(session.toy.memory.read(OBJECT_AT, OBJECT_SIZE))
        with pytest.raises(ReadOnlyError, match="the session is read-only"):
            change(session)
        assert bytes(session.toy.memory.read(OBJECT_AT, OBJECT_SIZE)) == before
        assert session.toy.held == session.input.held == frozenset()
        assert session.toy.input.mouse_px == (0, 0)
        assert session.info.n_starts == 1
        assert (session.clock.speed, session.clock.game_time_s) == (1.0, 0.0)


def test_a_read_only_session_is_read():
    with FakeSession(SessionOptions(is_read_only=True)) as session:
        assert session.info.is_read_only
        assert session.read("hp") == session.read_number(HP) == session.snapshot()["hp"] == 100
        result = session.step(Step(attributes=("hp",), frame=FrameFormat(8, 8)))
        assert result.snapshot["hp"] == 100
        assert result.frame.pixels.shape == session.capture(FrameFormat(8, 8)).pixels.shape == (8, 8, 3)
        assert (session.clock.grade, session.input.backend) == ("lockstep", "fake")
        session.input.close()
        session.clock.close()
        assert session.read("hp") == 100


def test_options_with_which_the_game_does_not_start_are_not_kept():
    with FakeSession(SessionOptions(options={"level": "3"})) as session:
        with pytest.raises(ValueError, match="invalid literal"):
            session.restart({"level": "no number"}, seed=5)
        session.restart()
        assert session.read("level") == 3
        assert not session._options.deterministic


def test_a_session_without_a_window_has_memory_and_time():
    with FakeSession(SessionOptions(with_window=False)) as session:
        assert session.info.window_px == (0, 0)
        assert session.step(Step(advance_s=0.1)).snapshot["ticks"] == 6
        for use in (session.capture, lambda: session.input, lambda: session.step(Step(held=("W",)))):
            with pytest.raises(WindowNotFoundError, match="with_window=False"):
                use()


def test_a_step_that_presses_a_held_key_sends_all_held_keys():
    with pytest.raises(InputError, match="presses SPACE again, but has no keys held"):
        Step(again=("SPACE",), advance_s=0.1)


def test_a_closed_window_is_distinguished_from_a_game_that_ended():
    with FakeSession() as session:
        session.toy.has_window = False
        with pytest.raises(WindowGoneError):
            session.capture()
        session.toy.is_alive = False
        with pytest.raises(ProcessExitedError):
            session.capture()
