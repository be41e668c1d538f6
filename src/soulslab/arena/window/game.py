"""The game's loop: keys, the ticks that are due, memory, a picture, and waiting for the next tick."""

from __future__ import annotations

import time
from typing import Protocol

from soulslab.arena.boss_file import load_boss
from soulslab.arena.knight import load_knight
from soulslab.arena.live_fight import BUTTONS, LiveFight, LiveFightOptions
from soulslab.arena.window.controls import Controls
from soulslab.arena.window.scene import Scene
from soulslab.arena.window.settings import WindowSettings
from soulslab.arena.window.ticks import TickTimer
from soulslab.arena.window.window import Window

#: A picture is drawn at the latest after so many ticks, also where more are due.
MAX_TICKS_UNSEEN = 12


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


def run(settings: WindowSettings, memory: GameMemory) -> None:
    """Play until the window is closed."""
    boss = load_boss(settings.boss, list(load_knight().knock_backs))
    game = LiveFight(boss, LiveFightOptions(phase=settings.phase, random_pose=settings.random_pose, seed=settings.seed))
    window = Window(settings)
    scene = Scene(window.root, window.camera, game)
    controls = Controls(settings.keys)
    memory.publish(game)
    window.draw()
    timer = TickTimer(time.monotonic_ns())
    waiting: list[str] = []  # pressed since the last tick: a tap may be shorter than one
    while window.is_open:
        waiting += controls.take(window.events())
        memory.take_writes(game)
        n_unseen = 0
        while n_unseen < MAX_TICKS_UNSEEN and (n_due := timer.due(time.monotonic_ns(), game.speed)):
            for _ in range(n_due):
                _tick(game, controls, waiting)
                waiting = []
            n_unseen += n_due
        if n_unseen:
            memory.publish(game)
            scene.show(game)
            window.draw()
        time.sleep(timer.wait_ns(game.speed) * 1e-9)
    window.close()


def _tick(game: LiveFight, controls: Controls, pressed: list[str]) -> None:
    if "restart" in pressed:
        game.restart()
    buttons = [command for command in pressed if command in BUTTONS]
    game.tick(controls.held.intersection(BUTTONS), buttons)
