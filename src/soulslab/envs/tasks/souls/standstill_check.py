"""Check that a game that is stepped by its own speed stands still at a speed of 0."""

from __future__ import annotations

import contextlib
import logging
import time

from soulslab.errors import ClockUnavailableError, SiphonError
from soulslab.siphon.session import Session

#: Attributes that change while time passes in a fight.
MOVING = ("player.animation_time", "boss.animation_time")
#: Flag that the speed of Elden Ring may need. Sources disagree: eldengym sets it, and others do not know it.
FLAG = "game.has_speed"
#: Number of reads. A new speed has effect from the next frame on, which may take long.
N_READS = 4
POLL_S = 0.05

_log = logging.getLogger(__name__)


class StandstillCheck:
    """Stops a game by its own speed, and checks that its animations stand still."""

    def __init__(self) -> None:
        self._has_set_flag = False

    def check(self, session: Session) -> None:
        """Stop the game for a moment. If it does not stand still, set `FLAG` and check again.

        Does nothing if another clock steps the game.

        Raises:
            ClockUnavailableError: The game runs on at a speed of 0.
            SiphonError: As `Session.snapshot` and `Session.write`.
        """
        if session.info.clock_grade != "scaled":
            return
        speed = session.clock.speed
        session.clock.pause()
        try:
            if self._stands(session):
                return
            if FLAG in session.profile.attributes and not session.read(FLAG):
                session.write({FLAG: True})
                self._has_set_flag = True
                if self._stands(session):
                    _log.info("%s obeys its speed since %s is set", session.profile.name, FLAG)
                    return
            raise ClockUnavailableError(
                f"{session.profile.name} runs on at a speed of 0: {' and '.join(MOVING)} do not stand still, so the "
                f"game does not obey {session.profile.clock.speed_attribute}, and the length of steps would be wrong; "
                f"give session= a session that was opened with clock='realtime'"
            )
        finally:
            if speed > 0.0:
                session.clock.run(speed)

    @property
    def is_set(self) -> bool:
        """Whether the flag was changed."""
        return self._has_set_flag

    def restore(self, session: Session) -> None:
        """Clear the flag if `check` has set it. Errors are ignored."""
        with contextlib.suppress(SiphonError):
            if self._has_set_flag:
                session.write({FLAG: False})
        self._has_set_flag = False

    @staticmethod
    def _stands(session: Session) -> bool:
        """Return whether two successive reads are equal."""
        last = dict(session.snapshot(MOVING))
        for _ in range(N_READS):
            time.sleep(POLL_S)
            now = dict(session.snapshot(MOVING))
            if now == last:
                return True
            last = now
        return False
