"""Tick alignment: where in a tick of the game's simulation a step begins and ends.

::

    TickAlignment(game.profile).align(game)   # once after each start; then a step of n tick lengths makes exactly n
    ticks
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from soulslab.errors import WaitTimeoutError
from soulslab.siphon.profile import Profile
from soulslab.siphon.session import LOADING, Session, Step

#: Game time within which the tick count must grow, and step length for finding its edge.
SEARCH_S = 5.0
FINE_S = 0.001
#: Tolerance for the distance of two edges, in ticks: edges are rounded, and observed in steps of `FINE_S`.
SLACK = 0.25


class TickAlignment:
    """Advances a lockstep game to the middle of a tick of its simulation, once after each start.

    Games count ticks in rounded time. From the edge of a tick, a step of one tick length may see no tick or two. From
    its middle, the margin of half a tick remains, because no fraction of a nanosecond of game time is lost.

    Attributes:
        attribute: Attribute with the tick count; "" if the profile names none, and the game cannot be aligned.
    """

    def __init__(self, profile: Profile) -> None:
        clock = profile.clock
        self.attribute = clock.tick_attribute if clock.tick_hz else ""
        self._tick_s = 1.0 / clock.tick_hz if self.attribute else 0.0
        self._aligned: tuple[int, int] | None = None

    def align(self, session: Session) -> None:
        """Align the game, unless it was aligned since its last start or its clock cannot be aligned.

        Raises `WaitTimeoutError` if the tick count does not grow.
        """
        info = session.info
        if not self.attribute or info.clock_grade != "lockstep" or self._aligned == (info.pid, info.n_starts):
            return
        last = 0

        def count(advance_s: float) -> int:
            nonlocal last
            step = Step(advance_s=advance_s, attributes=(self.attribute,))
            with suppress(*LOADING):  # a loading game counts no ticks
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
    """Advance to the middle of a tick of a length; return whether the count grew.

    `count` advances by a game time in seconds, and returns the tick count then.
    """
    passed_s, last = 0.0, count(0.0)
    while passed_s < SEARCH_S:
        # A game that stands still, as in a menu, is not advanced in steps of a millisecond.
        before, last = last, count(tick_s)
        passed_s += tick_s
        if last == before:
            continue
        # Only two ticks one tick length apart prove an edge: after loading, a game catches up with irregular ticks.
        since_s, has_edge = 0.0, False
        while since_s < 2 * tick_s and passed_s < SEARCH_S:
            before, last = last, count(FINE_S)
            since_s += FINE_S
            passed_s += FINE_S
            if last == before:
                continue
            if has_edge and abs(since_s - tick_s) <= max(SLACK * tick_s, FINE_S):
                before, last = count(tick_s / 2), count(tick_s)
                passed_s += 1.5 * tick_s
                # A game that polls for its ticks notices an edge late, and may now make up for it.
                if last - before == 1:
                    return True
                break
            since_s, has_edge = 0.0, True
    return False
