"""The phase of a step: where in a tick of the game's simulation it begins and ends."""

from __future__ import annotations

from soulslab.envs.process_settings import tick_s
from soulslab.errors import EntityNotFoundError, ImplausibleValueError, PointerError
from soulslab.siphon.profile import Profile
from soulslab.siphon.session import Session, Step

#: What reading raises while a game loads.
LOADING = (PointerError, EntityNotFoundError, ImplausibleValueError)
#: Game time to wait for the count of ticks to move at all, and steps in which its edge is looked for.
SEARCH_S = 5.0
FINE_S = 0.001


class Phase:
    """Brings a lockstep game to the middle of a tick of its simulation, once after each of its starts.

    Games count ticks in rounded time. From the edge of a tick, steps of exactly one would see now none and now two;
    from its middle, half a tick is to spare, for ever, as no part of a nanosecond of game time is lost.

    Attributes:
        attribute: The count of ticks; "" if the profile names none, and nothing can be done.
    """

    def __init__(self, profile: Profile) -> None:
        clock = profile.clock
        self.attribute = clock.tick_attribute if clock.tick_hz else ""
        self._tick_s = tick_s(profile)
        self._n_fine = round(2 * self._tick_s / FINE_S)
        self._aligned: tuple[int, int] | None = None

    def align(self, session: Session) -> bool:
        """Align the game if that was not done since it started; tell whether it is, or need not be."""
        info = session.info
        if not self.attribute or info.clock_grade != "lockstep" or self._aligned == (info.pid, info.n_starts):
            return True
        # Some games count a first tick and then stand still again, as for a picture that melts away.
        for _ in range(round(SEARCH_S / self._tick_s)):
            if self._moves_within(session, self._tick_s, 1) and self._moves_within(session, FINE_S, self._n_fine):
                session.step(Step(advance_s=self._tick_s / 2, attributes=()))
                self._aligned = (info.pid, info.n_starts)
                return True
        return False

    def _moves_within(self, session: Session, step_s: float, n_steps: int) -> bool:
        """Step until the count of ticks has moved; tell whether it has."""
        try:
            before = session.read(self.attribute)
            for _ in range(n_steps):
                if (
                    session.step(Step(advance_s=step_s, attributes=(self.attribute,))).snapshot[self.attribute]
                    != before
                ):
                    return True
        except LOADING:
            return False
        return False
