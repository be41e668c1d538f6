"""What every backend shares: which keys are down, and sending only what changes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

import msgspec

from soulslab.errors import DisplayError, SessionStateError, WindowGoneError
from soulslab.siphon.keys import Key, key_named

_log = logging.getLogger(__name__)


class Change(msgspec.Struct, frozen=True):
    """A key that goes down or up.

    Attributes:
        key: Which.
        is_press: Down, else up.
    """

    key: Key
    is_press: bool


def pressed_keys(changes: Sequence[Change]) -> list[Key]:
    """Return the keys that go down, if only for a moment."""
    return list({change.key.name: change.key for change in changes if change.is_press}.values())


def released_keys(changes: Sequence[Change]) -> list[Key]:
    """Return the keys that are up in the end."""
    last = {change.key.name: change for change in changes}
    return [change.key for change in last.values() if not change.is_press]


class Sender(Protocol):
    """One way of sending keys and mouse to one game; it need not remember anything.

    Attributes:
        backend: Its name (`Input.backend`).
    """

    backend: str

    def check(self, keys: Collection[Key]) -> None:
        """Raise what speaks against sending these keys (`InputError`, `WindowGoneError`), before anything is sent."""
        ...

    def send(self, changes: Sequence[Change]) -> None:
        """Send changes in this order; return once they are in the game's queue."""
        ...

    def move_mouse(self, dx_px: int, dy_px: int) -> None:
        """Move the mouse; return once the movement is in the game's queue."""
        ...

    def close(self) -> None:
        """Let go; whatever was held has been released before."""
        ...


class HeldInput:
    """Keys and mouse of one game over a `Sender` (`soulslab.siphon.input.Input`); may be called from several threads.

    Attributes:
        backend: How it sends.
    """

    def __init__(self, sender: Sender) -> None:
        self.backend = sender.backend
        self._sender = sender
        self._held: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def held(self) -> frozenset[str]:
        """The keys and mouse buttons that are down now."""
        return self._held

    def set_held(self, keys: Collection[str], again: Collection[str] = ()) -> None:
        """Hold these and no others; see `Input.set_held`. Keys go up and down in the order of the alphabet."""
        wanted = {name: key_named(name) for name in keys}
        anew = {name for name in again if key_named(name).name in wanted}
        with self._lock:
            self._check_open()
            releases = [Change(key_named(name), False) for name in sorted(self._held - (wanted.keys() - anew))]
            presses = [Change(wanted[name], True) for name in sorted(wanted.keys() - (self._held - anew))]
            if not releases and not presses:
                return
            self._sender.check(wanted.values())
            before, self._held = self._held, frozenset(wanted)
            try:
                self._sender.send([*releases, *presses])
            except BaseException:
                # Whatever may be down by now, also after Ctrl-C, has to be released at the end.
                self._held = before | self._held
                raise

    def type(self, keys: Collection[str]) -> None:
        """Press and release keys one after another; see `Input.type`. One that is held goes up first and stays down."""
        typed = [key_named(name) for name in keys]
        with self._lock:
            self._check_open()
            changes = []
            for key in typed:
                is_held = key.name in self._held
                changes += [Change(key, not is_held), Change(key, is_held)]
            if changes:
                self._sender.check(typed)
                self._sender.send(changes)

    def move_mouse(self, dx_px: int, dy_px: int) -> None:
        """Move the mouse relative to where it is; see `Input.move_mouse`."""
        with self._lock:
            self._check_open()
            if dx_px or dy_px:
                self._sender.check(())
                self._sender.move_mouse(dx_px, dy_px)

    def close(self) -> None:
        """Release everything that is held and let go; a second call does nothing."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            held, self._held = self._held, frozenset()
            changes = [Change(key_named(name), False) for name in sorted(held)]
            try:
                if changes:
                    self._unless_gone(lambda: self._sender.send(changes))
            finally:
                self._unless_gone(self._sender.close)

    @staticmethod
    def _unless_gone(part: Callable[[], None]) -> None:
        """Do a part of closing; keys are held by a window and a server, and where these have ended, none is down."""
        try:
            part()
        except (WindowGoneError, DisplayError) as error:
            _log.debug("nothing to release: %s", error)

    def _check_open(self) -> None:
        if self._is_closed:
            raise SessionStateError("keys were sent after the input was closed; open the session again")
