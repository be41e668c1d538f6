"""A clock without a game: its time passes only by `advance`, without waiting."""

from __future__ import annotations

import math
from collections.abc import Callable

from soulslab.errors import ConfigError, SessionStateError
from soulslab.siphon.clock import Advance
from soulslab.siphon.profile import ClockGrade


class FakeClock:
    """Calls ``on_advance`` with the game time of each advance, in seconds (`soulslab.siphon.clock.Clock`).

    ``check_alive`` is called before each change; it raises `ProcessExitedError` if the game is to have ended.
    """

    grade: ClockGrade = "lockstep"

    def __init__(self, on_advance: Callable[[float], None], check_alive: Callable[[], None] = lambda: None) -> None:
        self._on_advance = on_advance
        self._check_alive = check_alive
        self._speed = 1.0
        self._time_ns = 0
        self._rest_ns = 0.0
        self._is_closed = False

    @property
    def game_time_s(self) -> float:
        """See `Clock.game_time_s`."""
        self._refuse_closed()
        return self._time_ns * 1e-9

    @property
    def speed(self) -> float:
        """See `Clock.speed`."""
        self._refuse_closed()
        return self._speed

    def run(self, speed: float = 1.0) -> None:
        """See `Clock.run`."""
        if not (math.isfinite(speed) and speed > 0.0):
            raise ConfigError(f"is {speed!r}; it has to be above 0", path="speed")
        self._refuse_closed()
        self._check_alive()
        self._speed = speed

    def pause(self) -> None:
        """See `Clock.pause`."""
        self._refuse_closed()
        self._check_alive()
        self._speed = 0.0

    def advance(self, seconds: float, *, deadline_s: float = 10.0, speed: float | None = None) -> Advance:
        """See `Clock.advance`; every speed is accepted."""
        del deadline_s, speed
        if not (math.isfinite(seconds) and seconds >= 0):
            raise ConfigError(f"is {seconds!r}; it has to be 0 or more", path="seconds")
        self.pause()
        exact_ns = seconds * 1e9 + self._rest_ns
        passed_ns = math.floor(exact_ns)
        self._rest_ns = exact_ns - passed_ns
        self._on_advance(seconds)
        self._time_ns += passed_ns
        return Advance(requested_s=seconds, elapsed_s=passed_ns * 1e-9)

    def close(self) -> None:
        """See `Clock.close`."""
        self._is_closed = True

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise SessionStateError("the clock is closed; open another session")
