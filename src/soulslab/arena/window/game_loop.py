"""Main loop of the game: input, the ticks that are due, memory, a picture, and waiting for the next tick.

Only whole nanoseconds of game time are added, so that at a speed of 1 every 100 ms contain exactly six ticks, without
drift.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any, Protocol

from soulslab.arena.boss_catalog import find_boss
from soulslab.arena.live_fight import BUTTONS, LiveFight, LiveFightOptions
from soulslab.arena.records import TICKS_PER_S
from soulslab.arena.window.controls import Controls
from soulslab.arena.window.hud import HudOptions
from soulslab.arena.window.key_log import KeyLogWriter, Replay, State
from soulslab.arena.window.panda_window import Window
from soulslab.arena.window.scene import Scene
from soulslab.arena.window.settings import PAD_PREFIX, WindowSettings
from soulslab.errors import WindowError

#: Largest number of ticks without a picture, even if more ticks are due.
MAX_TICKS_UNSEEN = 12
#: The list of keys is shown for this long at the start.
HELP_TICKS = 6 * TICKS_PER_S
#: The last picture of a replay is shown for this long.
REPLAY_END_TICKS = 2 * TICKS_PER_S

_log = logging.getLogger(__name__)
_S_NS = 1_000_000_000
#: After a longer interruption (the process was stopped, the machine slept) the remaining time is dropped.
MAX_BEHIND_NS = _S_NS


class GameMemory(Protocol):
    """The state of the game in memory, in the layout of a profile (`soulslab.arena.window.memory`)."""

    def apply_writes(self, game: LiveFight) -> None:
        """Apply values that other processes wrote to memory."""
        ...

    def publish(self, game: LiveFight) -> None:
        """Write the fight to memory."""
        ...


class Game:
    """The built-in fight in a window, played by a person or from a replay.

    ``is_over`` is set when a replay has ended and its last picture has been shown. Raises `KeyLogError` if the log
    cannot be written.
    """

    def __init__(
        self, settings: WindowSettings, window: Window, fight: LiveFight, replay: Replay | None = None
    ) -> None:
        self.fight = fight
        self.fight.speed = settings.speed
        self.is_paused = False
        self.is_over = False
        self._replay = replay
        self._n_after = 0  # ticks since the end of the replay
        self._log = KeyLogWriter(settings.log, self.fight, str(settings.boss)) if settings.log else None
        self._settings = settings
        self._memory: GameMemory | None = None
        self._window = window
        overlay = HudOptions(keys=settings.keys, has_buttons=settings.shows_buttons)
        self._scene = Scene(window.root, window.camera, self.fight, window.size_px, overlay)
        self._is_help_wanted = False
        self._help_ticks = HELP_TICKS if settings.shows_help else 0
        self._controls = Controls(settings.keys, settings.pad)
        self._pressed: list[str] = []  # since the last tick: a tap may be shorter than a tick
        self._is_stale = False  # whether the last picture is out of date
        self.show()
        self._window.events()  # discard events from before the first picture

    def begin(self, memory: GameMemory) -> None:
        """Publish the fight to a memory; everything else is ready."""
        self._memory = memory
        memory.publish(self.fight)

    def run_once(self, timer: TickTimer) -> None:
        """Run the loop body once: read input and writes, play the ticks that are due, publish and draw the result."""
        self._process_input()
        self._apply_writes()
        n_unseen = 0
        while n_unseen < MAX_TICKS_UNSEEN and (n_due := timer.due(time.perf_counter_ns(), self.speed)):
            for _ in range(n_due):
                self._tick()
            n_unseen += n_due
        if n_unseen or self._is_stale:
            if self._memory is not None:
                self._memory.publish(self.fight)
            self.show()

    @property
    def speed(self) -> float:
        """Present factor of game time."""
        return 0.0 if self.is_paused else self.fight.speed

    def show(self) -> None:
        """Draw the present state of the fight."""
        self._scene.resize(self.fight, self._window.size_px)
        hud = self._scene.hud
        hud.is_help_shown = self.is_paused or self._is_help_wanted or self.fight.n_ticks < self._help_ticks
        hud.notice = "paused" if self.is_paused else ""
        self._scene.show(self.fight)
        self._window.draw()
        self._is_stale = False

    def close(self) -> None:
        """Write the rest of the log."""
        if self._log:
            self._log.close(self.fight)

    def _apply_writes(self) -> None:
        """Apply values that others wrote to memory, and log the result, which the keys do not explain."""
        if self._memory is None:
            return
        if self._log is None:
            self._memory.apply_writes(self.fight)
            return
        before, digest = State.of(self.fight), self.fight.digest()
        self._memory.apply_writes(self.fight)
        if State.of(self.fight) != before:
            self._log.log_write(self.fight, digest)

    def _process_input(self) -> None:
        """Process the input of keys and pads."""
        had_focus = self._window.has_focus
        events = self._window.events()
        if had_focus and not self._window.has_focus:
            self._controls.release_all()
        pads = self._window.pads()
        if not self._window.has_focus:
            # Every program receives the input of pads, so it is used only while the window has the keyboard focus.
            events = [event for event in events if not event.name.startswith(PAD_PREFIX)]
            pads = []
        for command in [*self._controls.process_events(events), *self._controls.process_pads(pads)]:
            self._command(command)

    def _command(self, command: str) -> None:
        """Execute a command of the window, or keep a command of the fight for the next tick."""
        if command == "pause":
            self.is_paused = not self.is_paused
        elif command == "fullscreen":
            self._window.toggle_fullscreen()
        elif command == "screenshot":
            try:
                _log.info("saved %s", self._window.save_screenshot(self._settings.folder))
            except WindowError as error:  # a failed screenshot must not end the fight
                _log.warning("%s", error)
        elif command == "help":
            self._is_help_wanted = not self._scene.hud.is_help_shown
            self._help_ticks = 0
        else:
            self._pressed.append(command)
        self._is_stale = True

    def _tick(self) -> None:
        pressed, self._pressed = self._pressed, []
        if self._replay is None:
            self._play_tick(pressed)
        elif not self._replay.is_over:
            self._replay.tick()
        else:
            self._n_after += 1
            self.is_over = self._n_after >= REPLAY_END_TICKS
        if self._log:
            self._log.tick(self.fight)

    def _play_tick(self, pressed: list[str]) -> None:
        if "lock_on" in pressed:
            self.fight.toggle_lock_on()
        if "restart" in pressed:
            self.fight.restart()
        held = self._controls.held.intersection(BUTTONS)
        self.fight.tick(held, [command for command in pressed if command in BUTTONS])
        self._controls.next_tick()


def new_fight(settings: WindowSettings) -> LiveFight:
    """Return the fight that the settings describe; raises `BossFileError` if its boss file is invalid."""
    boss = find_boss(settings.boss)
    return LiveFight(boss, LiveFightOptions(phase=settings.phase, random_pose=settings.random_pose, seed=settings.seed))


def compile_rules(settings: WindowSettings) -> None:
    """Compile all rules of a fight if they are not compiled yet, which takes seconds.

    It is done before the game can be found: compiling reads the time thousands of times, and a thread that does nothing
    but that counts as waiting for time in lockstep, so steps would end without a tick.
    """
    fight = new_fight(settings)
    fight.tick(("forward",))
    fight.duel.p_falling = 1
    fight.stand_up()


def run(settings: WindowSettings, open_memory: Callable[[LiveFight], GameMemory], replay: Replay | None = None) -> None:
    """Run the game until the window is closed, the replay is over, or the process is asked to end (SIGTERM, Ctrl-C).

    ``open_memory`` is called last, so that a program that waits for the memory finds a game that is ready. Raises
    `DisplayError`, `BossFileError`, and `KeyLogError` if the log cannot be written or the replay differs from it.
    """
    with ExitStack() as undo:
        is_asked_to_end = undo.enter_context(_end_signals())
        fight = replay.fight if replay else new_fight(settings)  # reports an invalid boss before a window opens
        compile_rules(settings)
        window = Window(settings)
        undo.callback(window.close)
        game = Game(settings, window, fight, replay)
        undo.callback(game.close)
        # The memory is not closed here: a reader must find it complete for as long as the process exists.
        game.begin(open_memory(game.fight))
        timer = TickTimer(time.perf_counter_ns())
        while window.is_open and not is_asked_to_end and not game.is_over:
            game.run_once(timer)
            time.sleep(timer.wait_ns(game.speed) * 1e-9)


@contextmanager
def _end_signals() -> Iterator[list[int]]:
    """Collect the signals that ask the process to end in a list, instead of ending at once."""
    asked: list[int] = []

    def ask(number: int, _: FrameType | None) -> None:
        asked.append(number)

    before: dict[int, Any] = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class TickTimer:
    """Counts the ticks that are due."""

    def __init__(self, now_ns: int) -> None:
        self._last_ns = now_ns
        self._left_ns = 0  # game time since the last tick that was due

    def due(self, now_ns: int, speed: float) -> int:
        """Return how many ticks have become due since the last call; ``speed`` is the factor of game time since."""
        passed_ns = min(now_ns - self._last_ns, MAX_BEHIND_NS)
        self._last_ns = now_ns
        self._left_ns += passed_ns if speed == 1.0 else int(passed_ns * speed)
        n_ticks = self._left_ns * TICKS_PER_S // _S_NS
        self._left_ns -= -(-n_ticks * _S_NS // TICKS_PER_S)
        return n_ticks

    def wait_ns(self, speed: float) -> int:
        """Return the time until the next tick is due, at most the duration of a tick at speed 1.

        A paused game also has to check its input regularly, because its speed may change.
        """
        whole = -(-_S_NS // TICKS_PER_S)
        if speed <= 0.0:
            return whole
        wait = (whole - self._left_ns) / speed  # infinite for the smallest positive speeds
        return whole if wait >= whole else max(int(wait) + 1, 0)
