"""What keeps an environment from a version of a game that its profile does not know, until the self-check passes."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from soulslab.games.self_check import Verdict, check_session
from soulslab.siphon.session import Session

#: Wall time that a game may take to load what is needed.
LOADING_S = 30.0

_log = logging.getLogger(__name__)


class VersionGate:
    """Refuses a game of an unknown version in which a needed attribute fails; a known version passes unchecked.

    Args:
        needed: The attributes that have to be well. Nothing is written before they are.
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
        versions = session.profile.process.versions
        if not versions or session.info.version in versions:
            return
        deadline = time.monotonic() + self._loading_s
        while True:
            check = check_session(session, self._needed)
            verdicts = {row.verdict for row in check.rows if row.is_needed}
            if self._may_be_loading and Verdict.NOT_LOADED in verdicts:
                standing = {row.name for row in check.rows if row.verdict is Verdict.STANDS}
                moving = tuple(name for name in self._needed if name not in standing)
                check.require(*moving, may_be_loading=True)
                return
            is_loading = Verdict.NOT_LOADED in verdicts and verdicts <= {Verdict.OK, Verdict.NOT_LOADED}
            if not is_loading or time.monotonic() >= deadline:
                break
        check.require(*self._needed)
        _log.warning(
            "%s is of version %s, which the profile does not know; all %d attributes that are needed passed the "
            "self-check",
            check.game,
            check.version or "none",
            len(self._needed),
        )
