"""The session of an environment: opened when it is first needed, checked, and recovered after a failure."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias

from soulslab.errors import ServerUnavailableError, SessionStateError, SiphonError, WaitTimeoutError
from soulslab.games.self_check import Verdict, check_session
from soulslab.siphon.session import LOADING, Session

SessionFactory: TypeAlias = Callable[[int | None], Session]
"""Opens a session, given the seed of a deterministic start; None for a start that is not deterministic."""

#: Wall time between two tries to reach a server.
RETRY_S = 0.2
#: Longest wall time until the game has loaded the needed attributes.
LOADING_S = 30.0
#: Game time of a self-check, and number of reads in it.
SPAN_S = 1.0
N_LOOKS = 5
#: Number of self-checks after which an attribute that never changes fails. A boss may hold a pose for a while.
N_CHECKS = 3

_log = logging.getLogger(__name__)


class SessionHolder:
    """Holds the session of an environment: opens it when it is first needed, and recovers it after a failure.

    Args:
        factory: Opens sessions; None if `session`, which is open already, is the only one.

    Attributes:
        seed: Seed of the next start; None for a start that is not deterministic.
        started_seed: Seed with which this object started the game; None without a seed.
        is_lost: Whether something failed, so that the game has to be restarted before it is used again.
        gate: Held while a game starts. It limits the number of games that start at once.
        check: Called with each session that was opened or restarted, before it is used. While it raises, `session`
            raises the same error.
    """

    def __init__(self, factory: SessionFactory | None, session: Session | None = None) -> None:
        self._factory = factory
        self._session = session
        self.n_restarts = 0
        self.seed: int | None = None
        self.started_seed: int | None = None
        self.is_lost = False
        self.gate: AbstractContextManager[object] = contextlib.nullcontext()
        self.check: Callable[[Session], None] = lambda _: None
        self._is_checked = False

    @property
    def session(self) -> Session:
        """The session; it is opened if it is not open yet.

        Raises `SiphonError` if that or the check fails, or if a given session was closed.
        """
        if self._session is None:
            if self._factory is None:
                raise SessionStateError("the environment and its session are closed; make both anew")
            with self.gate:
                self._session = self._factory(self.seed)
                _pause_if_lockstep(self._session)
            self.started_seed = self.seed
        if not self._is_checked:
            self.check(self._session)
            self._is_checked = True
        return self._session

    @property
    def is_open(self) -> bool:
        """Whether there is a session, which may have failed."""
        return self._session is not None

    def recover(self, deadline: Deadline) -> None:
        """Restart the game, or open a new session; raise `SiphonError` if that fails or the deadline passes."""
        while True:
            try:
                self._restart()
            except ServerUnavailableError as error:
                deadline.check("the server to come back", error)
                time.sleep(RETRY_S)
            else:
                self.is_lost = False
                self.n_restarts += 1
                return

    @contextlib.contextmanager
    def marking_loss(self) -> Iterator[None]:
        """Mark the game as lost if an error of the session leaves the block, except where the game only loads."""
        try:
            yield
        except LOADING:
            raise  # a game that loads needs no restart; the next reset waits for it
        except SiphonError:
            self.is_lost = True
            raise

    def reopen(self) -> None:
        """Open the session again without a restart of the game; a session without a factory is kept."""
        if self._factory is not None:
            self.close()
        self._is_checked = False
        _ = self.session
        self.is_lost = False

    def close(self) -> None:
        """Close the session; a second call does nothing."""
        session, self._session = self._session, None
        self._is_checked = False
        if session is not None:
            session.close()

    def _restart(self) -> None:
        session, self._is_checked = self._session, False
        if session is None:
            _ = self.session
            return
        try:
            with self.gate:
                session.restart(seed=self.seed)
                _pause_if_lockstep(session)
            self.started_seed = self.seed
        except SiphonError as error:
            if self._factory is None:
                raise
            _log.warning("the game cannot be restarted, so a new session is opened: %s", error)
            with contextlib.suppress(SiphonError):  # the failed session is replaced
                session.close()
            self._session = None
            _ = self.session


def _pause_if_lockstep(session: Session) -> None:
    """Pause a game that was started in lockstep, because its behaviour until the first reset depends on the machine."""
    if session.info.clock_grade == "lockstep" and session.info.is_child:
        session.clock.pause()


class Deadline:
    """A limit in wall time."""

    def __init__(self, seconds: float) -> None:
        self._start = time.monotonic()
        self._seconds = seconds

    @property
    def has_passed(self) -> bool:
        """Whether the time is over."""
        return self._waited_s > self._seconds

    def check(self, what: str, cause: Exception | None = None, saw: str = "") -> None:
        """Raise `WaitTimeoutError` if the deadline has passed; `cause` is the last error, `saw` the last reading."""
        if self.has_passed:
            hint = f"the last error was: {cause}" if cause else saw and f"{saw}, when all {self._seconds:g} s were over"
            raise WaitTimeoutError(what, self._waited_s, hint) from cause

    @property
    def _waited_s(self) -> float:
        return time.monotonic() - self._start


class AttributeGate:
    """Self-check of an environment: refuses a game in which a needed attribute fails, even if its version is known.

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
        """Check the game of a session; raise `SelfCheckError` with the reason for each attribute that failed."""
        if not session.profile.process.versions:
            return
        clock = session.clock
        if clock.grade == "scaled" and not clock.speed:
            # An earlier client of the server has left the game at speed 0, at which no attribute changes.
            clock.run(1.0)
        deadline, n_checks = time.monotonic() + self._loading_s, 0
        while True:
            check = check_session(session, self._needed, span_s=SPAN_S, n_looks=N_LOOKS, only_needed=True)
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
