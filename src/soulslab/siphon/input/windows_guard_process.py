"""``SendInput``, and the helper process that releases keys with it: ``python windows_guard_process.py NAME PID``.

The process starts as a script without imports from soulslab, so that it starts fast. A recipe of
`soulslab.siphon.input.held_input.Guard` is the release event of a key: ``key VIRTUAL_KEY SCAN_CODE FLAGS`` or
``mouse FLAGS DATA``.

Source: Microsoft, "SendInput function", "INPUT structure", "KEYBDINPUT structure", "MOUSEINPUT structure".
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable, Sequence
from ctypes import wintypes
from typing import Any

_MOUSE, _KEYBOARD = 0, 1  # INPUT_MOUSE, INPUT_KEYBOARD


class _MouseInput(ctypes.Structure):
    _fields_ = (
        ("dx", wintypes.LONG),
        ("dy", wintypes.LONG),
        ("data", wintypes.DWORD),
        ("flags", wintypes.DWORD),
        ("time", wintypes.DWORD),
        ("extra", ctypes.c_size_t),
    )


class _KeyboardInput(ctypes.Structure):
    _fields_ = (
        ("virtual_key", wintypes.WORD),
        ("scan_code", wintypes.WORD),
        ("flags", wintypes.DWORD),
        ("time", wintypes.DWORD),
        ("extra", ctypes.c_size_t),
    )


class _EventOfKind(ctypes.Union):
    _fields_ = (("mouse", _MouseInput), ("keyboard", _KeyboardInput))


class InputEvent(ctypes.Structure):
    """An event of the keyboard or the mouse (``INPUT``)."""

    _fields_ = (("kind", wintypes.DWORD), ("event", _EventOfKind))


def key_event(virtual_key: int, scan_code: int, flags: int) -> InputEvent:
    """Return an event of the keyboard."""
    return InputEvent(_KEYBOARD, _EventOfKind(keyboard=_KeyboardInput(virtual_key, scan_code, flags)))


def mouse_event(flags: int, data: int = 0, dx_px: int = 0, dy_px: int = 0) -> InputEvent:
    """Return an event of the mouse; `data` is the turn of the wheel or the number of a side button."""
    return InputEvent(_MOUSE, _EventOfKind(mouse=_MouseInput(dx_px, dy_px, data & 0xFFFFFFFF, flags)))


def send_events(events: Sequence[InputEvent]) -> int:
    """Send events in this order and return how many of them Windows has accepted."""
    load: Any = getattr(ctypes, "WinDLL", None)  # exists on Windows only
    array = (InputEvent * len(events))(*events)
    accepted: int = load("user32", use_last_error=True).SendInput(len(events), array, ctypes.sizeof(InputEvent))
    return accepted


def event_of_recipe(recipe: Sequence[str]) -> InputEvent:
    """Return the event of a recipe."""
    kind, *numbers = recipe
    values = [int(number) for number in numbers]
    return key_event(*values) if kind == "key" else mouse_event(*values)


def main(lines: Iterable[str]) -> None:
    """Read lines until the owner closes the pipe or ends; then release the recorded keys."""
    held: dict[str, list[str]] = {}
    for line in lines:
        command, name, *recipe = line.split()
        if command == "hold":
            held[name] = recipe
        else:
            held.pop(name, None)
    if held:
        send_events([event_of_recipe(recipe) for recipe in held.values()])


if __name__ == "__main__":
    main(sys.stdin)
