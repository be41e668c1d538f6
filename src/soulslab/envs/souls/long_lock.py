"""A lock-on that reaches across an arena, as SoulsGym has it, where the game tells how far it reaches."""

from __future__ import annotations

import contextlib

from soulslab.errors import SiphonError
from soulslab.siphon.profile import Value
from soulslab.siphon.session import Session

#: The lock-on of Dark Souls III reaches 15 m, and an episode begins 19 m from Iudex. SoulsGym 1.1.0 makes that
#: 60 m, and has it last 99 s without a line of sight, which are else 2 s.
WANTED: dict[str, Value] = {"lock.bonus_range_m": 35.0, "lock.sight_time_s": 99.0}


class LongLock:
    """Has the lock-on reach further, and puts back how far it did; does nothing where the game does not tell it."""

    def __init__(self) -> None:
        self._before: dict[str, Value] = {}

    def set(self, session: Session) -> None:
        """Have it reach further. Raises as `Session.read` and `Session.write`."""
        wanted = {name: value for name, value in WANTED.items() if name in session.profile.attributes}
        if not wanted:
            return
        if not self._before:
            self._before = dict(session.snapshot(tuple(wanted)))
        session.write(wanted)

    @property
    def is_set(self) -> bool:
        """Whether something was changed."""
        return bool(self._before)

    def put_back(self, session: Session) -> None:
        """Put back what was changed, if something was; a game that loads has it as ever by itself."""
        before, self._before = self._before, {}
        if before:
            with contextlib.suppress(SiphonError):
                session.write(before)
