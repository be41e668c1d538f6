"""The clock of a game with a speed attribute, which multiplies its time and stops it at 0."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from soulslab.errors import ClockStalledError, ClockUnavailableError, ProcessExitedError
from soulslab.siphon.clock import Advance, check_seconds, check_speed
from soulslab.siphon.clock.frame_rate import FrameRate
from soulslab.siphon.process.process_watch import watch_process
from soulslab.siphon.profile import ClockFacts, ClockGrade

#: Interval between reads of the game's own time.
_POLL_S = 0.0005
#: Tolerance within which a written speed must read back.
_TOLERANCE = 1e-3


class ScaledClock:
    """The time of a game that is scaled and stopped by its speed attribute (`soulslab.siphon.clock.Clock`).

    Args:
        read_speed: Reads the game's speed.
        write_speed: Writes it.
        pid: Process id of the game; 0 for none (the two functions above then detect its end).
        game_time: Reads the game's own time in seconds; None to measure wall time times speed, which is off by a frame.
        frames: Limits its frame times; None for no limit.

    Raises `ProcessExitedError` if the game has ended.
    """

    grade: ClockGrade = "scaled"

    def __init__(
        self,
        read_speed: Callable[[], float],
        write_speed: Callable[[float], None],
        pid: int = 0,
        *,
        game_time: Callable[[], float] | None = None,
        frames: FrameRate | None = None,
    ) -> None:
        self.pid = pid
        self._read_speed = read_speed
        self._write_speed = write_speed
        self._game_time = game_time
        self._frames = frames or FrameRate(ClockFacts(), lambda _: None, lambda _: None)
        self._lock = threading.RLock()
        self._is_closed = False
        self._speed = float(read_speed())
        # A clock that was only read leaves the game unchanged. A clock that has set the speed runs the game on close,
        # even if the game stood at the beginning: a killed controller leaves it in that state.
        self._has_set_speed = False
        self._since_s = time.perf_counter()
        self._passed_s = 0.0  # up to _since_s
        self._counted_s = game_time() if game_time else 0.0
        # Opened last, because it is not closed if one of the values cannot be read.
        self._watch = watch_process(pid) if pid else None
        # A program that ends without closing must not leave the game paused.
        atexit.register(self.close)
        self._rest_s = 0.0  # by which the last advance was too short (above 0) or too long

    @property
    def game_time_s(self) -> float:
        """See `Clock.game_time_s`: since attaching."""
        with self._lock:
            if self._game_time is not None:
                now_s = self._game_time()
                # A restarted level may reset the game's own time; counting continues from there.
                self._passed_s += max(now_s - self._counted_s, 0.0)
                self._counted_s = now_s
                return self._passed_s
            return self._passed_s + (time.perf_counter() - self._since_s) * self._speed

    @property
    def speed(self) -> float:
        """See `Clock.speed`."""
        return self._speed

    def run(self, speed: float = 1.0) -> None:
        """See `Clock.run`. Raises `ClockUnavailableError` for a refused speed, or one with too long frames."""
        check_speed(speed)
        with self._lock:
            self._check()
            self._frames.follow(speed)
            self._set(speed)

    def pause(self) -> None:
        """See `Clock.pause`; the game stands from its next frame."""
        self._set(0.0)

    def advance(self, seconds: float, *, deadline_s: float = 10.0, speed: float | None = None) -> Advance:
        """See `Clock.advance`. A step that is too long shortens the next one."""
        check_seconds(seconds)
        speed = speed if speed is not None else 1.0
        check_speed(speed)
        with self._lock:
            self._check()
            speed = self._frames.limited(speed)
            self._frames.follow(speed)
            before_s = self.game_time_s
            wanted_s = max(seconds + self._rest_s, 0.0)
            deadline = time.perf_counter() + deadline_s
            if wanted_s > 0.0:
                self._set(speed)
                try:
                    self._await(before_s + wanted_s, deadline, deadline_s)
                    self._frames.look(speed)
                finally:
                    self._set(0.0)
            else:
                self._set(0.0)
            elapsed_s = self.game_time_s - before_s
            self._rest_s = wanted_s - elapsed_s
            return Advance(requested_s=seconds, elapsed_s=elapsed_s, late_s=max(elapsed_s - wanted_s, 0.0) / speed)

    def close(self) -> None:
        """See `Clock.close`."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            atexit.unregister(self.close)
            try:
                with suppress(ProcessExitedError):  # no speed to restore in a game that has ended
                    self._check()
                    if self._has_set_speed and self._speed != 1.0:
                        self._write_speed(1.0)
                    self._frames.put_back()
            finally:
                if self._watch is not None:
                    self._watch.close()

    def _await(self, target_s: float, deadline: float, deadline_s: float) -> None:
        """Wait until the game's time has reached a value."""
        while (left_s := target_s - self.game_time_s) > 0:
            now = time.perf_counter()
            if now > deadline:
                raise ClockStalledError(
                    f"the time of the game is {left_s:.3f} s short of its step after {deadline_s:.1f} s of wall time; "
                    "is it in a menu, or was its speed changed by others?",
                    deadline_s,
                )
            wait_s = _POLL_S if self._game_time else min(left_s / self._speed, deadline - now + _POLL_S)
            if self._watch is None:
                time.sleep(wait_s)
            else:
                self._watch.wait(wait_s)

    def _set(self, speed: float) -> None:
        with self._lock:
            self._check()
            if self._game_time is None:
                # One read of the clock, so that no time is counted twice; the game applies the new speed within a
                # frame.
                now_s = time.perf_counter()
                self._passed_s += (now_s - self._since_s) * self._speed
                self._since_s = now_s
            self._has_set_speed = True
            # A game whose own time cannot be read, as during loading, can be stopped nevertheless.
            self._write_speed(speed)
            got = self._read_speed()
            self._speed = float(got)
            if abs(got - speed) > _TOLERANCE * max(speed, 1.0):
                raise ClockUnavailableError(
                    f"the game's speed reads {got:g} after {speed:g} was written; the profile's clock.speed_attribute "
                    "is not its speed, or the game does not allow this one"
                )

    def _check(self) -> None:
        if self._watch is not None:
            self._watch.check()
