"""The game of a server: one session, used by one call at a time."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from soulslab.errors import SessionStateError, SoulslabError, WaitTimeoutError
from soulslab.siphon.read_only import refuse_change
from soulslab.siphon.rpc.client_registry import Client, Clients
from soulslab.siphon.session import Session

_log = logging.getLogger(__name__)

#: Longest wait for the call that uses the game, before the keys of a client that has left are released.
RELEASE_S = 60.0


class ServedGame:
    """A session shared by several clients.

    Args:
        source: Session that its owner closes, or a function that opens one when the first client arrives.
        clients: Attached clients.
        closes_with_clients: Whether to close a session opened here when the last client leaves.
    """

    def __init__(self, source: Session | Callable[[], Session], clients: Clients, *, closes_with_clients: bool) -> None:
        self.clients = clients
        self._opener = source if callable(source) else None
        self._session = None if callable(source) else source
        self._closes_with_clients = closes_with_clients
        self._lock = threading.Lock()
        self._is_closed = False

    @contextmanager
    def use(self, wait_s: float) -> Iterator[Session]:
        """Give one call exclusive use of the session, which is opened first if necessary.

        Args:
            wait_s: Longest wait for other calls.

        Raises:
            WaitTimeoutError: Other calls took longer.
            SiphonError: The session cannot be opened.
        """
        with self._locked(wait_s):
            if self._is_closed:
                raise SessionStateError("the server is stopping")
            if self._session is None:
                if self._opener is None:
                    raise AssertionError("neither a session nor a way to open one")
                self._session = self._opener()
            yield self._session

    @contextmanager
    def control(self, client: Client, wait_s: float) -> Iterator[Session]:
        """Give a call that changes the game exclusive use of the session.

        Raises:
            ControlTakenError: Another client has control.
            ReadOnlyError: The session is read-only.
            SiphonError: Any error of `use`.
        """
        # Also checked before the wait, so that a client without control gets the error at once.
        self.clients.check_control(client)
        with self.use(wait_s) as session:
            if not self.clients.is_holder(client):
                _refuse_read_only(session)
            lapsed = self.clients.take_control(client)
            if lapsed is not None and lapsed.has_input:
                _release(lapsed, session)
            try:
                yield session
            finally:
                client.last_s = time.monotonic()

    def leave(self, client: Client) -> None:
        """Release the keys of a client and remove it; a second call does nothing."""
        try:
            if client.has_input:
                with self._locked(RELEASE_S):
                    if self._session is not None:
                        _release(client, self._session)
        except SoulslabError as error:  # the game has ended, and the keys with it
            _log.warning("cannot release the keys of %s: %s", client.name, error)
        finally:
            self.clients.leave(client)
        if self._closes_with_clients and not len(self.clients):
            try:
                self.close_session()
            except SoulslabError as error:  # the client has left, so the error is only logged
                _log.warning("cannot close the game after its last client: %s", error)

    def close(self, wait_s: float) -> None:
        """Refuse further calls, wait for the running one, and close a session that was opened here."""
        try:
            with self._locked(wait_s):
                self._is_closed = True
        except WaitTimeoutError as error:
            _log.warning("the server stops in the middle of a call: %s", error)
            self._is_closed = True

    def close_session(self) -> None:
        """Close a session that was opened here if no client is left; the next client opens another one."""
        if self._opener is None:
            return
        with self._locked(RELEASE_S):
            if len(self.clients):
                return  # a client has attached in the meantime
            session, self._session = self._session, None
            if session is not None:
                session.close()

    @contextmanager
    def _locked(self, wait_s: float) -> Iterator[None]:
        start = time.monotonic()
        if not self._lock.acquire(timeout=wait_s):
            raise WaitTimeoutError("the game, which other calls use", time.monotonic() - start)
        try:
            yield
        finally:
            self._lock.release()


def _release(client: Client, session: Session) -> None:
    session.input.set_held(())
    client.has_input = False


def _refuse_read_only(session: Session) -> None:
    """Raise `ReadOnlyError` for a read-only session, before a client takes control without effect."""
    try:
        info = session.info
    except SoulslabError:  # the game has ended; the request itself reports that, or restarts it
        return
    if info.is_read_only:
        refuse_change("change the game")
