"""Contract suite for sessions: tests that every session passes, whether local, remote, fake, or third-party.

::

    class TestMySession(SessionContract):
        @pytest.fixture
        def session(self):
            with open_session(PROFILE) as session:
                yield session

        @pytest.fixture
        def game(self):
            return ContractGame(number="hp", number_value=50, outside=10**6, tick="ticks", ...)

Each test gets a new session, or one that was restarted.
"""

# ruff: noqa: D102, S101  (these are tests, and their names describe them)

from __future__ import annotations

import threading
import time
from typing import TypeVar

import msgspec
import numpy as np
import pytest

from soulslab.errors import (
    ClockUnavailableError,
    InvalidValueError,
    ReadOnlyError,
    SessionStateError,
    SoulslabError,
    UnknownAttributeError,
    UnknownKeyError,
)
from soulslab.siphon.capture import NATIVE, FrameFormat
from soulslab.siphon.profile import Value
from soulslab.siphon.session import Session, Step

E = TypeVar("E", bound=SoulslabError)

SMALL_GREY = FrameFormat(84, 84, True)
SMALL_RGB = FrameFormat(40, 30)
N_TICKS = 4
N_THREADS = 4


class ContractGame(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the game that the tests need.

    Attributes:
        number: Writable number that the game does not change while its time is held.
        number_value: Value to write to it; not its initial value.
        outside: Value outside its plausible range.
        other: Another writable attribute.
        other_value: Value to write to it.
        fixed: Attribute that is not writable.
        tick: Integer attribute that grows by one with each tick of the game.
        tick_s: Game time of a tick.
        key: Key that changes an attribute while it is held.
        changes: Attribute that it changes.
        n_ticks: Largest number of ticks until the change.
    """

    number: str
    number_value: Value
    outside: Value
    other: str
    other_value: Value
    fixed: str
    tick: str
    tick_s: float
    key: str
    changes: str
    n_ticks: int


class SessionContract:
    """Tests of the interface `soulslab.siphon.session.Session`.

    A subclass provides the fixtures ``session``, an open session with write access and a window, and ``game``, a
    `ContractGame`.
    """

    # --- info -----------------------------------------------------------------------------------------------

    def test_info_describes_process_clock_and_window(self, session: Session, game: ContractGame) -> None:
        info = session.info
        assert info.pid > 0
        assert info.executable
        assert info.n_starts >= 1
        assert not info.is_read_only
        assert info.clock_grade == session.clock.grade
        assert info.input_backend == session.input.backend != ""
        assert min(info.window_px) > 0
        assert game.number in session.profile.attributes

    # --- reading --------------------------------------------------------------------------------------------

    def test_a_snapshot_contains_all_attributes_in_the_order_of_the_profile(self, session: Session) -> None:
        _hold_time(session)
        before = time.time()
        snapshot = session.snapshot()
        assert list(snapshot) == list(session.profile.attributes)
        assert before - 1.0 <= snapshot.wall_time_s <= time.time() + 1.0
        assert snapshot.game_time_s <= session.clock.game_time_s

    def test_a_snapshot_contains_the_requested_attributes_in_their_order(
        self, session: Session, game: ContractGame
    ) -> None:
        assert list(session.snapshot([game.tick, game.number])) == [game.tick, game.number]
        assert len(session.snapshot([])) == 0

    def test_an_examination_has_the_values_of_the_snapshot(self, session: Session, game: ContractGame) -> None:
        session.clock.pause()
        snapshot, found = session.snapshot(), session.examine()
        assert list(found) == list(session.profile.attributes)
        for name, findings in found.items():
            np.testing.assert_array_equal(findings[0].value, snapshot[name])
            assert (findings[0].trouble, findings[0].problem) == ("", "")
            assert findings[0].source == session.profile.attributes[name].source
        assert list(session.examine([game.tick, game.number])) == [game.tick, game.number]

    def test_a_read_has_the_value_and_type_of_the_snapshot(self, session: Session) -> None:
        _hold_time(session)
        for name, value in session.snapshot().items():
            alone = session.read(name)
            assert type(alone) is type(value)
            assert np.array_equal(alone, value)

    def test_the_error_of_an_unknown_attribute_lists_all_attributes(self, session: Session, game: ContractGame) -> None:
        for ask in (
            lambda: session.read("no such"),
            lambda: session.snapshot([game.number, "no such"]),
            lambda: session.step(Step(attributes=("no such",))),
        ):
            with raises(UnknownAttributeError) as caught:
                ask()
            assert caught.value.name == "no such"
            assert set(caught.value.known) == set(session.profile.attributes)
        assert session.read(game.number) is not None

    # --- writing --------------------------------------------------------------------------------------------

    def test_written_values_are_read(self, session: Session, game: ContractGame) -> None:
        _hold_time(session)
        session.write({game.number: game.number_value, game.other: game.other_value})
        assert session.read(game.number) == game.number_value
        assert session.read(game.other) == game.other_value

    def test_numpy_numbers_can_be_written(self, session: Session, game: ContractGame) -> None:
        _hold_time(session)
        session.write({game.number: np.asarray(game.number_value)[()]})
        assert session.read(game.number) == game.number_value

    def test_nothing_is_written_if_one_value_is_invalid(self, session: Session, game: ContractGame) -> None:
        _hold_time(session)
        before = session.read(game.number)
        assert before != game.number_value
        for name, value, error in (
            (game.other, game.outside, InvalidValueError),
            (game.other, "text", InvalidValueError),
            (game.other, None, InvalidValueError),
            (game.other, object(), InvalidValueError),
            (game.other, 2**70, InvalidValueError),
            (game.other, float("nan"), InvalidValueError),
            (game.fixed, session.read(game.fixed), ReadOnlyError),
            ("no such", 1, UnknownAttributeError),
        ):
            with raises(error) as caught:
                session.write({game.number: game.number_value, name: value})
            if isinstance(caught.value, InvalidValueError):
                assert caught.value.attribute == game.other
            assert session.read(game.number) == before

    # --- frames ---------------------------------------------------------------------------------------------

    def test_a_frame_has_the_requested_format(self, session: Session) -> None:
        width, height = session.info.window_px
        for frame_format, shape in (
            (NATIVE, (height, width, 3)),
            (SMALL_RGB, (SMALL_RGB.height_px, SMALL_RGB.width_px, 3)),
            (SMALL_GREY, (SMALL_GREY.height_px, SMALL_GREY.width_px)),
            (FrameFormat(0, 0, True), (height, width)),
        ):
            frame = session.capture(frame_format)
            assert frame.pixels.shape == shape
            assert frame.pixels.dtype == np.uint8

    def test_a_frame_is_a_new_writable_array(self, session: Session, game: ContractGame) -> None:
        first = session.step(_look(game)).frame
        assert first is not None
        kept = first.pixels.copy()
        for _ in range(N_TICKS):
            session.step(_look(game))
        assert np.array_equal(first.pixels, kept)
        first.pixels[0] = 7

    # --- steps ----------------------------------------------------------------------------------------------

    def test_a_step_advances_the_requested_game_time(self, session: Session, game: ContractGame) -> None:
        _hold_time(session)
        start = session.step(Step(advance_s=game.tick_s, attributes=(game.tick,))).snapshot
        result = session.step(Step(advance_s=N_TICKS * game.tick_s, attributes=(game.tick,)))
        ticks = result.snapshot[game.tick] - start[game.tick]
        assert result.advance.requested_s == N_TICKS * game.tick_s
        assert result.snapshot.game_time_s > start.game_time_s
        assert result.frame is None
        if session.clock.grade == "lockstep":
            assert ticks == N_TICKS
            assert abs(result.advance.elapsed_s - N_TICKS * game.tick_s) < 1e-6
        else:
            assert ticks >= 1

    def test_values_and_frame_of_a_step_have_the_same_time(self, session: Session, game: ContractGame) -> None:
        _hold_time(session)
        result = session.step(_look(game))
        assert result.frame is not None
        assert result.frame.pixels.shape == (84, 84)
        if session.clock.grade != "realtime":
            assert result.frame.game_time_s == result.snapshot.game_time_s
            assert session.step(Step(attributes=(game.tick,))).snapshot[game.tick] == result.snapshot[game.tick]

    def test_a_step_without_keys_keeps_the_held_keys(self, session: Session, game: ContractGame) -> None:
        _hold_time(session)
        before = session.read(game.changes)
        result = session.step(Step(held=(game.key,), advance_s=game.n_ticks * game.tick_s))
        assert not np.array_equal(result.snapshot[game.changes], before)
        session.step(Step(advance_s=game.tick_s))
        assert session.input.held == {game.key}
        session.step(Step(held=(), advance_s=game.tick_s))
        assert session.input.held == frozenset()

    def test_the_session_can_be_used_after_errors(self, session: Session, game: ContractGame) -> None:
        for _ in range(3):
            with raises(UnknownKeyError):
                session.step(Step(held=("NO SUCH KEY",)))
            with raises(UnknownAttributeError):
                session.step(Step(attributes=("no such",)))
        assert session.step(Step(advance_s=game.tick_s, attributes=(game.number,))).snapshot[game.number] is not None

    # --- keys and mouse -------------------------------------------------------------------------------------

    def test_typing_does_not_change_the_held_keys(self, session: Session, game: ContractGame) -> None:
        session.input.set_held([game.key])
        session.input.type([game.key])
        assert session.input.held == {game.key}
        session.input.set_held(())
        assert session.input.held == frozenset()
        session.input.move_mouse(3, -2)

    def test_an_unknown_key_changes_no_other_key(self, session: Session, game: ContractGame) -> None:
        session.input.set_held([game.key])
        for send in (session.input.set_held, session.input.type):
            with raises(UnknownKeyError) as caught:
                send(["NO SUCH KEY"])
            assert caught.value.name == "NO SUCH KEY"
            assert game.key in caught.value.known
        assert session.input.held == {game.key}

    # --- clock ----------------------------------------------------------------------------------------------

    def test_the_clock_runs_and_pauses(self, session: Session) -> None:
        clock = session.clock
        clock.run()
        assert clock.speed == 1.0
        if clock.grade == "realtime":
            for change in (clock.pause, lambda: clock.run(2.0)):
                with raises(ClockUnavailableError):
                    change()
            return
        clock.run(2.0)
        assert clock.speed == 2.0
        clock.pause()
        assert clock.speed == 0.0
        assert clock.game_time_s == clock.game_time_s

    def test_game_time_never_decreases(self, session: Session, game: ContractGame) -> None:
        times = [session.clock.game_time_s]
        for _ in range(3):
            advance = session.clock.advance(game.tick_s)
            assert advance.requested_s == game.tick_s
            times.append(session.clock.game_time_s)
            session.clock.run()
            times.append(session.clock.game_time_s)
            _hold_time(session)
            times.append(session.clock.game_time_s)
        assert times == sorted(times)
        assert times[-1] > times[0]

    def test_an_advance_by_0_s_is_valid(self, session: Session) -> None:
        assert session.clock.advance(0.0).requested_s == 0.0

    # --- restart and close ----------------------------------------------------------------------------------

    def test_a_restart_releases_keys_and_keeps_the_session_open(self, session: Session, game: ContractGame) -> None:
        starts = session.info.n_starts
        session.input.set_held([game.key])
        session.restart()
        assert session.info.n_starts == starts + 1
        assert session.input.held == frozenset()
        assert session.step(_look(game)).frame is not None
        assert list(session.snapshot([game.number])) == [game.number]

    def test_all_methods_of_a_closed_session_raise(self, session: Session, game: ContractGame) -> None:
        session.close()
        session.close()
        for use in (
            lambda: session.info,
            lambda: session.read(game.number),
            session.snapshot,
            lambda: session.write({game.number: game.number_value}),
            session.capture,
            lambda: session.step(Step()),
            lambda: session.input.set_held(()),
            lambda: session.clock.advance(0.0),
            session.restart,
        ):
            with raises(SessionStateError):
                use()

    def test_a_with_block_closes_the_session(self, session: Session) -> None:
        with session as same:
            assert same is session
        with raises(SessionStateError):
            session.snapshot()

    def test_threads_can_share_a_session(self, session: Session, game: ContractGame) -> None:
        _hold_time(session)
        names = [game.number, game.other, game.tick, game.fixed]
        expected = session.snapshot(names)
        failures: list[str] = []

        def ask(name: str) -> None:
            try:
                for _ in range(20):
                    assert session.read(name) == expected[name]
                    assert session.capture(SMALL_GREY).pixels.shape == (84, 84)
            except (SoulslabError, AssertionError) as error:
                failures.append(f"{name}: {error}")

        threads = [threading.Thread(target=ask, args=(name,)) for name in names[:N_THREADS]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures


def _hold_time(session: Session) -> None:
    """Pause the game if its clock permits that."""
    if session.clock.grade != "realtime":
        session.clock.pause()


def _look(game: ContractGame) -> Step:
    return Step(advance_s=game.tick_s, attributes=(game.tick, game.number), frame=SMALL_GREY)


def raises(kind: type[E]) -> pytest.RaisesExc[E]:
    """Check that the block raises an error of a class, and that the error has a message."""
    return pytest.raises(kind, match=r".")
