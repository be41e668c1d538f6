"""The game of a server: one session, used by one call at a time, and the attached clients."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from soulslab.errors import AccessRefusedError, ControlTakenError, SessionStateError, SoulslabError, WaitTimeoutError
from soulslab.siphon.pad import Pad
from soulslab.siphon.read_only import refuse_change
from soulslab.siphon.rpc.frame_transfer import FrameSender
from soulslab.siphon.rpc.messages import Hello
from soulslab.siphon.session import Session


class Client:
    """An attached client.

    `id` is secret; `name` is for people, with escaped control characters. `has_input` states that it has sent keys, so
    that some may be held; `last_s` is the time at which it last controlled the game, by `time.monotonic`.
    """

    def __init__(self, hello: Hello) -> None:
        self.id = secrets.token_hex(16)
        escaped = (one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in hello.name)
        self.name = "".join(escaped)
        self.frames = FrameSender(hello.frames, hello.jpeg_quality, hello.memory)
        self.has_input = False
        self.last_s = 0.0


class Clients:
    """All attached clients of a game, one of which may control it.

    The first client that sends a request that changes the game gets control. It keeps control until it leaves, or until
    it has sent no such request for `lease_s` and another client requests control. `holder` has control now.
    """

    def __init__(self, lease_s: float, limit: int) -> None:
        self._lease_s = lease_s
        self._limit = limit
        self._clients: dict[str, Client] = {}
        self.holder: Client | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._clients)

    def join(self, hello: Hello) -> Client:
        """Attach a client. Raises `AccessRefusedError` at the limit."""
        with self._lock:
            if len(self._clients) >= self._limit:
                raise AccessRefusedError(
                    f"{self._limit} clients are attached already, which is the limit: close one of them, or start "
                    "the server with more (max_clients)"
                )
            client = Client(hello)
            self._clients[client.id] = client
            return client

    def find(self, client_id: str) -> Client:
        """Return the client with an id. Raises `AccessRefusedError`."""
        client = self._clients.get(client_id)
        if client is None:
            raise AccessRefusedError("no attached client has this id; attach, then take the id of the answer")
        return client

    def leave(self, client: Client) -> None:
        """Detach a client and release its control. Its keys must be released before."""
        with self._lock:
            self._clients.pop(client.id, None)
            if self.holder is client:
                self.holder = None
        client.frames.close()

    def take_control(self, client: Client) -> Client | None:
        """Give control to a client; return the client that loses it, to release its keys. Raises as `check_control`."""
        with self._lock:
            self.check_control(client)
            client.last_s = time.monotonic()
            before, self.holder = self.holder, client
            return before if before is not client else None

    def check_control(self, client: Client) -> None:
        """Raise `ControlTakenError` if another client has control, and `AccessRefusedError` for one that has left."""
        if client.id not in self._clients:
            raise AccessRefusedError(f"{client.name} has left, so it controls nothing")
        holder = self.holder
        still_s = time.monotonic() - holder.last_s if holder is not None else 0.0
        if holder is not None and holder is not client and still_s <= self._lease_s:
            raise ControlTakenError(
                f"{holder.name} controls the game, and last did so {still_s:.1f} s ago; "
                f"close that client, or try again when it has been still for {self._lease_s:g} s",
                holder=holder.name,
            )


_log = logging.getLogger(__name__)

#: Longest wait for the call that uses the game, before the keys of a client that has left are released.
RELEASE_S = 60.0


class ServedGame:
    """A session shared by several clients.

    The source is a session that its owner closes, or a function that opens one when the first client arrives; with
    `closes_with_clients` that one is closed when the last client leaves.
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
        """Give one call exclusive use of the session, opened if necessary. Raises `WaitTimeoutError`, or as opening."""
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
        """Give a call that changes the game the session. Raises `ControlTakenError`, `ReadOnlyError`, and as `use`."""
        # Also checked before the wait, so that a client without control gets the error at once.
        self.clients.check_control(client)
        with self.use(wait_s) as session:
            if self.clients.holder is not client:
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
    session.input.set_pad(Pad())
    client.has_input = False


def _refuse_read_only(session: Session) -> None:
    """Raise `ReadOnlyError` for a read-only session, before a client takes control without effect."""
    try:
        info = session.info
    except SoulslabError:  # the game has ended; the request itself reports that, or restarts it
        return
    if info.is_read_only:
        refuse_change("change the game")
