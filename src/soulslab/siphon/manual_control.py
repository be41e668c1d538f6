"""Keys, mouse and frames of a running game by hand: single actions, and a shell that keeps keys down between lines."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from soulslab.closing import Closing
from soulslab.errors import ConfigError, SoulslabError, did_you_mean
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.command_words import split_words
from soulslab.siphon.keys import key_named
from soulslab.siphon.session import Session
from soulslab.siphon.terminal_output import format_value, info_table, parse_values, save_frame

#: A game that polls its keys once per frame would miss a shorter tap.
TAP_S: Final = 0.1
#: Time between two parts of a mouse movement.
MOVE_STEP_S: Final = 0.01
PROMPT: Final = "> "
#: Wall time that a paused game may take in addition to the requested time.
SLACK_S: Final = 20.0


class StreamResult(msgspec.Struct, frozen=True):
    """Result of `ManualControl.stream`: number of frames, wall time (s), and width and height (px)."""

    n_frames: int
    seconds: float
    size_px: tuple[int, int]


class ManualControl(Closing):
    """Sends keys and mouse movements to a game; leaving the context releases every key.

    Times are game time. While the game runs they pass with it; while its clock is paused, the clock is advanced.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self._down: dict[str, None] = {}

    def close(self) -> None:
        """Release every key; a second call does nothing."""
        if self._down:
            self._down.clear()
            self._send()

    @property
    def down(self) -> tuple[str, ...]:
        """Names of the held keys, in the order in which they were pressed."""
        return tuple(self._down)

    def tap(self, keys: Sequence[str], *, hold_s: float = TAP_S, delay_s: float = 0.0) -> None:
        """Press keys in their order, hold all of them, and release them in the same order.

        The keys are names of keys and mouse buttons, in capitals or not, or of actions in the profile's ``[keys]``. The
        delay is between two presses and between two releases. Raises `UnknownKeyError` before anything is sent, and
        `InputError`.
        """
        names = self._names(keys)
        before = dict(self._down)
        try:
            for i, name in enumerate(names):
                self.wait(delay_s if i else 0.0)
                self._down[name] = None
                self._send()
            self.wait(hold_s)
            for i, name in enumerate(names):
                self.wait(delay_s if i else 0.0)
                self._down.pop(name)
                self._send()
        finally:
            if self._down != before:  # interrupted, or a key was held already
                self._down = before
                self._send()

    def toggle(self, keys: Sequence[str]) -> None:
        """Press the released keys and release the held ones. Raises as `tap`."""
        for name in self._names(keys):
            if name in self._down:
                del self._down[name]
            else:
                self._down[name] = None
        self._send()

    def move(self, dx_px: int, dy_px: int, *, n_steps: int = 1) -> None:
        """Move the mouse relative to its position, in `n_steps` equal parts 10 ms apart. Raises as `tap`."""
        x = y = 0
        for i in range(1, n_steps + 1):
            self.wait(MOVE_STEP_S if i > 1 else 0.0)
            to_x, to_y = round(dx_px * i / n_steps), round(dy_px * i / n_steps)
            self.session.input.move_mouse(to_x - x, to_y - y)
            x, y = to_x, to_y

    def stream(
        self, folder: Path | None, frame: FrameFormat, *, rate_hz: float, n_frames: int | None = None
    ) -> StreamResult:
        """Capture frames at a rate, and write each as a numbered PNG file (``000001.png``), until Ctrl-C.

        Without a folder, frames are captured and counted. Raises `ConfigError` if a file cannot be written, and
        `WindowGoneError`.
        """
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ConfigError(f"cannot be made: {error.strerror or error}", source=folder) from error
        started_s = time.perf_counter()
        n, size_px = 0, (0, 0)
        try:
            while n_frames is None or n < n_frames:
                taken = self.session.capture(frame)
                n += 1
                size_px = (taken.pixels.shape[1], taken.pixels.shape[0])
                if folder is not None:
                    save_frame(taken, folder / f"{n:06d}.png")
                time.sleep(max(started_s + n / rate_hz - time.perf_counter(), 0.0))
        except KeyboardInterrupt:
            pass  # the documented way to end it
        return StreamResult(n, time.perf_counter() - started_s, size_px)

    def wait(self, seconds: float) -> None:
        """Wait for game time to pass (s), at least 0."""
        if seconds <= 0.0:
            return
        speed = self.session.clock.speed
        if speed > 0.0:
            time.sleep(seconds / speed)
        else:
            self.session.clock.advance(seconds, deadline_s=seconds + SLACK_S)

    def _send(self) -> None:
        self.session.input.set_held(tuple(self._down))

    def _names(self, keys: Sequence[str]) -> list[str]:
        """Return the names of the keys without duplicates; actions of ``[keys]`` are replaced by their keys."""
        if not keys:
            raise ConfigError("is missing: name at least one key, such as W or SPACE", source="keys")
        actions = self.session.profile.keys
        return list(dict.fromkeys(key_named(actions.get(name, name.upper())).name for name in keys))


