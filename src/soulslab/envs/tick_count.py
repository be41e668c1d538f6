"""Lost and doubled ticks: the ticks that the steps of a game made, compared with those expected.

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
        profile: The game; `ClockFacts.tick_attribute` is its count of ticks.
        on_lost_tick: ``count`` counts them and logs the first one, ``error`` raises `LostTickError`.

    Attributes:
        attribute: The count of ticks; "" if the profile names none.
        value: Its last value.
        n_ticks: The ticks of the last step.
        n_lost: Ticks of the episode that are missing.
        n_doubled: Ticks of the episode that are too many.
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
        """Begin an episode at this value of the attribute."""
        self.value = ticks
        self._n_steps = self.n_ticks = self.n_lost = self.n_doubled = 0

    def add(self, ticks: int, n_expected: int | None) -> None:
        """Count a step.

        Args:
            ticks: Value of the attribute after the step.
            n_expected: Ticks that the step should have made; None if the number is not known, as in real time.

        Raises:
            LostTickError: The step made another number of ticks, and `on_lost_tick` is ``error``.
        """
        before, self.value = self.value, ticks
        self.n_ticks = 0 if self._fact is None else ticks_between(before, ticks, self._fact)
        self._n_steps += 1
        if n_expected is None or self.n_ticks == n_expected or has_restarted(self.n_ticks, ticks, n_expected):
            return
        # A count that was set back to another value gives no number; then all ticks of the step are missing.
        self.n_lost += max(n_expected - max(self.n_ticks, 0), 0)
        self.n_doubled += max(self.n_ticks - n_expected, 0)
        error = LostTickError(self.attribute, self._n_steps, n_expected, self.n_ticks)
        if self._is_error:
            raise error
        if not self._has_logged:
            self._has_logged = True
            _log.warning("%s; further ones are only counted (info: ticks_lost, ticks_doubled)", error)


def has_restarted(n_ticks: int, after: int, n_expected: int) -> bool:
    """Return whether a game has set its count of ticks to 0 in a step, as some do with each level.

    How many ticks such a step made is not known.

    Args:
        n_ticks: By how much the count grew in the step.
        after: The count after the step.
        n_expected: Ticks that the step should have made.
    """
    return n_ticks < 0 and 0 <= after <= n_expected


def ticks_between(before: int, after: int, attribute: Attribute) -> int:
    """Return by how much a count of ticks grew, also where it passed the end of its type and began at 0 again.

    Args:
        before: The value at first.
        after: The value afterwards.
        attribute: The count of ticks.
    """
    if attribute.type[0] not in "iu" or attribute.scale != 1.0:
        return after - before
    size = 1 << int(attribute.type[1:])
    return (after - before + size // 2) % size - size // 2
