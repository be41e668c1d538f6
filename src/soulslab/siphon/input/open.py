"""Choosing how keys get to a window."""

from __future__ import annotations

import atexit
import logging

from soulslab.errors import ConfigError, did_you_mean
from soulslab.siphon.input import Input
from soulslab.siphon.input.guard import Guard, NoGuard, ProcessGuard
from soulslab.siphon.input.held import HeldInput, Sender
from soulslab.siphon.input.keycodes import read_keycodes
from soulslab.siphon.input.server import is_alone, stop_repetition
from soulslab.siphon.input.xsendevent import XSendEventSender
from soulslab.siphon.input.xtest import XTestSender
from soulslab.siphon.process.window import Window

BACKENDS = ("auto", "xtest", "xsendevent")

_log = logging.getLogger(__name__)


class XInput(HeldInput):
    """Keys and mouse of a window, released at the end of the interpreter at the latest."""

    def __init__(self, sender: Sender) -> None:
        super().__init__(sender)
        atexit.register(self.close)

    def close(self) -> None:
        """Release everything that is held and let go; a second call does nothing."""
        atexit.unregister(self.close)
        super().close()


def open_input(window: Window, backend: str = "auto", *, is_private: bool = False) -> Input:
    """Open the keys and the mouse of a window.

    Args:
        window: The game's.
        backend: ``xtest``, ``xsendevent``, or ``auto``: XTest where the game has the display to itself, as every
            program takes its keys; else XSendEvent, which reaches a window without the focus and leaves the user's
            own windows alone.
        is_private: The display ends when we do, so that no process has to stand by to release keys.

    Raises:
        ConfigError: There is no such backend.
        DisplayError: The display lacks XTest or XKB.
        WindowGoneError: The window has been closed.
    """
    if backend not in BACKENDS:
        raise ConfigError(f"unknown input backend {backend!r}{did_you_mean(backend, BACKENDS)}", path="input.backend")
    owns_focus = is_private or is_alone(window.x, window.id)
    if backend == "auto":
        backend = "xtest" if owns_focus else "xsendevent"
    if is_private:
        stop_repetition(window.x)
    keycodes = read_keycodes(window.x)
    guard: Guard = NoGuard() if is_private else ProcessGuard(window.x.display)
    _log.debug("keys of window %#x by %s, focus %s", window.id, backend, "ours" if owns_focus else "the user's")
    if backend == "xtest":
        return XInput(XTestSender(window, keycodes, guard, owns_focus))
    return XInput(XSendEventSender(window, keycodes, guard))
