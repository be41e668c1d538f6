"""A window that shows a simulator's fight tick by tick, at game speed."""

from __future__ import annotations

import time

from soulslab.arena.boss_file import Boss
from soulslab.arena.duel_rules import replay_ticks
from soulslab.arena.live_fight import LiveFight, LiveFightOptions, Stage
from soulslab.arena.records import TICKS_PER_S, Record, Table
from soulslab.arena.vocabulary import NOTHING
from soulslab.arena.window.hud import HudOptions
from soulslab.arena.window.panda_window import Window
from soulslab.arena.window.scene import Scene
from soulslab.arena.window.settings import WindowSettings
from soulslab.errors import WindowGoneError

TICK_S = 1.0 / TICKS_PER_S


class FightWindow:
    """A window that shows a simulator's fights against one boss; raises `DisplayError` if there is no display."""

    def __init__(self, boss: Boss, phase: str) -> None:
        self.boss = boss
        settings = WindowSettings()
        self._fight = LiveFight(boss, LiveFightOptions(phase=phase))
        self._window = Window(settings)
        overlay = HudOptions(keys=settings.keys, has_buttons=True)
        self._scene = Scene(self._window.root, self._window.camera, self._fight, self._window.size_px, overlay)
        self._scene.hud.is_help_shown = False
        self._next_at_s = time.perf_counter()

    @property
    def is_open(self) -> bool:
        """Whether the window has not been closed."""
        return self._window.is_open

    def begin(self, duel: Record) -> None:
        """Show the first moment of a fight."""
        self._fight.n_fights += 1
        self._fight.show_moment(duel, NOTHING, "fighting")
        self._next_at_s = time.perf_counter()
        self._draw()

    def play(self, before: Table, fight: Record, after: Record, action: int) -> None:
        """Show a step tick by tick; late ticks are not drawn, except for the last one.

        ``before`` (1,) is a copy of the duel from before the step; it is advanced in place. A window that was closed
        raises `WindowGoneError`.
        """
        n_ticks = int(after.tick - before[0].tick)
        for duel in replay_ticks(before, fight, action, n_ticks - 1):
            self._fight.show_moment(duel, action, "fighting")
            self._next_at_s += TICK_S
            if self._next_at_s > time.perf_counter():
                self._draw()
                self._wait()
        stage: Stage = "fighting" if not after.over or after.truncated else "won" if after.won else "lost"
        self._fight.show_moment(after, action, stage)
        self._next_at_s = max(self._next_at_s + TICK_S, time.perf_counter())
        self._draw()
        self._wait()

    def close(self) -> None:
        """Close the window; a second call does nothing."""
        self._window.close()

    def _draw(self) -> None:
        self._window.events()
        if not self._window.is_open:
            raise WindowGoneError("the window was closed; reset() opens a new one")
        self._scene.resize(self._fight, self._window.size_px)
        self._scene.show(self._fight)
        self._window.draw()

    def _wait(self) -> None:
        time.sleep(max(self._next_at_s - time.perf_counter(), 0.0))
