"""Deadlines for calls without one, such as the messages of a stream and the replies of an X server."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable


class Watchdog:
    """Calls a function when a deadline has passed; setting a deadline wakes no thread."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._deadline = math.inf
        self._action: Callable[[], object] | None = None
        self._wakes_at = math.inf
        self._is_closed = False
        self._thread = threading.Thread(target=self._watch, name="soulslab-watchdog", daemon=True)
        self._thread.start()

    def arm(self, seconds: float, action: Callable[[], object]) -> None:
        """Call `action` in another thread, unless `disarm` is called within a time."""
        with self._condition:
            self._deadline = time.monotonic() + seconds
            self._action = action
            if self._deadline < self._wakes_at:
                self._condition.notify()

    def disarm(self) -> None:
        """Cancel the deadline."""
        with self._condition:
            self._deadline = math.inf
            self._action = None

    def close(self) -> None:
        """End the thread; a second call does nothing."""
        with self._condition:
            self._is_closed = True
            self._condition.notify()
        self._thread.join()

    def _watch(self) -> None:
        with self._condition:
            while not self._is_closed:
                left = self._deadline - time.monotonic()
                if left <= 0.0:
                    action, self._action, self._deadline = self._action, None, math.inf
                    if action is not None:
                        action()
                    continue
                self._wakes_at = self._deadline
                self._condition.wait(None if math.isinf(left) else left)
                # If a deadline is set while the thread is awake, the thread reads it anyway.
                self._wakes_at = -math.inf
