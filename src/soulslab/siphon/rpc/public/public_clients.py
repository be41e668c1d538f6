"""Resources of public clients: held keys, and detection of disconnected clients."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import psutil

from soulslab.errors import InputError, SoulslabError
from soulslab.siphon.keys import key_of_public_name
from soulslab.siphon.rpc.access import address_of_peer, plain_host

MAX_KEYS = 32
MAX_TAP_S = 60.0


class HeldKeys:
    """The held keys of all public clients; `send` sends the keys to hold to the game, all of them."""

    def __init__(self, send: Callable[[Sequence[str]], None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._toggled: dict[str, str] = {}  # from the key to the client that pressed it
        self._tapped: Counter[str] = Counter()

    @property
    def down(self) -> list[str]:
        """The keys that are held now, in the order in which they were pressed."""
        return list(dict.fromkeys([*self._toggled, *self._tapped]))

    @property
    def peers(self) -> set[str]:
        """The clients that hold keys."""
        return set(self._toggled.copy().values())

    def toggle(self, name: str, *, is_down: bool, peer: str) -> None:
        """Press or release a key, independent of the client that pressed it. Raises `InputError`."""
        key = key_of_public_name(name.upper()).name
        with self._lock:
            before = dict(self._toggled)
            if is_down:
                self._toggled[key] = peer
            else:
                self._toggled.pop(key, None)
            try:
                self._send(self.down)
            except SoulslabError:
                # A failed press is discarded; a key that cannot be released has ended with the game.
                self._toggled = before if is_down else self._toggled
                raise

    def tap(self, names: Sequence[str], hold_ms: int, delay_ms: int, gone: threading.Event) -> None:
        """Press keys, hold them and release them.

        The delay is between two presses and between two releases; when `gone` is set, the keys are released at once.
        Raises `InputError` for an unknown key or invalid times.
        """
        keys = list(dict.fromkeys(key_of_public_name(name.upper()).name for name in names))
        _check_tap(keys, hold_ms, delay_ms)
        pressed: list[str] = []
        try:
            for key in keys:
                if pressed:
                    gone.wait(delay_ms / 1000)
                pressed.append(key)
                self._change(key, 1)
            gone.wait(hold_ms / 1000)
            while pressed:
                self._change(pressed.pop(0), -1)
                if pressed:
                    gone.wait(delay_ms / 1000)
        finally:
            with self._lock:
                self._tapped.subtract(pressed)
                self._tapped += Counter()
                if pressed:
                    self._send(self.down)

    def release_of(self, peer: str) -> list[str]:
        """Release the keys of a disconnected client; return them. Raises the errors of sending."""
        with self._lock:
            keys = [key for key, owner in self._toggled.items() if owner == peer]
            for key in keys:
                del self._toggled[key]
            if keys:
                self._send(self.down)
        return keys

    def forget(self) -> None:
        """Forget the toggled keys, because their window is closed."""
        with self._lock:
            self._toggled.clear()

    def send_again(self) -> None:
        """Hold the keys again in a window that was found again."""
        with self._lock:
            if down := self.down:
                self._send(down)

    def _change(self, key: str, by: int) -> None:
        with self._lock:
            self._tapped[key] += by
            self._tapped += Counter()
            self._send(self.down)


def _check_tap(keys: Sequence[str], hold_ms: int, delay_ms: int) -> None:
    if not 1 <= len(keys) <= MAX_KEYS:
        raise InputError(f"a tap has 1 to {MAX_KEYS} keys, not {len(keys)}")
    if hold_ms < 0 or delay_ms < 0:
        raise InputError(f"hold_ms is {hold_ms} and delay_ms is {delay_ms}; they are times, 0 at least")
    total_s = (hold_ms + 2 * delay_ms * (len(keys) - 1)) / 1000
    if total_s > MAX_TAP_S:
        raise InputError(
            f"the tap would take {total_s:g} s, and {MAX_TAP_S:g} s is the most; hold longer with InputKeyToggle"
        )


POLL_S = 0.25
#: Clients of Unix sockets cannot be distinguished; after this long without a call all of them count as disconnected.
UNIX_STILL_S = 10.0


class PeerWatch:
    """Reports disconnected clients, because the public protocol has no call for leaving.

    gRPC for Python reports the end of a call to a server, but not the end of a connection, and a client that holds a
    key has no active call. Therefore the process examines its own sockets, but only while a client holds resources.

    `wanted` returns the clients to watch; the watch pauses while there are none. `gone` is called repeatedly with a
    disconnected client and the time since, in seconds.
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
