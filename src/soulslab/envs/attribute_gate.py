"""The self-check of an environment: it refuses a game in which a needed attribute fails."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from soulslab.games.self_check import Verdict, check_session
from soulslab.siphon.session import Session

#: Longest wall time until the game has loaded the needed attributes.
LOADING_S = 30.0
#: Game time of a check, and number of reads in it.
SPAN_S = 1.0
N_LOOKS = 5
#: Number of checks after which an attribute that never changes fails. A boss may hold a pose for a while.
N_CHECKS = 3

_log = logging.getLogger(__name__)


class AttributeGate:
    """Refuses a game in which a needed attribute fails, whether its version is known or not.

    A game whose profile lists no versions is not checked, because soulslab starts the program that the profile was made
    for.

    Args:
        needed: Names of the attributes that must pass. Until they pass, nothing is written to the game, except the
            speed of a game whose speed is 0.
        loading_s: Longest wall time to wait for attributes that are not loaded yet.
        may_be_loading: Accept a game that is at its title or loading, if no attribute fails for another reason. The
            caller must check the attributes that are not loaded, or do not change, before it uses them.
    """

    def __init__(self, needed: Sequence[str], loading_s: float = LOADING_S, *, may_be_loading: bool = False) -> None:
        self._needed = tuple(dict.fromkeys(needed))
        self._loading_s = loading_s
        self._may_be_loading = may_be_loading

    def __call__(self, session: Session) -> None:
        """Check the game of a session.

        Raises:
            SelfCheckError: An attribute failed; the message names each of them with the reason.
            SiphonError: The session failed.
        """
        if not session.profile.process.versions:
            return
        clock = session.clock
        if clock.grade == "scaled" and not clock.speed:
            # An earlier client of the server has left the game at speed 0, at which no attribute changes.
            clock.run(1.0)
        deadline, n_checks = time.monotonic() + self._loading_s, 0
        while True:
            check = check_session(session, self._needed, span_s=SPAN_S, n_looks=N_LOOKS)
            n_checks += 1
            verdicts = {row.verdict for row in check.rows if row.is_needed} - {Verdict.OK}
            if self._may_be_loading and Verdict.NOT_LOADED in verdicts:
                standing = {row.name for row in check.rows if row.verdict is Verdict.STANDS}
                moving = tuple(name for name in self._needed if name not in standing)
                check.require(*moving, may_be_loading=True)
                return
            is_loading = verdicts == {Verdict.NOT_LOADED} and time.monotonic() < deadline
            may_move = verdicts == {Verdict.STANDS} and n_checks < N_CHECKS
            if not (is_loading or may_move):
                break
        check.require(*self._needed)
        passed = f"all {len(self._needed)} needed attributes passed the self-check"
        if check.is_known_version:
            _log.debug("%s %s: %s", check.game, check.version, passed)
        else:
            version = f"version {check.version}" if check.version else "unknown version"
            _log.warning("the profile does not list %s of %s; %s", version, check.game, passed)
