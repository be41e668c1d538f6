"""Contract of all clocks, independent of their grade."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from soulslab.errors import ConfigError, ProcessExitedError
from soulslab.siphon.clock import Clock

TINY_S = 1e-6


class ClockContract:
    """Contract tests; subclasses provide the fixtures `clock` and `end_game` (ends the game of the clock)."""

    #: Whether game time advances only by the requested amount.
    is_exact = False
    #: Whether the clock can be paused.
    can_pause = True

    @pytest.fixture
    def clock(self) -> Clock:
        raise NotImplementedError

    @pytest.fixture
    def end_game(self) -> Callable[[], None]:
        raise NotImplementedError

    def test_an_advance_returns_the_elapsed_time(self, clock: Clock) -> None:
        clock.advance(0.0)
        before_s = clock.game_time_s
        advance = clock.advance(0.02)
        passed_s = clock.game_time_s - before_s
        assert advance.requested_s == 0.02
        assert advance.elapsed_s >= 0.0
        assert advance.late_s >= 0.0
        if self.is_exact:
            assert advance.elapsed_s == pytest.approx(0.02, abs=1e-9)
            assert passed_s == pytest.approx(0.02, abs=1e-9)
        elif self.can_pause:
            assert passed_s >= 0.02 - TINY_S
            assert passed_s == pytest.approx(advance.elapsed_s, abs=TINY_S)

    def test_many_advances_add_up(self, clock: Clock) -> None:
        clock.advance(0.0)
        before_s = clock.game_time_s
        elapsed_s = sum(clock.advance(1 / 700).elapsed_s for _ in range(70))
        if self.is_exact:
            assert clock.game_time_s - before_s == pytest.approx(0.1, abs=2e-9)
            assert elapsed_s == pytest.approx(0.1, abs=2e-9)
        else:
            assert elapsed_s >= 0.1 - 70 * TINY_S

    def test_time_never_decreases(self, clock: Clock) -> None:
        last_s = clock.game_time_s
        for seconds in (0.0, 0.001, 0.0, 0.003):
            clock.advance(seconds)
            now_s = clock.game_time_s
            assert now_s >= last_s
            last_s = now_s
            clock.run(1.0)
            assert clock.game_time_s >= last_s

    def test_time_is_paused_after_an_advance(self, clock: Clock) -> None:
        clock.advance(0.001)
        assert clock.speed == (0.0 if self.can_pause else 1.0)
        if self.can_pause:
            now_s = clock.game_time_s
            clock.pause()
            assert clock.game_time_s == now_s

    def test_time_runs_at_the_requested_speed(self, clock: Clock) -> None:
        clock.run()
        assert clock.speed == 1.0
        if self.can_pause:
            clock.run(0.5)
            assert clock.speed == 0.5
            clock.pause()
            assert clock.speed == 0.0

    @pytest.mark.parametrize("seconds", [-0.001, math.nan, math.inf])
    def test_an_invalid_step_is_refused(self, clock: Clock, seconds: float) -> None:
        with pytest.raises(ConfigError, match="seconds"):
            clock.advance(seconds)

    def test_the_end_of_the_game_is_an_error(self, clock: Clock, end_game: Callable[[], None]) -> None:
        clock.advance(0.001)
        end_game()
        with pytest.raises(ProcessExitedError):
            clock.advance(5.0)
        with pytest.raises(ProcessExitedError):
            clock.run()
        if self.can_pause:
            with pytest.raises(ProcessExitedError):
                clock.pause()

    def test_a_second_close_does_nothing(self, clock: Clock) -> None:
        clock.close()
        clock.close()

    def test_closing_after_the_end_of_the_game_works(self, clock: Clock, end_game: Callable[[], None]) -> None:
        end_game()
        clock.close()
