"""What keeps an environment from a game in which an attribute that it needs does not pass the self-check."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from soulslab.games.self_check import Verdict, check_session
from soulslab.siphon.session import Session

#: Wall time that a game may take to load what is needed.
LOADING_S = 30.0
#: Game time of a check, and how often it reads the attributes.
SPAN_S = 1.0
N_LOOKS = 5
#: Checks in a row after which what stands is taken to stand for good: a boss may hold a pose.
N_CHECKS = 3

_log = logging.getLogger(__name__)


class AttributeGate:
    """Refuses a game in which a needed attribute fails, be its version known or not.

    Games whose profile names no versions pass unchecked: soulslab starts the very program that they were made for.

    Args:
        needed: The attributes that have to be well. Nothing is written before they are, but the speed of a game that
            stands.
        loading_s: Wall time to wait for what is not loaded yet.
        may_be_loading: Let a game pass that is at its title or loads, if nothing else fails: what is not loaded, and
            what stands as there is no world, somebody else checks before it is relied on.
    """

    def __init__(self, needed: Sequence[str], loading_s: float = LOADING_S, *, may_be_loading: bool = False) -> None:
        self._needed = tuple(dict.fromkeys(needed))
        self._loading_s = loading_s
        self._may_be_loading = may_be_loading

    def __call__(self, session: Session) -> None:
        """Check a game that has been started or attached to.

        Raises:
            SelfCheckError: It names each attribute that failed, and why.
            SiphonError: The session failed as such.
        """
        if not session.profile.process.versions:
            return
        clock = session.clock
        if clock.grade == "scaled" and not clock.speed:
            # As whoever played it before on its server has left it; of what stands nothing could be told.
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
        passed = f"all {len(self._needed)} attributes that are needed passed the self-check"
        if check.is_known_version:
            _log.debug("%s %s: %s", check.game, check.version, passed)
        else:
            of = f"{check.game} is of version {check.version or 'none'}, which the profile does not know"
            _log.warning("%s; %s", of, passed)
