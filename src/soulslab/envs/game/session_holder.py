"""The session of an environment: opened when it is first needed, and recovered after a failure."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TypeAlias

from soulslab.errors import (
    ServerUnavailableError,
    SiphonError,
    WaitTimeoutError,
)
from soulslab.siphon.session import LOADING, Session

SessionFactory: TypeAlias = Callable[[int | None], Session]
"""Opens a session, given the seed of a deterministic start; None for a start that is not deterministic."""

#: Wall time between two tries to reach a server.
RETRY_S = 0.2

_log = logging.getLogger(__name__)


class SessionHolder:
    """Holds the session of an environment: opens it when it is first needed, and recovers it after a failure.

    Args:
        factory: Opens sessions; None if `session` is the only one.
        session: A session that is open already; it is closed with the environment.

    Attributes:
        n_restarts: Number of restarts of the game.
        seed: Seed of the next start; None for a start that is not deterministic.
        started_seed: Seed with which this object started the game; None if there was no seed.
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
        """The session; it is opened if it is not open yet. Raises the errors of opening a session."""
        if self._session is None:
            if self._factory is None:
                raise AssertionError("there is neither a session nor a factory")
            with self.gate:
                self._session = self._factory(self.seed)
                _hold(self._session)
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
        """Restart the game; open a new session if the old one cannot restart it.

        Raises:
            SiphonError: It did not come back before the deadline.
        """
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
            raise  # the game continues by itself, and the next reset waits for it
        except SiphonError:
            self.is_lost = True
            raise

    def reopen(self) -> None:
        """Open the session again without a restart of the game; a session that was given is kept.

        Raises:
            SiphonError: It could not be opened.
        """
        if self._factory is not None:
            self.close()
        self._is_checked = False
        _ = self.session
        self.is_lost = False

    def close(self) -> None:
        """Close the session; a second call does nothing."""
        session, self._session = self._session, None
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
                _hold(session)
            self.started_seed = self.seed
        except SiphonError as error:
            if self._factory is None:
                raise
            _log.warning("the game cannot be restarted, so a new session is opened: %s", error)
            with contextlib.suppress(SiphonError):  # this session has failed; a new one follows
                session.close()
            self._session = None
            _ = self.session


def _hold(session: Session) -> None:
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
        """Whether there is no time left."""
        return self._waited_s > self._seconds

    def check(self, what: str, cause: Exception | None = None, saw: str = "") -> None:
        """Raise `WaitTimeoutError` once it has passed.

        Args:
            what: What is waited for.
            cause: The last error.
            saw: The last state that was seen.
        """
        if self.has_passed:
            hint = f"the last error was: {cause}" if cause else saw and f"{saw}, when all {self._seconds:g} s were over"
            raise WaitTimeoutError(what, self._waited_s, hint) from cause

    @property
    def _waited_s(self) -> float:
        return time.monotonic() - self._start
