"""Selection of the X input backend for a window."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

import xcffib.xkb

from soulslab.errors import ConfigError, DisplayError, did_you_mean
from soulslab.siphon.input import Input
from soulslab.siphon.input.held_input import Guard, HeldInput, Sender
from soulslab.siphon.input.x_server import is_alone, stop_repetition
from soulslab.siphon.input.xsendevent import XSendEventSender
from soulslab.siphon.input.xtest import XTestSender
from soulslab.siphon.keys import KEYS
from soulslab.siphon.process.window import Window
from soulslab.siphon.process.x11 import XConnection

BACKENDS = ("auto", "xtest", "xsendevent")

#: Longest wait for a game that was attached to, to handle the message that it has the focus. A game that loads a level
#: answers late.
FOCUS_DEADLINE_S = 1.0

_log = logging.getLogger(__name__)


def open_input(window: Window, backend: str = "auto", *, is_private: bool = False) -> Input:
    """Open keyboard and mouse of a window; see `open_keyboard`."""
    return HeldInput(open_keyboard(window, backend, is_private=is_private))


def open_keyboard(window: Window, backend: str = "auto", *, is_private: bool = False) -> Sender:
    """Open the sender of keys and mouse of a window.

    Args:
        window: Window of the game.
        backend: ``xtest``, ``xsendevent``, or ``auto``: XTest if the game has the display to itself, because every
            program accepts it; otherwise XSendEvent, which reaches a window without the focus and does not affect other
            windows.
        is_private: Whether the display ends with this process, so that no guard process is needed.

    Raises `ConfigError` if the backend does not exist, `DisplayError` without XTest or XKB, and `WindowGoneError`.
    """
    if backend not in BACKENDS:
        raise ConfigError(f"unknown input backend {backend!r}{did_you_mean(backend, BACKENDS)}", path="input.backend")
    owns_focus = is_private or is_alone(window.x, window.id)
    if backend == "auto":
        backend = "xtest" if owns_focus else "xsendevent"
    if is_private:
        stop_repetition(window.x)
    keycodes = read_keycodes(window.x)
    guard = Guard("" if is_private else window.x.display)
    _log.debug("keys of window %#x by %s, focus %s", window.id, backend, "ours" if owns_focus else "the user's")
    if backend == "xtest":
        # On a private display no other window has been the active one, and the game may be held.
        answer_deadline_s = 0.0 if is_private else FOCUS_DEADLINE_S
        return XTestSender(window, keycodes, guard, owns_focus, answer_deadline_s)
    return XSendEventSender(window, keycodes, guard)


_CORE_KEYBOARD = 0x100  # XkbUseCoreKbd


def read_keycodes(x: XConnection) -> dict[str, int]:
    """Query the keycodes of the server, by the name in `soulslab.siphon.keys.KEYS`. Raises `DisplayError`."""
    xkb = x.extension(xcffib.xkb.key)
    with x.using("ask for the names of the keys"):
        if not xkb.UseExtension(1, 0).reply().supported:
            raise DisplayError(f"X display {x.display} has no XKB 1.0, so its keys cannot be identified")
        which = xcffib.xkb.NameDetail.KeyNames | xcffib.xkb.NameDetail.KeyAliases
        reply = xkb.GetNames(_CORE_KEYBOARD, which).reply()
    names = [_text(item.name) for item in reply.keyNames]
    aliases = {_text(item.alias): _text(item.real) for item in reply.keyAliases}
    return match_keycodes({name: reply.firstKey + i for i, name in enumerate(names) if name}, aliases)


def match_keycodes(codes: Mapping[str, int], aliases: Mapping[str, str]) -> dict[str, int]:
    """Return the keycode of each available key, given keycodes by XKB name and the aliases of XKB names."""
    codes = dict(codes)
    for alias, real in aliases.items():
        if real in codes:
            codes.setdefault(alias, codes[real])
        elif alias in codes:
            codes[real] = codes[alias]
    return {key.name: codes[key.xkb_name] for key in KEYS.values() if key.xkb_name in codes}


def _text(characters: Iterable[bytes]) -> str:
    """Return an XKB name: four characters, padded with zeros."""
    return b"".join(characters).rstrip(b"\0").decode("latin-1")
