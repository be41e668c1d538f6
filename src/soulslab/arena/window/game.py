"""The game's loop: keys, the ticks that are due, memory, a picture, and waiting for the next tick."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any, Protocol

from soulslab.arena.boss_file import load_boss
from soulslab.arena.knight import load_knight
from soulslab.arena.live_fight import BUTTONS, LiveFight, LiveFightOptions
from soulslab.arena.window.controls import Controls
from soulslab.arena.window.scene import Scene
from soulslab.arena.window.settings import WindowSettings
from soulslab.arena.window.ticks import TickTimer
from soulslab.arena.window.window import Window
from soulslab.errors import WindowError

#: A picture is drawn at the latest after so many ticks, also where more are due.
MAX_TICKS_UNSEEN = 12

_log = logging.getLogger(__name__)


class GameMemory(Protocol):
    """The game's state in its memory, as a profile says (`soulslab.arena.window.memory`)."""

    def take_writes(self, game: LiveFight) -> None:
        """Bring what somebody wrote into the fight."""
        ...

    def publish(self, game: LiveFight) -> None:
        """Bring the fight into memory."""
        ...


class NoMemory:
    """A game whose state is laid out nowhere."""

    def take_writes(self, game: LiveFight) -> None:
        """Do nothing."""

    def publish(self, game: LiveFight) -> None:
        """Do nothing."""


class Game:
    """The built-in fight in a window, played by whoever sits before it.

    Args:
        settings: What is fought and how it is shown.
        memory: Where the fight's state is kept for others.
        window: Where it is shown.

    Attributes:
        fight: The fight.
        is_paused: Whether somebody paused it.
    """

    def __init__(self, settings: WindowSettings, memory: GameMemory, window: Window) -> None:
        self.fight = new_fight(settings)
        self.is_paused = False
        self._settings = settings
        self._memory = memory
        self._window = window
        self._scene = Scene(window.root, window.camera, self.fight, settings.size_px)
        self._controls = Controls(settings.keys)
        self._pressed: list[str] = []  # since the last tick: a tap may be shorter than one
        self._is_stale = True  # what is seen is no longer what is

    def turn(self, timer: TickTimer) -> None:
        """Go round the loop once: take in keys and writes, play the ticks that are due, show what came of them."""
        self._listen()
        self._memory.take_writes(self.fight)
        n_unseen = 0
        while n_unseen < MAX_TICKS_UNSEEN and (n_due := timer.due(time.monotonic_ns(), self.speed)):
            for _ in range(n_due):
                self._tick()
            n_unseen += n_due
        if n_unseen or self._is_stale:
            self._memory.publish(self.fight)
            self._scene.show(self.fight)
            self._window.draw()
            self._is_stale = False

    @property
    def speed(self) -> float:
        """Factor of game time now."""
        return 0.0 if self.is_paused else self.fight.speed

    def _listen(self) -> None:
        """Take in what keys and pads did."""
        had_focus = self._window.has_focus
        events = self._window.events()
        if had_focus and not self._window.has_focus:
            self._controls.let_go()
        for command in self._controls.take(events):
            self._command(command)
        self._controls.move_sticks(self._window.sticks())

    def _command(self, command: str) -> None:
        """Do what a key asks for, or keep it for the next tick."""
        if command == "pause":
            self.is_paused = not self.is_paused
        elif command == "fullscreen":
            self._window.toggle_fullscreen()
        elif command == "screenshot":
            self._save_screenshot()
        elif command != "help":
            self._pressed.append(command)
        self._is_stale = True

    def _tick(self) -> None:
        pressed, self._pressed = self._pressed, []
        if "lock_on" in pressed:
            self.fight.toggle_lock_on()
        if "restart" in pressed:
            self.fight.restart()
        self.fight.tick(
            self._controls.held.intersection(BUTTONS), [command for command in pressed if command in BUTTONS]
        )
        self._controls.next_tick()

    def _save_screenshot(self) -> None:
        try:
            _log.info("saved %s", self._window.save_screenshot(self._settings.folder))
        except WindowError as error:  # no reason to lose the fight
            _log.warning("%s", error)


def new_fight(settings: WindowSettings) -> LiveFight:
    """Return the fight that settings ask for.

    Raises:
        BossFileError: The boss file cannot be read, or something in it is wrong.
    """
    boss = load_boss(settings.boss, list(load_knight().knock_backs))
    return LiveFight(boss, LiveFightOptions(phase=settings.phase, random_pose=settings.random_pose, seed=settings.seed))


def run(settings: WindowSettings, memory: GameMemory) -> None:
    """Play until the window is closed, or the process is asked to end (SIGTERM, Ctrl-C).

    Raises:
        DisplayError: There is no display.
        BossFileError: The boss file cannot be read, or something in it is wrong.
    """
    with ExitStack() as undo:
        is_asked_to_end = undo.enter_context(_end_signals())
        window = Window(settings)
        undo.callback(window.close)
        game = Game(settings, memory, window)
        timer = TickTimer(time.monotonic_ns())
        while window.is_open and not is_asked_to_end:
            game.turn(timer)
            time.sleep(timer.wait_ns(game.speed) * 1e-9)


@contextmanager
def _end_signals() -> Iterator[list[int]]:
    """Let the signals that ask a process to end fill a list, instead of ending it at once."""
    asked: list[int] = []

    def ask(number: int, _: FrameType | None) -> None:
        asked.append(number)

    before: dict[int, Any] = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
