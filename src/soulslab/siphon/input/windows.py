"""Keyboard and mouse of a game on Windows, through ``SendInput``.

Events have a scan code and a virtual key, so that programs that read window messages, ``GetAsyncKeyState``, raw input
or DirectInput get them. Windows gives keys to the foreground window only, and buttons to the window under the pointer:
before each change the game is brought to the front, and the pointer over it.

``SendInput`` puts events into the input stream of the system, which assigns them to the queue of the foreground window
and updates the state of the keys. `SendInputSender.send` returns when ``GetAsyncKeyState`` reports the new state of all
keys, so the events have left the stream. It does not wait until the game has handled them: a game with held time
handles no messages.

Relative movements of the mouse are those of a real mouse: programs with raw input get the exact values. The pointer
itself moves by other distances if the user's settings accelerate it ("Enhance pointer precision") or its speed is not
the middle one.

Sources: Microsoft, "SendInput function", "Keyboard Input Overview", "GetAsyncKeyState function".
"""

from __future__ import annotations

import ctypes
import logging
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from ctypes import wintypes
from pathlib import Path
from typing import Any

from soulslab.errors import ConfigError, InputError, WindowError, WindowGoneError, did_you_mean
from soulslab.siphon.input import Input, windows_guard_process
from soulslab.siphon.input.held_input import Change, Guard, HeldInput
from soulslab.siphon.input.windows_guard_process import InputEvent, event_of_recipe, mouse_event, send_events
from soulslab.siphon.keys import Key
from soulslab.siphon.process.windows_integrity import why_refused
from soulslab.siphon.process.windows_window import Window, WindowState, physical_pixels
from soulslab.siphon.win32 import error_code, explain, function

BACKENDS = ("auto", "sendinput")

#: Longest wait until Windows reports the new state of the keys after events; it does so within a millisecond.
ACCEPT_DEADLINE_S = 0.5
#: Greatest number of times that events are sent. A window that comes to the front under Wine gets the keyboard state of
#: the X server, and this may release a key that was pressed just before.
N_SENDINGS = 3
#: Largest movement of the mouse at once in pixels.
MAX_MOVE_PX = 32767

# Values of winuser.h.
_KEY_EXTENDED, _KEY_UP = 0x0001, 0x0002
_MOUSE_MOVE, _WHEEL = 0x0001, 0x0800
_BUTTONS = {  # by X button: flags of a press, flags of a release, number of a side button
    1: (0x0002, 0x0004, 0),
    3: (0x0008, 0x0010, 0),
    2: (0x0020, 0x0040, 0),
    8: (0x0080, 0x0100, 1),
    9: (0x0080, 0x0100, 2),
}
_WHEEL_TURNS = {4: 120, 5: -120}
_TO_VIRTUAL_KEY = 3  # MAPVK_VSC_TO_VK_EX
_PAUSE_SCAN_CODE = 0x45
_EXTENDED_PREFIX, _PAUSE_PREFIX = 0xE0, 0xE1
_GA_ROOT = 2
_GET_MOUSE, _GET_MOUSE_SPEED, _MIDDLE_SPEED = 0x0003, 0x0070, 10
#: Scan codes of the keys whose virtual key depends on the layout: the digits, the letters and the signs around them.
_LAYOUT_KEYS = frozenset((*range(0x02, 0x0E), *range(0x10, 0x1C), *range(0x1E, 0x2A), *range(0x2B, 0x36), 0x56)) - {
    0x2A,
    0x36,
}

_BOOL, _INT, _UINT, _HWND = wintypes.BOOL, ctypes.c_int, wintypes.UINT, wintypes.HWND

_log = logging.getLogger(__name__)


def open_input(window: Window, backend: str = "auto") -> Input:
    """Open keyboard and mouse of a window; see `open_keyboard`."""
    return HeldInput(open_keyboard(window, backend))


