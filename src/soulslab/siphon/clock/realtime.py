"""The clock of a game whose time cannot be controlled: it waits, and reports lateness."""

from __future__ import annotations

import threading
import time

from soulslab.errors import ClockUnavailableError
from soulslab.siphon.clock import Advance, check_seconds
from soulslab.siphon.process.process_watch import watch_process
from soulslab.siphon.profile import ClockGrade


class RealtimeClock:
    """The time of a game that runs at 1x (`soulslab.siphon.clock.Clock`).

    Advances keep a fixed rate: each ends `seconds` after the scheduled end of the previous one, so work of the caller
    between them does not slow the steps down. A late advance ends at once. If it is late by a whole step, the schedule
    restarts `seconds` from now.

    Raises `ProcessExitedError` if the game has ended.
    """

    grade: ClockGrade = "realtime"

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._watch = watch_process(pid)
        self._lock = threading.Lock()
        # perf_counter, because time.monotonic has a resolution of 16 ms on Windows.
        self._started_s = time.perf_counter()
        self._ended_s: float | None = None  # actual end of the last advance
        self._beat_s = 0.0  # scheduled end of the last advance

    @property
    def game_time_s(self) -> float:
        """See `Clock.game_time_s`: since attaching."""
        return time.perf_counter() - self._started_s

    @property
    def speed(self) -> float:
        """See `Clock.speed`: 1."""
        return 1.0

    def run(self, speed: float = 1.0) -> None:
        """See `Clock.run`."""
        self._watch.check()
        _refuse_speed(speed)

    def pause(self) -> None:
        """Raise `ClockUnavailableError`."""
        self._watch.check()
        raise ClockUnavailableError(f"a realtime clock cannot pause; {_HINT}")

    def advance(self, seconds: float, *, deadline_s: float = 10.0, speed: float | None = None) -> Advance:
        """See `Clock.advance`; `deadline_s` is ignored, because the length of the advance is fixed."""
        del deadline_s
        check_seconds(seconds)
        _refuse_speed(speed)
        with self._lock:
            self._watch.check()
            now_s = time.perf_counter()
            from_s = self._ended_s if self._ended_s is not None else now_s
            late_s = max(now_s - self._beat_s - seconds, 0.0) if self._ended_s is not None else 0.0
            if self._ended_s is None or late_s >= seconds:
                self._beat_s = now_s
            self._beat_s += seconds
            self._watch.wait(self._beat_s - now_s)
            self._ended_s = time.perf_counter()
            late_s = max(late_s, self._ended_s - self._beat_s)
            return Advance(requested_s=seconds, elapsed_s=self._ended_s - from_s, late_s=late_s)

    def close(self) -> None:
        """See `Clock.close`."""
        self._watch.close()


_HINT = "let soulslab start the game with the lockstep clock, or name clock.speed_attribute in its profile"


def _refuse_speed(speed: float | None) -> None:
    if speed not in (None, 1.0):
        raise ClockUnavailableError(f"a realtime clock cannot run at {speed:g}x; {_HINT}")
