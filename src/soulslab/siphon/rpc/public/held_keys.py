"""Keys held by public clients: toggled keys, timed taps, and release after a disconnect."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence

from soulslab.errors import InputError, SoulslabError
from soulslab.siphon.keys import key_of_public_name

MAX_KEYS = 32
MAX_TAP_S = 60.0


class HeldKeys:
    """The held keys of all public clients.

    Args:
        send: Sends the keys to hold to the game, all of them in the order in which they were pressed.
    """

    def __init__(self, send: Callable[[Sequence[str]], None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._toggled: dict[str, str] = {}  # from the key to the client that pressed it
        self._tapped: Counter[str] = Counter()

    @property
    def down(self) -> frozenset[str]:
        """The keys that are held now."""
        return frozenset(self._down())

    @property
    def peers(self) -> set[str]:
        """The clients that hold keys."""
        return set(self._toggled.copy().values())

    def toggle(self, name: str, *, is_down: bool, peer: str) -> None:
        """Press or release a key, independent of the client that pressed it.

        Raises:
            InputError: The key does not exist, or it cannot be sent.
        """
        key = key_named(name)
        with self._lock:
            before = dict(self._toggled)
            if is_down:
                self._toggled[key] = peer
            else:
                self._toggled.pop(key, None)
            try:
                self._send(self._down())
            except SoulslabError:
                # A failed press is discarded; a key that cannot be released has ended with the game.
                self._toggled = before if is_down else self._toggled
                raise

    def tap(self, names: Sequence[str], hold_ms: int, delay_ms: int, gone: threading.Event) -> None:
        """Press keys, hold them and release them.

        Args:
            names: Names of the keys.
            hold_ms: Time from the last press to the first release.
            delay_ms: Time between two presses, and between two releases.
            gone: Event that is set when the client has disconnected: then the keys are released at once.

        Raises:
            InputError: The key does not exist, the times are not valid, or the keys cannot be sent.
        """
        keys = list(dict.fromkeys(key_named(name) for name in names))
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
                    self._send(self._down())

    def release_of(self, peer: str) -> list[str]:
        """Release the keys of a disconnected client; return them. Raises the errors of sending."""
        with self._lock:
            keys = [key for key, owner in self._toggled.items() if owner == peer]
            for key in keys:
                del self._toggled[key]
            if keys:
                self._send(self._down())
        return keys

    def forget(self) -> None:
        """Forget the toggled keys, because their window is closed."""
        with self._lock:
            self._toggled.clear()

    def send_again(self) -> None:
        """Hold the keys again in a window that was found again."""
        with self._lock:
            if down := self._down():
                self._send(down)

    def _change(self, key: str, by: int) -> None:
        with self._lock:
            self._tapped[key] += by
            self._tapped += Counter()
            self._send(self._down())

    def _down(self) -> list[str]:
        return list(dict.fromkeys([*self._toggled, *self._tapped]))


def key_named(name: str) -> str:
    """Return our name of a key of the public protocol, without regard to case.

    Raises:
        UnknownKeyError: The key does not exist.
    """
    return key_of_public_name(name.upper()).name


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
