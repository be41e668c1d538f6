"""Health that an episode counts by itself, while the game's own is topped up so that no fight ends."""

from __future__ import annotations

#: Where time runs on between a look and a write, health is topped up only below this part of it: a hit that falls
#: in between is overwritten and lost, so there should be few such writes.
RUNNING_RESERVE = 0.5


class CountedHealth:
    """Health of one fighter.

    It loses what the game's loses, and gains what that gains, but not what was topped up.

    Args:
        full: Full health.

    Attributes:
        full: See above.
        left: What the episode counts, from 0 to `full`.
        real: What the game has, as far as known.
    """

    def __init__(self, full: float) -> None:
        self.full = full
        self.left = full
        self.real = full

    def begin(self, left: float, real: float) -> None:
        """Begin an episode with so much left, while the game has so much."""
        self.left, self.real = left, real

    def see(self, real: float, least: float = 0.0) -> None:
        """Take in what the game has now.

        Args:
            real: That.
            least: Losses stop here, if `left` is not below it already: no blow of a first phase takes more than it.
        """
        change = real - self.real
        self.real = real
        if change < 0.0:
            self.left = max(self.left + change, min(least, self.left))
        else:
            self.left = min(self.left + change, self.full)

    def end(self) -> None:
        """All of it is gone, whatever was counted."""
        self.left = 0.0

    def top_up(self, floor: float, *, is_held: bool) -> float | None:
        """Return what to write to the game; None if nothing needs to be.

        Args:
            floor: The game does something of its own at this health.
            is_held: Time stands between the look and the write, so that no hit can be lost.
        """
        reserve = self.full if is_held else floor + RUNNING_RESERVE * (self.full - floor)
        if self.real >= reserve:
            return None
        self.real = self.full
        return self.full
