"""The attached clients of a server, one of which may control the game."""

from __future__ import annotations

import secrets
import threading
import time

from soulslab.errors import AccessRefusedError, ControlTakenError
from soulslab.siphon.rpc.frame_transfer import FrameSender
from soulslab.siphon.rpc.messages import Hello


def escape_control(text: str) -> str:
    """Return a client's text with escaped control characters, for logs and terminals."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


class Client:
    """An attached client.

    Attributes:
        id: Secret id.
        name: Name for people; control characters are escaped.
        frames: Sender of its frames.
        has_input: Whether it has sent keys, so that some may be held.
        last_s: Time at which it last controlled the game, by `time.monotonic`.
    """

    def __init__(self, hello: Hello) -> None:
        self.id = secrets.token_hex(16)
        self.name = escape_control(hello.name)
        self.frames = FrameSender(hello.frames, hello.jpeg_quality, hello.memory)
        self.has_input = False
        self.last_s = 0.0


class Clients:
    """All attached clients of a game, one of which may control it.

    The first client that sends a request that changes the game gets control. It keeps control until it leaves, or until
    it has sent no such request for `lease_s` and another client requests control.

    Args:
        lease_s: Lease time.
        limit: Maximum number of clients.
    """

    def __init__(self, lease_s: float, limit: int) -> None:
        self._lease_s = lease_s
        self._limit = limit
        self._clients: dict[str, Client] = {}
        self._holder: Client | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._clients)

    def join(self, hello: Hello) -> Client:
        """Attach a client.

        Raises:
            AccessRefusedError: The limit is reached.
        """
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
        """Return the client with an id.

        Raises:
            AccessRefusedError: The client does not exist.
        """
        client = self._clients.get(client_id)
        if client is None:
            raise AccessRefusedError("no attached client has this id; attach, then take the id of the answer")
        return client

    def leave(self, client: Client) -> None:
        """Detach a client and release its control. Its keys must be released before."""
        with self._lock:
            self._clients.pop(client.id, None)
            if self._holder is client:
                self._holder = None
        client.frames.close()

    def is_holder(self, client: Client) -> bool:
        """Return whether a client has control now."""
        return self._holder is client

    def check_control(self, client: Client) -> None:
        """Raise the error that `take_control` would raise now."""
        with self._lock:
            self._check(client)

    def take_control(self, client: Client) -> Client | None:
        """Give control to a client, or confirm its control.

        Returns:
            The client that loses control by this, if any: its keys must be released.

        Raises:
            ControlTakenError: Another client has control.
            AccessRefusedError: The client has left.
        """
        with self._lock:
            self._check(client)
            client.last_s = time.monotonic()
            before, self._holder = self._holder, client
            return before if before is not client else None

    def _check(self, client: Client) -> None:
        if client.id not in self._clients:
            raise AccessRefusedError(f"{client.name} has left, so it controls nothing")
        holder = self._holder
        still_s = time.monotonic() - holder.last_s if holder is not None else 0.0
        if holder is not None and holder is not client and still_s <= self._lease_s:
            raise ControlTakenError(
                f"{holder.name} controls the game, and last did so {still_s:.1f} s ago; "
                f"close that client, or try again when it has been still for {self._lease_s:g} s",
                holder=holder.name,
            )