# --- the shell ----------------------------------------------------------------------------------------------


class Shell:
    """Commands on a running game, read line by line."""

    def __init__(self, control: ManualControl, console: Console) -> None:
        self.control = control
        self._console = console

    def run(self, lines: Iterable[str], *, is_interactive: bool) -> None:
        """Execute lines until the input ends or a line is ``quit``.

        In an interactive shell an error is printed and the next line is read; otherwise the first error is raised.
        """
        for number, line in enumerate(lines, 1):
            text = line.strip()
            if text in ("quit", "exit", "q"):
                return
            try:
                if text and not text.startswith("#"):
                    self.do(text)
            except SoulslabError as error:
                if not is_interactive:
                    error.add_note(f"This was line {number}: {text}")
                    raise
                self._console.print(Text(str(error), style="red"))

    def do(self, line: str) -> None:
        """Execute one line. Raises `ConfigError` for a wrong line, and the errors of the command."""
        name, *words = split_words(line) or [""]
        if name not in COMMANDS:
            raise ConfigError(f"unknown command{did_you_mean(name, COMMANDS)}", source=name)
        usage, _, least, do = COMMANDS[name]
        if len(words) < least:
            raise ConfigError(f"needs more arguments: {usage}", source=line)
        do(self, words)

    def say(self, text: str) -> None:
        """Print a line."""
        self._console.print(Text(text))

    def help(self) -> None:
        """Print the commands."""
        table = Table(box=None, show_header=False, pad_edge=False)
        for usage, what, _, _ in COMMANDS.values():
            table.add_row(Text(usage), what)
        self._console.print(table)

    def info(self) -> None:
        """Print the facts about the session."""
        self._console.print(info_table(self.control.session.info))


def _get(shell: Shell, words: list[str]) -> None:
    for name, value in shell.control.session.snapshot(tuple(words) or None).items():
        shell.say(f"{name} = {format_value(value)}")


def _set(shell: Shell, words: list[str]) -> None:
    session = shell.control.session
    session.write(parse_values(session.profile, {words[0]: " ".join(words[1:])}))


def _move(shell: Shell, words: list[str]) -> None:
    dx, dy, *steps = (round(_number(word)) for word in words[:3])
    shell.control.move(dx, dy, n_steps=max(steps[0] if steps else 1, 1))


def _toggle(shell: Shell, words: list[str]) -> None:
    shell.control.toggle(words)
    shell.say(f"down: {' '.join(shell.control.down) or '(none)'}")


def _capture(shell: Shell, words: list[str]) -> None:
    save_frame(shell.control.session.capture(), Path(words[0]))


def _run(shell: Shell, words: list[str]) -> None:
    shell.control.session.clock.run(_number(words[0]) if words else 1.0)


#: Usage, help, minimum number of arguments, and function of each command.
COMMANDS: Final[dict[str, tuple[str, str, int, Callable[[Shell, list[str]], object]]]] = {
    "get": ("get [NAME ...]", "print attributes; all without names", 0, _get),
    "set": ("set NAME VALUE", "write an attribute", 2, _set),
    "tap": ("tap KEY ...", "press keys together and release them", 1, lambda shell, keys: shell.control.tap(keys)),
    "hold": (
        "hold KEY ... SECONDS",
        "hold keys for so much game time",
        2,
        lambda shell, words: shell.control.tap(words[:-1], hold_s=_number(words[-1])),
    ),
    "toggle": ("toggle KEY ...", "press released keys and release held ones", 1, _toggle),
    "move": ("move DX DY [STEPS]", "move the mouse by so many pixels", 2, _move),
    "capture": ("capture FILE", "write the window as a picture", 1, _capture),
    "wait": ("wait SECONDS", "let game time pass", 1, lambda shell, words: shell.control.wait(_number(words[0]))),
    "pause": ("pause", "pause the game", 0, lambda shell, _: shell.control.session.clock.pause()),
    "run": ("run [SPEED]", "let the game run on", 0, _run),
    "info": ("info", "print process, clock and window", 0, lambda shell, _: shell.info()),
    "help": ("help", "print this list; quit ends the shell", 0, lambda shell, _: shell.help()),
}


def _number(word: str) -> float:
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ConfigError("is not a number", source=word)
    return number
