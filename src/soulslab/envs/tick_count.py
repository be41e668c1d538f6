"""Counting lost and doubled ticks: the ticks of each step are compared with the expected number.

::

    count = TickCount(profile, on_lost_tick="count")
    count.begin(int(snapshot[count.attribute]))
    count.add(int(snapshot[count.attribute]), n_expected=4)
    count.n_lost, count.n_doubled
"""

from __future__ import annotations

import logging

from soulslab.errors import LostTickError
from soulslab.siphon.profile import Attribute, Profile

_log = logging.getLogger(__name__)


class TickCount:
    """Counts lost and doubled ticks of an episode in lockstep.

    Args:
        profile: Profile of the game; `ClockFacts.tick_attribute` is its tick counter.
        on_lost_tick: ``count`` counts them and logs the first one, ``error`` raises `LostTickError`.

    Attributes:
        attribute: Name of the tick counter; "" if the profile has none.
        value: Last value of the tick counter.
        n_ticks: Ticks of the last step.
        n_lost: Missing ticks of the episode.
        n_doubled: Surplus ticks of the episode.
    """

    def __init__(self, profile: Profile, on_lost_tick: str = "count") -> None:
        self.attribute = profile.clock.tick_attribute
        self._fact = profile.attributes.get(self.attribute)
        self._is_error = on_lost_tick == "error"
        self._has_logged = False
        self._n_steps = 0
        self.value = 0
        self.n_ticks = 0
        self.n_lost = 0
        self.n_doubled = 0

    def begin(self, ticks: int) -> None:
        """Begin an episode with this value of the tick counter."""
        self.value = ticks
        self._n_steps = self.n_ticks = self.n_lost = self.n_doubled = 0

    def add(self, ticks: int, n_expected: int | None) -> None:
        """Count a step.

        Args:
            ticks: Value of the tick counter after the step.
            n_expected: Expected ticks of the step; None if the number is not known, as in real time.

        Raises:
            LostTickError: The number of ticks is not the expected one, and `on_lost_tick` is ``error``.
        """
        before, self.value = self.value, ticks
        self.n_ticks = ticks_between(before, ticks, self._fact) if self._fact is not None else 0
        self._n_steps += 1
        if n_expected is None or self.n_ticks == n_expected or has_restarted(self.n_ticks, ticks, n_expected):
            return
        # If the counter has decreased to another value than a restart, all ticks of the step count as missing.
        self.n_lost += max(n_expected - max(self.n_ticks, 0), 0)
        self.n_doubled += max(self.n_ticks - n_expected, 0)
        error = LostTickError(self.attribute, self._n_steps, n_expected, self.n_ticks)
        if self._is_error:
            raise error
        if not self._has_logged:
            self._has_logged = True
            _log.warning("%s; further ones are counted but not logged (info: ticks_lost, ticks_doubled)", error)


def has_restarted(n_ticks: int, after: int, n_expected: int) -> bool:
    """Return whether the game has reset its tick counter to 0 in a step, as some games do at each level.

    The number of ticks of such a step is unknown.

    Args:
        n_ticks: Increase of the counter in the step.
        after: Value of the counter after the step.
        n_expected: Expected ticks of the step.
    """
    return n_ticks < 0 and 0 <= after <= n_expected


def ticks_between(before: int, after: int, attribute: Attribute) -> int:
    """Return the increase of a tick counter, including an overflow of its integer type.

    Args:
        before: First value.
        after: Later value.
        attribute: The attribute of the tick counter.
    """
    if attribute.type[0] not in "iu" or attribute.scale != 1.0:
        return after - before
    size = 1 << int(attribute.type[1:])
    return (after - before + size // 2) % size - size // 2
