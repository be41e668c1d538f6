"""Queries of the X server that both X backends use."""

from __future__ import annotations

from collections.abc import Iterable

import xcffib.xproto

from soulslab.errors import InputError
from soulslab.siphon.keys import Key
from soulslab.siphon.process.x11 import XConnection


def deliver(x: XConnection, *, has_delay: bool = False) -> None:
    """Wait until the events caused by the requests so far are in the socket of the receiving program.

    An idle server has handled all requests and has written all events. Where idleness cannot be observed, two round
    trips are made. One round trip only proves that the server has created the events. The server writes them out when
    it has handled the requests of a client: to every client except those with pending requests (``Dispatch`` in
    dix/dispatch.c and ``FlushAllOutput`` in os/io.c of the X server), and to such a client when its own turn ends.
    Turns rotate, so before the second request is answered the game has had its turn. Only a game that sends more than
    the server handles in one turn may get its events later, and it does not poll for events before that is done.

    Use it inside `XConnection.using`. `has_delay` states that the server delays a request and is idle in the meantime.
    """
    if not has_delay and x.wait_until_idle():
        return
    for _ in range(2):
        x.core.GetInputFocus().reply()


def details_of(keys: Iterable[Key], keycodes: dict[str, int], display: str) -> dict[str, int]:
    """Return the keycode or the button of each key, by key name. Raises `InputError` for a missing key."""
    details = {}
    for key in keys:
        detail = key.button or keycodes.get(key.name)
        if detail is None:
            raise InputError(f"the keyboard of X display {display} has no key {key.name} (XKB name {key.xkb_name})")
        details[key.name] = detail
    return details


def stop_repetition(x: XConnection) -> None:
    """Stop the server from repeating held keys.

    The repetition follows wall time, so a game whose time is controlled would see it at random. It is a permanent
    setting of the whole display, so this is for displays that end with this process.
    """
    with x.using("switch off the repetition of keys"):
        x.core.ChangeKeyboardControl(xcffib.xproto.KB.AutoRepeatMode, [0], is_checked=True).check()


def is_alone(x: XConnection, window: int) -> bool:
    """Return whether this is the only visible window on a display without a window manager.

    No person uses such a display, so focus and pointer may be given to the game.
    """
    with x.using("list the windows", window):
        masks = x.core.GetWindowAttributes(x.root).reply().all_event_masks
        if masks & xcffib.xproto.EventMask.SubstructureRedirect:  # only one client may have it: a window manager
            return False
        for other in x.core.QueryTree(x.root).reply().children:
            attributes = x.core.GetWindowAttributes(other).reply()
            is_shown = attributes.map_state == xcffib.xproto.MapState.Viewable
            can_be_seen = attributes._class == xcffib.xproto.WindowClass.InputOutput
            if is_shown and can_be_seen and other != window and not _holds(x, other, window):
                return False
    return True


def _holds(x: XConnection, outer: int, inner: int) -> bool:
    """Return whether a window contains another one."""
    while inner not in (0, x.root):
        if inner == outer:
            return True
        inner = x.core.QueryTree(inner).reply().parent
    return False
