"""Mean rate of a counter over the last seconds."""

from __future__ import annotations

from collections import deque


class RecentRate:
    """Mean rate of a counter that increases in bursts.

    A learner that draws the steps of several games at once counts hundreds of them in one moment and none for seconds
    afterwards; the rate since the last report would nearly always be 0.

    Args:
        now_s: Time at which the counter has the value ``count``, in seconds.
        count: First value of the counter.
        window_s: The rate is the mean over at least this time, as soon as it has passed.
    """

    def __init__(self, now_s: float, count: int, *, window_s: float = 10.0) -> None:
        self._window_s = window_s
        self._counts = deque([(now_s, count)])

    def update(self, now_s: float, count: int) -> float:
        """Add a value of the counter, and return its rate per second; 0 if no time has passed."""
        self._counts.append((now_s, count))
        while now_s - self._counts[1][0] >= self._window_s:
            self._counts.popleft()
        since_s, before = self._counts[0]
        return (count - before) / (now_s - since_s) if now_s > since_s else 0.0
