"""Keys and mouse as events sent to the game's window: they reach it without the focus, and no other program sees them.

Such events are marked as sent. SDL accepts them; programs that check the mark may ignore them, as xterm does, and a
program that reads keys only through XInput 2 never gets them. The server does not know of these keys: a program that
queries the pressed keys (XQueryKeymap) sees none, and SDL queries them whenever its window gets the focus.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any

import xcffib.xproto
from xcffib.xproto import EventMask

from soulslab.siphon.input.held_input import Change, Guard
from soulslab.siphon.input.x_server import deliver, details_of
from soulslab.siphon.keys import Key
from soulslab.siphon.process.window import Window
from soulslab.siphon.process.x11 import XConnection

# SDL treats a release and a press of one key less than 2 ms apart as keyboard repetition, and drops both
# (X11_KeyRepeatCheckIfEvent in SDL_x11events.c). The times are set here, so they can differ without waiting.
_APART_MS = 3
_KINDS = {  # by (is a button, is a press)
    (False, True): (xcffib.xproto.KeyPressEvent, EventMask.KeyPress),
    (False, False): (xcffib.xproto.KeyReleaseEvent, EventMask.KeyRelease),
    (True, True): (xcffib.xproto.ButtonPressEvent, EventMask.ButtonPress),
    (True, False): (xcffib.xproto.ButtonReleaseEvent, EventMask.ButtonRelease),
}
_LOCKS = ("CAPSLOCK", "NUMLOCK", "SCROLLLOCK")


class XSendEventSender:
    """Sends events with the request SendEvent, with the keycodes of the server by key name."""

    backend = "xsendevent"

    def __init__(self, window: Window, keycodes: dict[str, int], guard: Guard) -> None:
        self._window = window
        self._x = window.x
        self._keycodes = keycodes
        self._guard = guard
        self._modifiers = _read_modifiers(self._x, keycodes)
        with self._x.using("ask what events the window gets", window.id):
            # The events that some client has selected on the window.
            self._wanted_events = int(self._x.core.GetWindowAttributes(window.id).reply().all_event_masks)
        self._clock_offset_ms = _read_server_time_ms(self._x) - _monotonic_ms()
        self._last_ms = 0
        self._down: dict[str, Key] = {}
        self._released_at_ms: dict[str, int] = {}
        self._pointer_px: tuple[int, int] | None = None

    def check(self, keys: Collection[Key]) -> None:
        """Refuse keys that the keyboard lacks, and a closed window."""
        self._window.state()
        details_of(keys, self._keycodes, self._x.display)

    def send(self, changes: Sequence[Change]) -> None:
        """Press and release."""
        self._guard.hold(changes, self._recipe)
        with self._x.using("send keys", self._window.id):
            cookies = []
            for change in changes:
                cookies.append(self._send(*self._event(change)))
                if change.is_press:
                    self._down[change.key.name] = change.key
                else:
                    self._down.pop(change.key.name, None)
            deliver(self._x)
            for cookie in cookies:
                cookie.check()
        self._guard.free(changes)

    def move_mouse(self, dx_px: int, dy_px: int) -> None:
        """Report a pointer movement to the game; the reported pointer stays inside the window.

        Programs that grab the pointer (mouse look) read raw movements instead, or move the real pointer back, and
        ignore this event: use XTest for them.
        """
        state = self._window.state()
        x_px, y_px = self._pointer(state)
        x_px = min(max(x_px + dx_px, 0), state.width_px - 1)
        y_px = min(max(y_px + dy_px, 0), state.height_px - 1)
        self._pointer_px = (x_px, y_px)
        with self._x.using("move the mouse", self._window.id):
            event = self._pack(xcffib.xproto.MotionNotifyEvent, 0, self._time_ms())
            cookie = self._send(EventMask.PointerMotion, event)
            deliver(self._x)
            cookie.check()

    def close(self) -> None:
        """End the guard."""
        self._guard.close()

    def _send(self, mask: int, event: bytes) -> Any:
        """Send an event to the clients that select it on this window, or else to the client that created the window."""
        mask &= self._wanted_events
        return self._x.core.SendEvent(bool(mask), self._window.id, mask, event, is_checked=True)

    def _event(self, change: Change) -> tuple[int, bytes]:
        """Return the mask that selects the event, and the event."""
        key = change.key
        time_ms = self._time_ms()
        if not change.is_press:
            self._released_at_ms[key.name] = time_ms
        elif key.name in self._released_at_ms:
            time_ms = max(time_ms, self._released_at_ms[key.name] + _APART_MS)
        self._last_ms = max(self._last_ms, time_ms)
        return self._mask_and_event(change, time_ms)

    def _recipe(self, key: Key) -> str:
        """Return the recipe with which a guard releases the key."""
        mask, event = self._mask_and_event(Change(key, False), self._time_ms())
        return f"send {self._window.id:#x} {mask & self._wanted_events} {event.hex()}"

    def _mask_and_event(self, change: Change, time_ms: int) -> tuple[int, bytes]:
        kind, mask = _KINDS[change.key.is_mouse, change.is_press]
        detail = change.key.button or self._keycodes[change.key.name]
        return mask, self._pack(kind, detail, time_ms)

    def _pack(self, kind: Any, detail: int, time_ms: int) -> bytes:
        """Return an event with all fields that the server would have set."""
        state = self._window.state()
        x_px, y_px = self._pointer(state)
        event = kind.synthetic(
            detail,
            time_ms % 2**32,
            self._x.root,
            self._window.id,
            0,  # no child: the pointer is in the window itself
            _clip(state.x_px + x_px),
            _clip(state.y_px + y_px),
            _clip(x_px),
            _clip(y_px),
            self._state_before(),
            True,
        )
        return bytes(event.pack())

    def _state_before(self) -> int:
        """Return the state of modifiers and buttons as an X mask."""
        mask = 0
        for key in self._down.values():
            if not key.is_mouse:
                mask |= self._modifiers.get(key.name, 0)
            elif key.button <= 5:
                mask |= 1 << (7 + key.button)  # Button1Mask is bit 8
        return mask

    def _pointer(self, state: Any) -> tuple[int, int]:
        """Return the pointer position that was reported last; at first the middle of the window."""
        return self._pointer_px or (state.width_px // 2, state.height_px // 2)

    def _time_ms(self) -> int:
        """Return the server's time, at least the time of the last event.

        The server's clock is the monotonic clock of its machine plus a measured difference.
        """
        return max(_monotonic_ms() + self._clock_offset_ms, self._last_ms)


def _read_modifiers(x: XConnection, keycodes: dict[str, int]) -> dict[str, int]:
    """Return the modifier bit of each key; a key that locks has none."""
    with x.using("ask for the modifiers"):
        reply = x.core.GetModifierMapping().reply()
    n = reply.keycodes_per_modifier
    bits = {code: 1 << (i // n) for i, code in enumerate(reply.keycodes) if code}
    return {name: bits[code] for name, code in keycodes.items() if code in bits and name not in _LOCKS}


def _read_server_time_ms(x: XConnection) -> int:
    """Return the time of the server, from the event for a property change of our own window."""
    times: list[int] = []

    def note(event: Any) -> None:
        if isinstance(event, xcffib.xproto.PropertyNotifyEvent) and event.window == window:
            times.append(event.time)

    with x.using("ask for the server's time"):
        window = x.raw.generate_id()
        x.core.CreateWindow(
            0, window, x.root, 0, 0, 1, 1, 0, xcffib.xproto.WindowClass.InputOnly, 0,
            xcffib.xproto.CW.EventMask, [EventMask.PropertyChange],
        )  # fmt: skip
        x.listen(note)
        try:
            name = xcffib.xproto.Atom.WM_NAME
            x.core.ChangeProperty(xcffib.xproto.PropMode.Replace, window, name, xcffib.xproto.Atom.STRING, 8, 1, b"t")
            x.core.GetInputFocus().reply()
            x.dispatch()
        finally:
            x.unlisten(note)
            x.core.DestroyWindow(window)
    return times[0]


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _clip(value_px: int) -> int:
    """Return a coordinate limited to the range of an event."""
    return min(max(value_px, -32768), 32767)
