"""Control of game time: one Protocol, three grades, one fake.

* ``lockstep``: a library that is loaded into the game when it starts answers all of its queries for the time. The game
  cannot run past a limit, and the controller is notified when it waits there.
* ``scaled``: an attribute of the game scales its time; 0 pauses it. The length of a step depends on the scheduler.
* ``realtime``: the controller can only wait.
"""

from __future__ import annotations

import math
from typing import Protocol

import msgspec

from soulslab.errors import ConfigError
from soulslab.siphon.profile import ClockGrade


class Advance(msgspec.Struct, frozen=True):
    """Result of an advance.

    Attributes:
        requested_s: Requested game time.
        elapsed_s: Game time that passed.
        late_s: Wall time by which the advance ended after its deadline (realtime), or by which the game was held too
            late (scaled); 0 in lockstep.
    """

    requested_s: float
    elapsed_s: float
    late_s: float = 0.0


class Clock(Protocol):
    """The clock of one game."""

    grade: ClockGrade

    @property
    def game_time_s(self) -> float:
        """Game time since the game started (lockstep) or since attaching; never decreases."""

    @property
    def speed(self) -> float:
        """Game seconds per wall second while the game runs freely; 0 while it is paused."""

    def run(self, speed: float = 1.0) -> None:
        """Run the game freely at `speed` game seconds per wall second, more than 0.

        Raises `ClockUnavailableError` if a realtime clock gets another speed than 1, and `ProcessExitedError`.
        """

    def pause(self) -> None:
        """Hold the game; return once it stands. Raises as `run`."""

    def advance(self, seconds: float, *, deadline_s: float = 10.0, speed: float | None = None) -> Advance:
        """Advance by an amount of game time, then hold (lockstep, scaled) or return (realtime).

        Args:
            seconds: Game time, at least 0. Fractions of a nanosecond are carried over, so that a million advances of
                1/35 s are exactly 1e6/35 s.
            deadline_s: Longest wall time of the advance.
            speed: Game seconds per wall second during the advance; None for 1 (scaled), or at once (lockstep).

        Raises:
            ClockUnavailableError: The game cannot run at this speed; a realtime clock supports only 1.
            ClockStalledError: The deadline has passed. The game is held; it may not have reached the limit yet.
            ProcessExitedError: The game has ended.
        """

    def close(self) -> None:
        """Run the game at 1x, unless an earlier owner held it, and release it; a second call does nothing."""


def check_seconds(seconds: float) -> None:
    """Raise `ConfigError` for an amount of game time that no clock can advance by."""
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ConfigError(f"is {seconds!r}; it has to be 0 or more", path="seconds")


def check_speed(speed: float, highest: float = math.inf) -> None:
    """Raise `ConfigError` for a speed at which no game can run."""
    if not (math.isfinite(speed) and 0.0 < speed <= highest):
        limit = f" and at most {highest:g}" if math.isfinite(highest) else ""
        raise ConfigError(f"is {speed!r}; it has to be above 0{limit}", path="speed")
