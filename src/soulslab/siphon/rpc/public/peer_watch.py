"""Detection of disconnected clients, because the public protocol has no call for leaving.

gRPC for Python reports the end of a call to a server, but not the end of a connection, and a client that holds a key
has no active call. Therefore the process examines its own sockets, but only while a client holds resources.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

import psutil

from soulslab.siphon.rpc.peer_user import address_of_peer, plain_host

POLL_S = 0.25
#: Clients of Unix sockets cannot be distinguished; after this long without a call all of them count as disconnected.
UNIX_STILL_S = 10.0


class PeerWatch:
    """Reports disconnected clients while there are clients to watch.

    Args:
        wanted: Returns the clients to watch; the watch pauses while there are none.
        gone: Called repeatedly with a disconnected client and the time since, in seconds.
    """

    def __init__(self, wanted: Callable[[], Iterable[str]], gone: Callable[[str, float], None]) -> None:
        self._wanted = wanted
        self._gone = gone
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._last_call_s: dict[str, float] = {}
        self._gone_since: dict[str, float] = {}

    def wake(self) -> None:
        """Resume the watch, if it is paused."""
        with self._lock:
            if self._thread is None and not self._stopping.is_set():
                self._thread = threading.Thread(target=self._watch, name="siphon: peers", daemon=True)
                self._thread.start()

    def called(self, peer: str) -> None:
        """Record a call of a client."""
        if _is_unix(peer):
            self._last_call_s[peer] = time.monotonic()

    def close(self) -> None:
        """End the watch; a second call does nothing."""
        self._stopping.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _watch(self) -> None:
        while True:
            with self._lock:
                peers = set(self._wanted())
                if not peers or self._stopping.is_set():
                    self._thread = None
                    self._gone_since.clear()
                    return
            self._look(peers)
            self._stopping.wait(POLL_S)

    def _look(self, peers: set[str]) -> None:
        connected, now = _connected(), time.monotonic()
        for peer in peers:
            if _is_unix(peer):
                is_there = now - self._last_call_s.get(peer, now) < UNIX_STILL_S
            else:
                is_there = address_of_peer(peer) in connected
            if is_there:
                self._gone_since.pop(peer, None)
            else:
                self._gone(peer, now - self._gone_since.setdefault(peer, now))


def _is_unix(peer: str) -> bool:
    return peer.startswith("unix:")


def _connected() -> set[tuple[str, int]]:
    """Return the remote addresses of this process's connections."""
    return {
        (plain_host(connection.raddr.ip), connection.raddr.port)
        for connection in psutil.Process().net_connections("tcp")
        if connection.raddr and connection.status == psutil.CONN_ESTABLISHED
    }
