"""Whether a game heeds the speed that steps it: one that runs on at 0 would be played without anybody noticing."""

from __future__ import annotations

import contextlib
import logging
import time

from soulslab.errors import ClockUnavailableError, SiphonError
from soulslab.siphon.session import Session

#: What goes on as long as time passes for a fight.
MOVING = ("player.animation_time", "boss.animation_time")
#: Whether the speed of Elden Ring needs this flag sources do not agree on: eldengym sets it, and others do not know it.
FLAG = "game.has_speed"
#: A speed counts from the next frame on, which may be a long one.
N_LOOKS = 4
POLL_S = 0.05

_log = logging.getLogger(__name__)


class Standstill:
    """Stops a game that its own speed steps, and looks whether it stands."""

    def __init__(self) -> None:
        self._has_set_flag = False

    def check(self, session: Session) -> None:
        """Stop the game for a moment; where it runs on, set the flag that its speed may need, and look again.

        Raises:
            ClockUnavailableError: It runs on.
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
                    _log.info("%s heeds its speed since %s is set", session.profile.name, FLAG)
                    return
            raise ClockUnavailableError(
                f"{session.profile.name} runs on at a speed of 0: {' and '.join(MOVING)} do not stand, so it does not "
                f"heed {session.profile.clock.speed_attribute}. Steps would be made up; give session= one that was "
                f"opened with clock='realtime'"
            )
        finally:
            if speed > 0.0:
                session.clock.run(speed)

    @property
    def is_set(self) -> bool:
        """Whether something was changed."""
        return self._has_set_flag

    def put_back(self, session: Session) -> None:
        """Take the flag away, if it was set here."""
        with contextlib.suppress(SiphonError):
            if self._has_set_flag:
                session.write({FLAG: False})
        self._has_set_flag = False

    @staticmethod
    def _stands(session: Session) -> bool:
        """Tell whether two looks in a row are alike."""
        last = dict(session.snapshot(MOVING))
        for _ in range(N_LOOKS):
            time.sleep(POLL_S)
            now = dict(session.snapshot(MOVING))
            if now == last:
                return True
            last = now
        return False
