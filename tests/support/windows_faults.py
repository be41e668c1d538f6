"""Faults of games on Windows, by the process id of the game, and the keys that are down."""

from __future__ import annotations

import ctypes
from ctypes import wintypes

import psutil

from soulslab.siphon.process.windows_window import find_window
from soulslab.siphon.win32 import function

SW_MINIMIZE = 6
#: Virtual keys, without the mouse buttons 1 to 6.
KEYS = range(7, 255)


def kill(pid: int) -> None:
    psutil.Process(pid).kill()


def freeze(pid: int) -> None:
    psutil.Process(pid).suspend()


def close(pid: int) -> None:
    find_window(pid).ask_to_close()


def minimise(pid: int) -> None:
    show = function("user32", "ShowWindow", wintypes.BOOL, wintypes.HWND, ctypes.c_int)
    show(find_window(pid).id, SW_MINIMIZE)


#: Each fault with its cause and its possible errors; after each of them the game has to be started again.
FAULTS = {
    "killed": (kill, ("ProcessExitedError",)),
    "frozen": (freeze, ("ClockStalledError",)),
    "window closed": (close, ("ProcessExitedError", "WindowGoneError")),
    "minimised": (minimise, ("WindowGoneError",)),
}


def keys_down() -> list[int]:
    """Return the virtual keys that are down."""
    state = function("user32", "GetAsyncKeyState", ctypes.c_short, ctypes.c_int)
    return [key for key in KEYS if state(key) < 0]
