"""Which ticks are due: game time from the system's clock, at the game's speed.

Only whole nanoseconds are added up, so that at 1x the ticks of any 100 ms are exactly six, for ever.
"""

from __future__ import annotations

from soulslab.arena.state import TICKS_PER_S

_S_NS = 1_000_000_000
#: After a longer standstill (the process was stopped, the machine slept) the rest of the time is dropped.
MAX_BEHIND_NS = _S_NS


class TickTimer:
    """Counts the ticks that are due.

    Args:
        now_ns: Time of the system's clock at the start.
    """

    def __init__(self, now_ns: int) -> None:
        self._last_ns = now_ns
        self._left_ns = 0  # game time since the last tick that was due

    def due(self, now_ns: int, speed: float) -> int:
        """Return how many ticks have come due since the last call.

        Args:
            now_ns: Time of the system's clock.
            speed: Factor of game time since the last call.
        """
        passed_ns = min(now_ns - self._last_ns, MAX_BEHIND_NS)
        self._last_ns = now_ns
        self._left_ns += passed_ns if speed == 1.0 else int(passed_ns * speed)
        n_ticks = self._left_ns * TICKS_PER_S // _S_NS
        self._left_ns -= -(-n_ticks * _S_NS // TICKS_PER_S)
        return n_ticks

    def wait_ns(self, speed: float) -> int:
        """Return how long to wait until the next tick is due, at most the length of one at 1x.

        Even a game that stands has to look up now and then, for its speed may change.
        """
        whole = -(-_S_NS // TICKS_PER_S)
        if speed <= 0.0:
            return whole
        wait = (whole - self._left_ns) / speed  # infinite at the smallest speeds that there are
        return whole if wait >= whole else max(int(wait) + 1, 0)