def open_keyboard(window: Window, backend: str = "auto") -> SendInputSender:
    """Open the sender of keys and mouse of a window.

    Args:
        window: Window of the game.
        backend: ``auto`` or ``sendinput``, which is the only backend.

    Raises:
        ConfigError: The backend does not exist on Windows.
        InputError: Windows does not let this program send input to the game, because the game has more rights.
        WindowGoneError: The window is closed.
    """
    if backend not in BACKENDS:
        raise ConfigError(
            f"unknown input backend {backend!r} on Windows{did_you_mean(backend, BACKENDS)}", path="input.backend"
        )
    window.state()
    refusal = why_refused(window.pid)
    if refusal:
        raise InputError(f"keys cannot be sent to the game: {refusal}")
    return SendInputSender(window, Guard("windows", Path(windows_guard_process.__file__)))


class SendInputSender:
    """Sends through ``SendInput``."""

    backend = "sendinput"

    def __init__(self, window: Window, guard: Guard) -> None:
        self._window = window
        self._guard = guard
        self._down: dict[str, Key] = {}
        self._layout = _user("GetKeyboardLayout", ctypes.c_void_p, wintypes.DWORD)(window.thread_id)
        self._is_acceleration_known = False

    def check(self, keys: Collection[Key]) -> None:
        """Bring the game to the front and the pointer over it.

        Raises `InputError` if another program prevents that, and `WindowGoneError`. If the window was closed, the held
        keys are released, because Windows keeps their state for all programs.
        """
        try:
            state = self._window.state()
            if keys and not self._window.is_in_front():
                self._window.bring_to_front()
        except WindowGoneError:
            self._release_all()
            raise
        except WindowError as error:
            raise InputError(f"keys would reach another window: {error}") from error
        if any(key.is_mouse for key in keys):
            self._check_pointer(state)

    def send(self, changes: Sequence[Change]) -> None:
        """Press and release; return when Windows reports the new state of the keys."""
        states = [change for change in changes if change.key.button not in _WHEEL_TURNS]
        self._guard.hold(states, self._recipe)
        self._down |= {change.key.name: change.key for change in states if change.is_press}
        self._send_events(self._events(changes))
        last = {change.key.name: change for change in states}
        self._await_state(last.values())
        for name, change in last.items():
            if not change.is_press:
                self._down.pop(name, None)
        self._guard.free(states)

    def move_mouse(self, dx_px: int, dy_px: int) -> None:
        """Move the mouse by a number of steps of a mouse, which are pixels without acceleration."""
        if max(abs(dx_px), abs(dy_px)) > MAX_MOVE_PX:
            raise InputError(f"cannot move the mouse by ({dx_px}, {dy_px}) px at once; {MAX_MOVE_PX} is the most")
        if not self._window.is_in_front():
            try:
                self._window.bring_to_front()
            except WindowError as error:
                raise InputError(f"the mouse would move in another window: {error}") from error
        self._warn_of_acceleration()
        self._send_events([mouse_event(_MOUSE_MOVE, 0, dx_px, dy_px)])

    def close(self) -> None:
        """End the guard."""
        self._guard.close()

    def _events(self, changes: Collection[Change]) -> list[InputEvent]:
        return [event_of_recipe(recipe.split()) for change in changes for recipe in self._recipes(change)]

    def _recipes(self, change: Change) -> list[str]:
        """Return the recipe of the event of a change; none for the release of the wheel."""
        if change.key.button in _WHEEL_TURNS:
            return [f"mouse {_WHEEL} {_WHEEL_TURNS[change.key.button]}"] if change.is_press else []
        return [self._recipe(change.key, is_press=change.is_press)]

    def _recipe(self, key: Key, *, is_press: bool = False) -> str:
        """Return the recipe of an event, by default of the release, in the form of the guard process."""
        if key.is_mouse:
            press, release, side = _BUTTONS[key.button]
            return f"mouse {press if is_press else release} {side}"
        prefix, scan_code = divmod(key.scan_code, 0x100)
        flags = (0 if is_press else _KEY_UP) | (_KEY_EXTENDED if prefix == _EXTENDED_PREFIX else 0)
        # The scan code of Pause has a prefix of its own; its window message has the code without it.
        scan_code = _PAUSE_SCAN_CODE if prefix == _PAUSE_PREFIX else scan_code
        return f"key {self._virtual_key(key)} {scan_code} {flags}"

    def _virtual_key(self, key: Key) -> int:
        """Return the virtual key of a position on the keyboard in the layout of the game."""
        if key.scan_code not in _LAYOUT_KEYS:
            return key.virtual_key
        mapped = _user("MapVirtualKeyExW", _UINT, _UINT, _UINT, ctypes.c_void_p)
        return mapped(key.scan_code, _TO_VIRTUAL_KEY, self._layout) or key.virtual_key

    def _send_events(self, events: Sequence[InputEvent]) -> None:
        if not events:
            return
        n_accepted = send_events(events)
        if n_accepted < len(events):
            raise InputError(
                f"Windows accepted {n_accepted} of {len(events)} events for process {self._window.pid}: "
                f"{explain(error_code())}; if the game runs as administrator, run soulslab as administrator as well, "
                f"and unlock the screen"
            )

    def _await_state(self, changes: Collection[Change]) -> None:
        """Wait until Windows reports the state of the changed keys; send the events of the others again."""
        for n_left in reversed(range(N_SENDINGS)):
            deadline = time.monotonic() + ACCEPT_DEADLINE_S
            # The state is read before the time: a busy machine may stop this thread for longer than the wait.
            while (changes := self._unreported(changes)) and time.monotonic() < deadline:
                pass
            if not changes:
                return
            if n_left:
                self.check([change.key for change in changes if change.is_press])
                self._send_events(self._events(changes))
        names = ", ".join(change.key.name for change in changes)
        raise InputError(
            f"Windows has not changed the state of {names}: a program that filters keys, or a window with more rights "
            f"in front, has taken the events; end such programs, and run soulslab as administrator if the game runs so"
        )

    def _unreported(self, changes: Collection[Change]) -> list[Change]:
        """Return the changes of which Windows does not report the new state."""
        return [change for change in changes if _is_down(self._code(change.key)) != change.is_press]

    def _code(self, key: Key) -> int:
        return key.virtual_key if key.is_mouse else self._virtual_key(key)

    def _check_pointer(self, state: WindowState) -> None:
        """Ensure that buttons reach the game: move the pointer to the middle of its window if it is elsewhere."""
        with physical_pixels():
            if self._has_pointer():
                return
            middle = (state.x_px + state.width_px // 2, state.y_px + state.height_px // 2)
            _user("SetCursorPos", _BOOL, _INT, _INT)(*middle)
            if not self._has_pointer():
                cover = f"window {state.cover} covers it" if state.cover else "another program keeps the pointer"
                raise InputError(
                    f"the pointer cannot be moved over the game's window {self._window.id:#x}, so buttons would reach "
                    f"another window: {cover}; uncover the window"
                )

    def _has_pointer(self) -> bool:
        point = wintypes.POINT()
        _user("GetCursorPos", _BOOL, ctypes.POINTER(wintypes.POINT))(point)
        under = _user("WindowFromPoint", _HWND, wintypes.POINT)(point)
        return bool(under and _user("GetAncestor", _HWND, _HWND, _UINT)(under, _GA_ROOT) == self._window.id)

    def _release_all(self) -> None:
        """Release all keys, wherever the events arrive."""
        changes = [Change(key, False) for key in self._down.values()]
        with suppress(InputError):  # the error of the caller says what happened
            if changes:
                self.send(changes)

    def _warn_of_acceleration(self) -> None:
        """Log once that the user's settings change the distances of the pointer."""
        if self._is_acceleration_known:
            return
        self._is_acceleration_known = True
        read = _user("SystemParametersInfoW", _BOOL, _UINT, _UINT, ctypes.c_void_p, _UINT)
        acceleration, speed = (_INT * 3)(), _INT(_MIDDLE_SPEED)
        read(_GET_MOUSE, 0, acceleration, 0)
        read(_GET_MOUSE_SPEED, 0, ctypes.byref(speed), 0)
        if acceleration[2] or speed.value != _MIDDLE_SPEED:
            _log.warning(
                "mouse settings of Windows change the distances of the pointer; if the game does not use raw input, "
                "switch off 'Enhance pointer precision' and set the pointer speed to the middle"
            )


def _is_down(virtual_key: int) -> bool:
    return bool(_user("GetAsyncKeyState", ctypes.c_short, _INT)(virtual_key) < 0)


def _user(name: str, result: Any, *arguments: Any) -> Any:
    return function("user32", name, result, *arguments)
