"""Terminal as screen and keyboard: truecolor half blocks, and key input without Enter."""

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

    The terminal is also restored after exceptions, Ctrl-C and SIGTERM; SIGTERM raises `SystemExit`.

    Args:
        keyboard: Source of key input; standard input by default.
        screen: Target of the images; standard output by default.

    Raises:
        TerminalError: On entry: keyboard or screen is not a terminal, or the terminal is too small.
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

        Raises:
            TerminalError: The terminal was closed.
        """
        return _read_keys(self._keyboard, timeout_s)

    def show(self, picture: NDArray[np.uint8], lines: Sequence[str]) -> None:
        """Show an image, centred, and lines of text below it.

        Args:
            picture: Image, uint8 (2 * rows, columns, 3): two pixels for each character, one above the other.
            lines: Text, which may contain colour codes.
        """
        start = "\x1b[H"
        if self.size() != self._size:
            self._size = self.size()
            start = "\x1b[2J\x1b[H"
        indent = " " * ((self._size[0] - picture.shape[1]) // 2)
        rows = [f"{indent}{row}\x1b[0m\x1b[K" for row in half_blocks(picture)]
        rows += [f"{indent}{line}\x1b[0m\x1b[K" for line in lines]
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
