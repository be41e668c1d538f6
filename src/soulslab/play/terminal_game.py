"""Fights in the terminal: ten decisions per second, by a person or a policy, drawn as truecolor half blocks."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import FrameType, TracebackType
from typing import IO, Any, TypeAlias

import cv2
import gymnasium
import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.arena.blow import blow_of
from soulslab.arena.records import DECISION_S, TICKS_PER_S
from soulslab.arena.simulator import Simulator
from soulslab.arena.top_down import ASPECT, draw_duel
from soulslab.arena.vocabulary import ACTIONS, NOTHING
from soulslab.envs.arena import ArenaEnv
from soulslab.errors import EnvironmentUsageError, TerminalError

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


#: Function from observation, action mask and number of decisions in this fight to an action.
Act: TypeAlias = Callable[[Any, NDArray[np.bool_], int], Any]

_WATCHING = "watching a policy   P pause   N single step   Q quit"
_N_TEXT_LINES = 4
#: The image is rendered larger than it is shown, so that details thinner than a character remain visible.
_OVERSAMPLING = 3
_RED, _GREEN, _ORANGE, _DIM = "\x1b[38;2;190;40;40m", "\x1b[38;2;80;160;80m", "\x1b[38;2;230;150;60m", "\x1b[2m"


class Tally(msgspec.Struct):
    """Number of completed fights, and of wins."""

    fights: int = 0
    wins: int = 0


def play_in_terminal(
    env: gymnasium.Env[Any, Any],
    *,
    seed: int | None = None,
    act: Act | None = None,
    describe: Callable[[], str] | None = None,
) -> Tally:
    """Run fights in the terminal of this process until the player quits; return the number of fights and wins.

    ``act`` chooses the actions while the person watches; None uses the keyboard. When watching, P pauses the fight, and
    N takes one decision of a paused fight. ``describe`` returns a line about the last choice of `act`, shown with the
    reward of each decision. The seed of the first fight determines all later fights. Raises `EnvironmentUsageError` if
    the environment is not the arena, and the errors of `Terminal`.
    """
    arena = env.unwrapped
    if not isinstance(arena, ArenaEnv):
        raise EnvironmentUsageError(f"only soulslab/Arena-v0 can be played in the terminal, not {env}")
    tally, footer = Tally(), _WATCHING if act is not None else HELP
    with Terminal() as terminal:
        observation, info = env.reset(seed=seed)
        controls, n_decisions = Controls(), 0
        pause = Pause() if act is not None else None
        total = 0.0
        _show(terminal, arena.simulator, footer)
        while _wait(terminal, controls, DECISION_S, pause):
            mask = info["action_mask"]
            action = act(observation, mask, n_decisions) if act is not None else controls.action(mask, time.monotonic())
            choice = describe() if describe is not None else ""
            observation, reward, terminated, truncated, info = env.step(action)
            n_decisions += info["n_decisions"]
            total += float(reward)
            notes = [choice, f"reward {reward:+.3f}   return {total:+.3f}"] if choice else []
            _show(terminal, arena.simulator, footer, notes)
            if terminated or truncated:
                tally.fights += 1
                tally.wins += bool(info["fight"]["won"])
                if not _wants_another(terminal, arena.simulator):
                    break
                observation, info = env.reset()
                controls, n_decisions, total = Controls(), 0, 0.0
    return tally


class Pause:
    """Pause and single steps of a watched fight."""

    def __init__(self) -> None:
        self.is_on = False

    def press(self, keys: str) -> bool:
        """Process characters from the terminal; return whether to take a single step now."""
        for key in keys.lower():
            if key == "n" and self.is_on:
                return True
            if key in "pn":
                self.is_on = not self.is_on
        return False


def _wait(terminal: Terminal, controls: Controls, duration_s: float, pause: Pause | None = None) -> bool:
    """Process keys until the next decision is due; return False to quit.

    The schedule does not depend on the time needed for drawing. A paused fight only continues for single steps.
    """
    now_s = time.monotonic()
    # Decisions are due at multiples of the interval, so a late one does not delay the others.
    end_s = now_s + duration_s - now_s % duration_s
    while now_s < end_s or (pause is not None and pause.is_on):
        keys = terminal.read_keys(duration_s if pause is not None and pause.is_on else end_s - now_s)
        now_s = time.monotonic()
        if "q" in keys.lower():
            return False
        if pause is not None and pause.press(keys):
            return True
        controls.press(keys, now_s)
    return True


def _wants_another(terminal: Terminal, simulator: Simulator) -> bool:
    _show(terminal, simulator, "R another fight   Q quit")
    while True:
        keys = terminal.read_keys(1.0).lower()
        if "q" in keys or "r" in keys:
            return "q" not in keys


def _show(terminal: Terminal, simulator: Simulator, footer: str, notes: Sequence[str] = ()) -> None:
    """Draw the fight as large as the terminal allows; below it the bars, the notes and the footer."""
    columns, lines = terminal.size()
    height = 2 * max(lines - _N_TEXT_LINES - len(notes), 1)
    width = min(columns, round(height * ASPECT))
    height = min(height, 2 * round(width / ASPECT / 2))
    fight, duel = simulator.fight_of(0), simulator.duels[0]
    drawn = draw_duel(simulator.boss_of(0), fight, duel, height_px=_OVERSAMPLING * height, has_hud=False)
    picture = np.asarray(cv2.resize(drawn, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
    *status, last = _status(simulator, width, footer)
    terminal.show(picture, [*status, *(line[:width] for line in notes), last])


def _status(simulator: Simulator, width: int, footer: str) -> list[str]:
    fight, d, boss = simulator.fight_of(0), simulator.duels[0], simulator.boss_of(0)
    blow = blow_of(d, fight)
    doing = f"{blow.stage}: {boss.moves[d.b_move].id.replace('_', ' ')}" if blow is not None else ""
    if d.over:
        doing = "VICTORY" if d.won else "TIME IS UP" if d.truncated else "YOU DIED"
    third = width // 3
    seconds = d.tick / TICKS_PER_S
    vitals = f"{_bar(d.p_hp / fight.p_max_hp, third, _RED)} {_bar(d.p_sp / fight.p_max_sp, third, _GREEN)}"
    return [
        _bar(d.b_hp / fight.b_max_hp, width - 2, _ORANGE if d.phase == 2 else _RED),
        f"{boss.name}, phase {d.phase}   {doing}",
        f"{vitals} {seconds:.1f} s",
        f"{_DIM}{footer[:width]}",
    ]


def _bar(share: float, width: int, colour: str) -> str:
    """Return a bar of full and empty blocks."""
    n = round(width * min(max(share, 0.0), 1.0))
    return f"{colour}{'█' * n}{_DIM}{'░' * (width - n)}\x1b[0m"
