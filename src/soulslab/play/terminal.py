"""Terminal as screen and keyboard: truecolor half blocks, and conversion of keys to actions without Enter."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from types import FrameType, TracebackType
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from soulslab.arena.vocabulary import ACTIONS, NOTHING
from soulslab.errors import TerminalError

MIN_COLUMNS, MIN_LINES = 48, 16
#: Character whose upper half has the foreground colour and whose lower half has the background colour.
_HALF_BLOCK = "\u2580"
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[2J"
_LEAVE = "\x1b[0m\x1b[?25h\x1b[?1049l"
#: Colours are rounded, because most of the data sent for a frame are colour changes.
_COLOUR_STEP = 0xF8
_KEYS_AT_ONCE = 1024


class Terminal:
    """Context that prepares the terminal of this process for a game, and restores it on exit.

    The terminal is also restored after exceptions, Ctrl-C and SIGTERM; SIGTERM raises `SystemExit`. On entry,
    `TerminalError` is raised if keyboard or screen (by default standard input and output) is not a terminal, or is too
    small.
    """

    def __init__(self, keyboard: IO[str] | None = None, screen: IO[str] | None = None) -> None:
        self._keyboard = keyboard or sys.stdin
        self._screen = screen or sys.stdout
        self._size = (0, 0)
        self._undo = ExitStack()

    def __enter__(self) -> Terminal:
        if not (self._keyboard.isatty() and self._screen.isatty()):
            raise TerminalError("play needs a terminal: run it by hand, without pipes or redirection")
        columns, lines = self.size()
        if columns < MIN_COLUMNS or lines < MIN_LINES:
            raise TerminalError(
                f"the terminal has {columns} x {lines} characters, but play needs {MIN_COLUMNS} x {MIN_LINES}; "
                f"enlarge the window or choose a smaller font"
            )
        with ExitStack() as undo:
            if threading.current_thread() is threading.main_thread():
                old_handler = signal.signal(signal.SIGTERM, _terminate)
                undo.callback(signal.signal, signal.SIGTERM, old_handler or signal.SIG_DFL)
            undo.callback(_restore_key_mode, self._keyboard, _set_key_mode(self._keyboard))
            undo.callback(self._write, _LEAVE)
            self._write(_ENTER)
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()

    def _write(self, text: str) -> None:
        self._screen.write(text)
        self._screen.flush()

    def size(self) -> tuple[int, int]:
        """Return columns and lines."""
        return os.get_terminal_size(self._screen.fileno())

    def read_keys(self, timeout_s: float) -> str:
        """Return the typed characters, immediately if there are any; "" if none came before the timeout.

        Raises `TerminalError` if the terminal was closed.
        """
        return _read_keys(self._keyboard, timeout_s)

    def show(self, picture: NDArray[np.uint8], lines: Sequence[str]) -> None:
        """Show an image, uint8 (2 * rows, columns, 3), and below it lines of text, which may contain colour codes."""
        start = "\x1b[H"
        if self.size() != self._size:
            self._size = self.size()
            start = "\x1b[2J\x1b[H"
        indent = " " * ((self._size[0] - picture.shape[1]) // 2)
        rows = [f"{indent}{row}\x1b[0m\x1b[K" for row in (*half_blocks(picture), *lines)]
        self._write(start + "\r\n".join(rows))


def half_blocks(picture: NDArray[np.uint8]) -> list[str]:
    """Return an image, (2 * rows, columns, 3), as rows of coloured half blocks."""
    colours = (picture & _COLOUR_STEP).tolist()
    rows = []
    for upper, lower in zip(colours[::2], colours[1::2], strict=True):
        parts, last = [], (None, None)
        for top, bottom in zip(upper, lower, strict=True):
            if top != last[0]:
                parts.append("\x1b[38;2;{};{};{}m".format(*top))
            if bottom != last[1]:
                parts.append("\x1b[48;2;{};{};{}m".format(*bottom))
            parts.append(_HALF_BLOCK)
            last = (top, bottom)
        rows.append("".join(parts))
    return rows


def _terminate(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 (the signature of a handler)
    # The exception leaves every `with` block, so the terminal is restored.
    raise SystemExit(128 + number)


if sys.platform == "win32":
    import ctypes
    import msvcrt

    _STDOUT, _ESCAPE_CODES = -11, 0x0007

    def _set_key_mode(keyboard: IO[str]) -> Any:  # noqa: ARG001 (as the one below)
        """Enable escape codes in the console; it already delivers single keys."""
        console = ctypes.windll.kernel32
        console.SetConsoleMode(console.GetStdHandle(_STDOUT), _ESCAPE_CODES)

    def _restore_key_mode(keyboard: IO[str], saved: Any) -> None:
        """Do nothing: the key mode was not changed."""

    def _read_keys(keyboard: IO[str], timeout_s: float) -> str:  # noqa: ARG001 (as the one below)
        end_s = time.monotonic() + timeout_s
        while not msvcrt.kbhit() and time.monotonic() < end_s:
            time.sleep(0.005)
        keys = ""
        while msvcrt.kbhit():
            keys += msvcrt.getwch()
        return keys

else:
    import termios
    import tty

    def _set_key_mode(keyboard: IO[str]) -> Any:
        """Switch to single keys without echo; return the previous mode. Ctrl-C still interrupts."""
        saved = termios.tcgetattr(keyboard)
        tty.setcbreak(keyboard)
        return saved

    def _restore_key_mode(keyboard: IO[str], saved: Any) -> None:
        # Keys typed during the game must not reach the shell.
        termios.tcsetattr(keyboard, termios.TCSAFLUSH, saved)

    def _read_keys(keyboard: IO[str], timeout_s: float) -> str:
        if not select.select([keyboard], [], [], max(timeout_s, 0.0))[0]:
            return ""
        keys = os.read(keyboard.fileno(), _KEYS_AT_ONCE)
        if not keys:
            raise TerminalError("the terminal was closed")
        return keys.decode("utf-8", "ignore")


#: Time for which a direction counts as held after its last key event.
HOLD_S = 0.15
#: Time for which a roll or attack that is not yet possible is kept.
BUFFER_S = 0.4

HELP = "W A S D move   SPACE + direction roll   J attack   K heavy attack   L parry   Q quit"

#: Key codes of the arrow keys in terminals and in the Windows console.
_ARROWS = {"\x1b[A": "w", "\x1b[B": "s", "\x1b[C": "d", "\x1b[D": "a"}
_ARROWS |= {"\xe0H": "w", "\xe0P": "s", "\xe0M": "d", "\xe0K": "a"}
_DIRECTIONS = {"w": "forward", "s": "backward", "a": "left", "d": "right"}
_OPPOSITE = {"forward": "backward", "backward": "forward", "left": "right", "right": "left"}
_BUTTONS = {" ": "roll", "j": "light_attack", "k": "heavy_attack", "l": "parry"}
_NUMBER = {frozenset(keys): number for number, keys in enumerate(ACTIONS)}


class Controls:
    """State of the keys: held directions, and the last button."""

    def __init__(self) -> None:
        self._held: dict[str, float] = {}
        self._button = ""
        self._pressed_s = 0.0

    def press(self, keys: str, now_s: float) -> None:
        """Process characters from the terminal; unknown ones are ignored."""
        for arrow, letter in _ARROWS.items():
            keys = keys.replace(arrow, letter)
        for key in keys.lower():
            if key in _DIRECTIONS:
                direction = _DIRECTIONS[key]
                self._held[direction] = now_s
                self._held.pop(_OPPOSITE[direction], None)
            elif key in _BUTTONS:
                self._button, self._pressed_s = _BUTTONS[key], now_s

    def action(self, mask: NDArray[np.bool_], now_s: float) -> int:
        """Return the action for a decision, and clear the button if it was used.

        ``mask`` (A,) has the allowed actions; ``now_s`` is from the same clock as in `press`.
        """
        directions = frozenset(name for name, seen_s in self._held.items() if now_s - seen_s <= HOLD_S)
        if self._button and now_s - self._pressed_s <= BUFFER_S:
            # A roll without a direction goes backwards, away from the boss.
            keys = {self._button} | ((directions or {"backward"}) if self._button == "roll" else frozenset())
            action = _NUMBER[frozenset(keys)]
            if mask[action]:
                self._button = ""
                return action
        move = _NUMBER[directions]
        return move if mask[move] else NOTHING
