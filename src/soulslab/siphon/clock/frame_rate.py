"""Limits the game time per frame while a game's time is scaled.

A game computes the time of a whole frame at once; too much of it lets objects pass through each other, or is dropped.
At a speed s, a game that draws f frames per second computes s / f seconds in each. Therefore its frame-rate cap is
raised with the speed if it has one; otherwise the speed is limited.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from typing import Any

from soulslab.errors import ClockUnavailableError
from soulslab.siphon.profile import ClockFacts

#: A single long frame is tolerated; this many steps in succession that end with one mean that the machine is too slow.
LONG_STEPS = 3
#: Tolerance for the jitter of frame times.
_SLACK = 1.05

_log = logging.getLogger(__name__)


class FrameRate:
    """Keeps the frames of one game short; it reads and writes its attributes."""

    def __init__(
        self, facts: ClockFacts, read: Callable[[str], Any], write: Callable[[Mapping[str, Any]], None]
    ) -> None:
        self._facts = facts
        self._read = read
        self._write = write
        self._before: dict[str, Any] = {}
        self._cap_hz = 0.0
        self._highest_speed = math.inf
        self._n_long = 0

    def follow(self, speed: float) -> None:
        """Raise the cap for a speed, or restore it for at most 1. Raises `ClockUnavailableError` for long frames."""
        facts = self._facts
        if not facts.frame_rate_hz:
            return
        if not facts.frame_rate_attribute:
            self._refuse_long(speed)
            return
        if speed <= 1.0:
            self.put_back()
            return
        cap_hz = speed * facts.frame_rate_hz
        if cap_hz == self._cap_hz:
            return
        cap: dict[str, Any] = {facts.frame_rate_attribute: cap_hz}
        if facts.frame_rate_flag:
            cap[facts.frame_rate_flag] = True
        if not self._before:
            self._before = {name: self._read(name) for name in cap}
        self._write(cap)
        self._cap_hz = cap_hz

    def limited(self, speed: float) -> float:
        """Return a speed, limited to the highest one at which this machine has drawn short enough frames."""
        return min(speed, self._highest_speed)

    def look(self, speed: float) -> None:
        """Check the last frame of a step at a speed; after several long ones in succession the speed is reduced."""
        facts = self._facts
        # At a speed of 1 the game chooses its frame time, and long frames during loading are normal.
        if not facts.frame_time_attribute or speed <= 1.0:
            self._n_long = 0
            return
        frame_s = float(self._read(facts.frame_time_attribute))
        self._n_long = self._n_long + 1 if frame_s > facts.max_frame_s * _SLACK else 0
        if self._n_long < LONG_STEPS:
            return
        self._n_long = 0
        self._highest_speed = max(speed * facts.max_frame_s / frame_s, 1.0)
        _log.warning(
            "at speed %g a frame contains %.4g s of game time, more than clock.max_frame_s of the profile (%.4g s); "
            "steps run at speed %.3g from now on",
            speed,
            frame_s,
            facts.max_frame_s,
            self._highest_speed,
        )

    def _refuse_long(self, speed: float) -> None:
        facts = self._facts
        highest = facts.frame_rate_hz * facts.max_frame_s
        if speed > highest * (1.0 + 1e-9):
            raise ClockUnavailableError(
                f"at {speed:g}x a frame would hold {speed / facts.frame_rate_hz:.4g} s of game time, and "
                f"{facts.max_frame_s:.4g} s is the most (clock.max_frame_s): the game draws {facts.frame_rate_hz:g} "
                f"frames a second, and its profile names no clock.frame_rate_attribute to raise; ask for {highest:g}x "
                "or less"
            )

    def put_back(self) -> None:
        """Restore the game's own cap; a second call does nothing."""
        before, self._before, self._cap_hz = self._before, {}, 0.0
        if before:
            self._write(before)
