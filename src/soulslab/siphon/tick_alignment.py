"""The phase of a step: where in a tick of the game's simulation it begins and ends.

::

    TickAlignment(game.profile).align(game)   # once after each start; then steps of whole ticks make exactly so many
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from soulslab.errors import WaitTimeoutError
from soulslab.siphon.profile import Profile
from soulslab.siphon.session import LOADING, Session, Step

#: Game time in which the count of ticks has to get on, and steps in which its edge is looked for.
SEARCH_S = 5.0
FINE_S = 0.001
#: Two edges are a tick apart if they are so up to this part of one: they are rounded, and seen in steps of `FINE_S`.
SLACK = 0.25


class TickAlignment:
    """Brings a lockstep game to the middle of a tick of its simulation, once after each of its starts.

    Games count ticks in rounded time. From the edge of a tick, steps of exactly one would see now none and now two;
    from its middle, half a tick is to spare, for ever, as no part of a nanosecond of game time is lost.

    Attributes:
        attribute: The count of ticks; "" if the profile names none, and nothing can be done.
    """

    def __init__(self, profile: Profile) -> None:
        clock = profile.clock
        self.attribute = clock.tick_attribute if clock.tick_hz else ""
        self._tick_s = 1.0 / clock.tick_hz if self.attribute else 0.0
        self._aligned: tuple[int, int] | None = None

    def align(self, session: Session) -> None:
        """Align the game if that was not done since it started, and its clock is one that can be.

        Raises:
            WaitTimeoutError: The count of ticks does not get on.
        """
        info = session.info
        if not self.attribute or info.clock_grade != "lockstep" or self._aligned == (info.pid, info.n_starts):
            return
        last = 0

        def count(advance_s: float) -> int:
            nonlocal last
            step = Step(advance_s=advance_s, attributes=(self.attribute,))
            with suppress(*LOADING):  # a game that loads counts nothing
                last = int(session.step(step).snapshot[self.attribute])
            return last

        if not advance_to_tick_middle(count, self._tick_s):
            raise WaitTimeoutError(
                f"attribute {self.attribute} to grow, every {self._tick_s * 1e3:.1f} ms of game time",
                SEARCH_S,
                f"it stands at {last}. Is the game in a menu, or the count of its ticks another attribute?",
            )
        self._aligned = (info.pid, info.n_starts)


def advance_to_tick_middle(count: Callable[[float], int], tick_s: float) -> bool:
    """Let time pass up to the middle of a tick; return whether there were ticks.

    Args:
        count: Lets so much game time pass, in seconds, and returns the count of ticks then.
        tick_s: Length of one.
    """
    passed_s, last = 0.0, count(0.0)
    while passed_s < SEARCH_S:
        # A game that stands still, as in a menu, is not worth steps of a millisecond.
        before, last = last, count(tick_s)
        passed_s += tick_s
        if last == before:
            continue
        # Only two ticks in their time prove an edge: a game that was loading makes up for it with ticks out of theirs.
        since_s, has_edge = 0.0, False
        while since_s < 2 * tick_s and passed_s < SEARCH_S:
            before, last = last, count(FINE_S)
            since_s += FINE_S
            passed_s += FINE_S
            if last == before:
                continue
            if has_edge and abs(since_s - tick_s) <= max(SLACK * tick_s, FINE_S):
                count(tick_s / 2)
                return True
            since_s, has_edge = 0.0, True
    return False
