"""What both X backends ask of the server."""

from __future__ import annotations

from collections.abc import Iterable

import xcffib.xproto

from soulslab.errors import InputError
from soulslab.siphon.keys import Key
from soulslab.siphon.process.x11 import XConnection


def deliver(x: XConnection, *, has_delay: bool = False) -> None:
    """Wait until the events that were caused by the requests so far lie in the socket of the program that gets them.

    A server that is idle has handled all requests and has written all events. Where that cannot be seen, two round
    trips are made. One proves only that the server has made the events. It writes them out when it has handled the
    requests of a client, to every client but those that have requests of their own waiting (``Dispatch`` in
    dix/dispatch.c and ``FlushAllOutput`` in os/io.c of the X server); to such a client when its own turn ends. Turns
    go round, so before the second request is answered the game has had its turn. Only a game that is just sending more
    than the server handles in one turn may get its events later, and it does not look for any before that is done.

    Use it inside `XConnection.using`.

    Args:
        x: The connection that made the requests.
        has_delay: A request among them is delayed by the server, which is idle meanwhile.
    """
    if not has_delay and x.wait_until_idle():
        return
    for _ in range(2):
        x.core.GetInputFocus().reply()


def details_of(keys: Iterable[Key], keycodes: dict[str, int], display: str) -> dict[str, int]:
    """Return the keycode or the button of each key, by its name.

    Raises:
        InputError: The server's keyboard lacks one.
    """
    details = {}
    for key in keys:
        detail = key.button or keycodes.get(key.name)
        if detail is None:
            raise InputError(f"the keyboard of X display {display} has no key {key.name} (XKB name {key.xkb_name})")
        details[key.name] = detail
    return details


def stop_repetition(x: XConnection) -> None:
    """Stop the server from repeating keys that are held.

    The repetition comes in wall time, so a game whose time we control would see it at random. It is a setting of the
    whole display, and stays; so this is for displays that end with us.
    """
    with x.using("switch off the repetition of keys"):
        x.core.ChangeKeyboardControl(xcffib.xproto.KB.AutoRepeatMode, [0], is_checked=True).check()


def has_window_manager(x: XConnection) -> bool:
    """Return whether somebody manages the windows: only one client may have the map requests of the root window."""
    with x.using("look for a window manager"):
        masks = x.core.GetWindowAttributes(x.root).reply().all_event_masks
    return bool(masks & xcffib.xproto.EventMask.SubstructureRedirect)


def is_alone(x: XConnection, window: int) -> bool:
    """Return whether this is the only window that is shown on a display without a window manager.

    Nobody works at such a display, so that focus and pointer may be given to the game.
    """
    if has_window_manager(x):
        return False
    with x.using("list the windows", window):
        for other in x.core.QueryTree(x.root).reply().children:
            attributes = x.core.GetWindowAttributes(other).reply()
            is_shown = attributes.map_state == xcffib.xproto.MapState.Viewable
            can_be_seen = attributes._class == xcffib.xproto.WindowClass.InputOutput
            if is_shown and can_be_seen and other != window and not _holds(x, other, window):
                return False
    return True


def _holds(x: XConnection, outer: int, inner: int) -> bool:
    """Return whether one window lies in another."""
    while inner not in (0, x.root):
        if inner == outer:
            return True
        inner = x.core.QueryTree(inner).reply().parent
    return False
