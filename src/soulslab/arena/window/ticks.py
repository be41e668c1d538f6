"""Timing of ticks: game time from the system's clock, at the speed of the game.

Only whole nanoseconds are added, so that at a speed of 1 every 100 ms contain exactly six ticks, without drift.
"""

from __future__ import annotations

from soulslab.arena.state import TICKS_PER_S

_S_NS = 1_000_000_000
#: After a longer interruption (the process was stopped, the machine slept) the remaining time is dropped.
MAX_BEHIND_NS = _S_NS


class TickTimer:
    """Counts the ticks that are due.

    Args:
        now_ns: Present time of the system's clock.
    """

    def __init__(self, now_ns: int) -> None:
        self._last_ns = now_ns
        self._left_ns = 0  # game time since the last tick that was due

    def due(self, now_ns: int, speed: float) -> int:
        """Return how many ticks have become due since the last call.

        Args:
            now_ns: Present time of the system's clock.
            speed: Factor of game time since the last call.
        """
        passed_ns = min(now_ns - self._last_ns, MAX_BEHIND_NS)
        self._last_ns = now_ns
        self._left_ns += passed_ns if speed == 1.0 else int(passed_ns * speed)
        n_ticks = self._left_ns * TICKS_PER_S // _S_NS
        self._left_ns -= -(-n_ticks * _S_NS // TICKS_PER_S)
        return n_ticks

    def wait_ns(self, speed: float) -> int:
        """Return the time until the next tick is due, at most the duration of a tick at speed 1.

        A paused game also has to check its input regularly, because its speed may change.
        """
        whole = -(-_S_NS // TICKS_PER_S)
        if speed <= 0.0:
            return whole
        wait = (whole - self._left_ns) / speed  # infinite for the smallest positive speeds
        return whole if wait >= whole else max(int(wait) + 1, 0)
