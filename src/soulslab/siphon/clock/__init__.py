"""Game time: one Protocol, three grades, one fake.

* ``lockstep``: a library that is loaded into the game when it starts answers all its questions about time. The game
  cannot run past a limit that we set, and we learn when it waits there.
* ``scaled``: the game has a speed of its own, an attribute; 0 pauses it. How far a step goes is up to the scheduler.
* ``realtime``: we can only wait.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from soulslab.siphon.profile import ClockGrade


class Advance(msgspec.Struct, frozen=True):
    """How an advance went.

    Attributes:
        requested_s: Game time that was asked for.
        elapsed_s: Game time that passed.
        late_s: Wall time by which it ended after its deadline (realtime), or the game was held too late (scaled);
            0 in lockstep.
    """

    requested_s: float
    elapsed_s: float
    late_s: float = 0.0


class Clock(Protocol):
    """The time of one game.

    Attributes:
        grade: What it can do.
    """

    grade: ClockGrade

    @property
    def game_time_s(self) -> float:
        """Game time that has passed since the game started (lockstep) or since we attached; it never goes back."""
        ...

    @property
    def speed(self) -> float:
        """Game seconds per wall second while it runs freely; 0 while it is paused."""
        ...

    def run(self, speed: float = 1.0) -> None:
        """Let the game run freely.

        Args:
            speed: Game seconds per wall second, more than 0.

        Raises:
            ClockUnavailableError: A realtime clock runs at 1 only.
            ProcessExitedError: The game has ended.
        """
        ...

    def pause(self) -> None:
        """Hold the game where it is; returns once it stands. Raises as `run`."""
        ...

    def advance(self, seconds: float, *, deadline_s: float = 10.0, speed: float | None = None) -> Advance:
        """Let so much game time pass, then hold (lockstep, scaled) or just return (realtime).

        Args:
            seconds: Game time, at least 0. Parts of a nanosecond are carried over, so that a million advances of
                1/35 s are exactly 1e6/35 s.
            deadline_s: Wall time that the game may take for it.
            speed: Game seconds per wall second meanwhile; None for 1 (scaled), or at once (lockstep).

        Raises:
            ClockUnavailableError: The game cannot run at this speed; a realtime clock runs at 1 only.
            ClockStalledError: It took longer. The game is held; it may still be on its way to the limit.
            ProcessExitedError: The game has ended.
        """
        ...

    def close(self) -> None:
        """Let the game run at 1x, unless it was held by an earlier owner, and let go; a second call does nothing."""
        ...
