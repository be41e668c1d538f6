"""Input through XTest: programs cannot distinguish it from real devices, but only the focused window gets keys.

Keys go to the window that has the focus, buttons to the window under the pointer. On a private display the game gets
both. On any other display, pressing a key while another window has the focus is an error: it would type into that
window.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import xcffib.xproto
import xcffib.xtest

from soulslab.errors import InputError
from soulslab.siphon.input.held_input import Change, Guard
from soulslab.siphon.input.x_server import deliver, details_of
from soulslab.siphon.keys import Key
from soulslab.siphon.process.window import Window

_KEY_PRESS, _KEY_RELEASE, _BUTTON_PRESS, _BUTTON_RELEASE, _MOTION = 2, 3, 4, 5, 6
_POINTER_ROOT = 1  # the focus follows the pointer: the state of a server without a window manager
_FAR_PX = 32767
# SDL treats a release and a press of one key less than 2 ms apart as keyboard repetition, and drops both
# (X11_KeyRepeatCheckIfEvent in SDL_x11events.c); the server's clock counts whole milliseconds.
_APART_MS = 3


class XTestSender:
    """Sends through XTest, with the keycodes of the server by key name.

    `owns_focus` states that the display has no other user, so that focus and pointer may be given to the game.
    `answer_deadline_s` is the longest wait for the game to handle the message that it has the focus.
    """

    backend = "xtest"

    def __init__(
        self, window: Window, keycodes: dict[str, int], guard: Guard, owns_focus: bool, answer_deadline_s: float
    ) -> None:
        self._window = window
        self._x = window.x
        self._keycodes = keycodes
        self._guard = guard
        self._owns_focus = owns_focus
        self._answer_deadline_s = answer_deadline_s
        self._xtest: Any = self._x.extension(xcffib.xtest.key)
        self._has_focus = False
        if owns_focus:
            self._x.select(window.id, xcffib.xproto.EventMask.FocusChange)
            self._x.listen(self._on_event)

    def check(self, keys: Collection[Key]) -> None:
        """Refuse keys that the keyboard lacks, and keys that would reach another window."""
        self._window.state()
        details_of(keys, self._keycodes, self._x.display)
        with self._x.using("look for the focus", self._window.id):
            if any(not key.is_mouse for key in keys):
                self._check_focus()
            if any(key.is_mouse for key in keys):
                self._check_pointer()

    def send(self, changes: Sequence[Change]) -> None:
        """Press and release."""
        details = details_of([change.key for change in changes], self._keycodes, self._x.display)
        self._guard.hold(changes, lambda key: f"xtest {_kind(key, is_press=False)} {details[key.name]}")
        with self._x.using("press keys", self._window.id):
            let_go = set()
            has_delay = False
            for change in changes:
                delay_ms = _APART_MS if change.is_press and change.key.name in let_go else 0
                self._fake(_kind(change.key, is_press=change.is_press), details[change.key.name], delay_ms=delay_ms)
                has_delay = has_delay or delay_ms > 0
                if not change.is_press:
                    let_go.add(change.key.name)
            deliver(self._x, has_delay=has_delay)
        self._guard.free(changes)

    def move_mouse(self, dx_px: int, dy_px: int) -> None:
        """Move the pointer of the display; programs that read raw movements get them too.

        If the game is alone and the pointer has left its window, the pointer is put back into the middle first.
        """
        if max(abs(dx_px), abs(dy_px)) > _FAR_PX:
            raise InputError(f"cannot move the mouse by ({dx_px}, {dy_px}) px at once; {_FAR_PX} is the most")
        with self._x.using("move the mouse", self._window.id):
            if self._owns_focus:
                self._check_pointer()
            self._fake(_MOTION, 1, dx_px, dy_px)
            deliver(self._x)

    def close(self) -> None:
        """End the guard."""
        self._x.unlisten(self._on_event)
        self._guard.close()

    def _fake(self, kind: int, detail: int, x: int = 0, y: int = 0, *, delay_ms: int = 0) -> None:
        """Send one event; an error arrives with the events, because `details_of` has checked the detail."""
        self._xtest.FakeInput(kind, detail, delay_ms, 0, x, y, 0)

    def _on_event(self, event: Any) -> None:
        if isinstance(event, xcffib.xproto.FocusOutEvent) and event.event == self._window.id:
            self._has_focus = False

    def _check_focus(self) -> None:
        """Ensure that keys reach the game.

        Where the game is alone, only the game itself moves the focus, so its events are sufficient. Elsewhere the user
        may do so at any time, and the focus is queried each time.
        """
        if self._has_focus:
            return
        focus = self._x.core.GetInputFocus().reply().focus
        if self._is_ours(focus):
            self._has_focus = self._owns_focus
            if self._owns_focus:
                # Wine has its own active window, which may be another one although this window has the focus.
                self._window.tell_focus(self._answer_deadline_s)
            return
        if not self._owns_focus:
            raise InputError(
                f"the game's window {self._window.id:#x} has not the focus, so XTest would press keys in another "
                f"window; click on it, or choose the backend xsendevent, or a private display"
            )
        self._x.core.SetInputFocus(xcffib.xproto.InputFocus.Parent, self._window.id, 0, is_checked=True).check()
        self._window.tell_focus(self._answer_deadline_s)

    def _is_ours(self, focus: int) -> bool:
        """Return whether the focus is on the window or inside it."""
        while focus > _POINTER_ROOT and focus not in (self._window.id, self._x.root):
            focus = int(self._x.core.QueryTree(focus).reply().parent)
        return bool(focus == self._window.id)

    def _check_pointer(self) -> None:
        """Ensure that buttons reach the game."""
        state = self._window.state()
        pointer = self._x.core.QueryPointer(self._window.id).reply()
        if pointer.same_screen and 0 <= pointer.win_x < state.width_px and 0 <= pointer.win_y < state.height_px:
            return
        if not self._owns_focus:
            raise InputError(
                f"the pointer is not over the game's window {self._window.id:#x}, so XTest would click elsewhere; "
                f"move it there, or choose the backend xsendevent, or a private display"
            )
        middle = (state.width_px // 2, state.height_px // 2)
        self._x.core.WarpPointer(0, self._window.id, 0, 0, 0, 0, *middle, is_checked=True).check()


def _kind(key: Key, *, is_press: bool) -> int:
    if key.is_mouse:
        return _BUTTON_PRESS if is_press else _BUTTON_RELEASE
    return _KEY_PRESS if is_press else _KEY_RELEASE
