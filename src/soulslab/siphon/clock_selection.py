"""Selection of the clock of a real game: the best available grade, verified on the running game.

A program may take its time from a source that the clock library does not cover. Therefore, before a session reports
``lockstep``, the game must stand for some wall time while game time is held, and must make the expected ticks in a few
steps.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from soulslab.errors import ClockError, ClockStalledError, ClockUnavailableError
from soulslab.siphon.attributes.attribute_table import AttributeTable
from soulslab.siphon.capture import NATIVE, Capture
from soulslab.siphon.clock import Clock
from soulslab.siphon.clock.frame_rate import FrameRate
from soulslab.siphon.clock.lockstep import DEFAULT_STEP_S, LockstepClock, attach_lockstep
from soulslab.siphon.clock.lockstep_page import LockstepPage
from soulslab.siphon.clock.realtime import RealtimeClock
from soulslab.siphon.clock.scaled import ScaledClock
from soulslab.siphon.profile import Profile
from soulslab.siphon.session import LOADING, SessionOptions

#: Wall time for which the game must stand.
STAND_S = 0.1
POLL_S = 0.01
#: Wall time within which the picture of the last tick must have reached the display, and the last messages the game.
SHOW_S = 1.0
#: Wall time for which a game must not read the time after it did so while time stood. A message, such as one to draw
#: the window or of a moved mouse, wakes a thread once; a thread that is not held goes on.
CALM_S = 0.5
#: Consecutive steps of one tick that must make as many ticks, plus or minus one: a step may begin at the edge of a
#: tick.
#: A starting game loads for some ticks and catches up later, so these steps may come late.
N_STEPS = 4
SLACK_TICKS = 1
MAX_STEPS = 100
#: Steps after which a tick count that does not grow is ignored, as in a menu.
N_SILENT = 3
#: Longest wait until the game stands. A loading game computes for long without reading the time.
REST_S = 10.0
#: Name of the pixels of the window in an observation.
PICTURE = "the picture"
Observation: TypeAlias = Mapping[str, object]
"""Attributes of a standing game by name, and the pixels of its window."""


def find_lockstep_fault(
    clock: LockstepClock, observe: Callable[[], Observation], tick_s: float, tick_attribute: str = ""
) -> str:
    """Return why a lockstep clock does not hold its game; "" if it does. The game is held afterwards.

    `tick_s` is the game time of a step; 0 for no steps, if the game's time must not change. `tick_attribute` is the
    observed attribute with the tick count, if any.
    """
    try:
        clock.pause(deadline_s=REST_S)
        fault = _find_motion(clock, observe) or _find_unheld_thread(clock)
        return fault or (_find_wrong_ticks(clock, observe, tick_s, tick_attribute) if tick_s else "")
    except ClockStalledError as error:
        return str(error)


def _find_motion(clock: LockstepClock, observe: Callable[[], Observation]) -> str:
    before, n_before = observe(), clock.n_time_reads
    start_s = time.monotonic()
    end_s = start_s + STAND_S
    while (now_s := time.monotonic()) < end_s:
        time.sleep(POLL_S)
        now, n_now = observe(), clock.n_time_reads
        changed = [name for name, value in now.items() if value != before.get(name)]
        is_late = now_s >= start_s + SHOW_S
        if changed and (is_late or changed != [PICTURE]):
            return f"while time stands, {', '.join(changed)} changed: the game has a source of time that is not held"
        if n_now != n_before and is_late:
            return (
                "while time stands, the game goes on and reads the time: a thread of it is not held, or input keeps "
                "waking it"
            )
        if changed:
            before, end_s = now, max(end_s, now_s + STAND_S)
        if n_now != n_before:
            n_before, end_s = n_now, max(end_s, now_s + CALM_S)
    return ""


def _find_unheld_thread(clock: LockstepClock) -> str:
    """Return a description of the threads that run, and what they wait in."""
    found = clock.find_unheld_threads()
    if not found:
        return ""
    # A thread that was just woken by the X server runs once.
    tids = {thread.tid for thread in clock.find_unheld_threads()}
    names = [f"{thread.reason} in thread {thread.name!r}" for thread in found if thread.tid in tids]
    return f"while time stands, threads go on that the clock library does not hold: {', '.join(names)}" if names else ""


def _find_wrong_ticks(
    clock: LockstepClock, observe: Callable[[], Observation], tick_s: float, tick_attribute: str
) -> str:
    """Return how the ticks differ from those expected of steps of one tick."""
    growth: list[int] = []
    last = observe().get(tick_attribute)
    while len(growth) < MAX_STEPS:
        clock.advance(tick_s, deadline_s=REST_S)
        now = observe().get(tick_attribute)
        growth.append(now - last if isinstance(now, int) and isinstance(last, int) else 0)
        last = now
        if len(growth) == N_SILENT and not any(growth):
            return ""
        if len(growth) >= N_STEPS and abs(sum(growth[-N_STEPS:]) - N_STEPS) <= SLACK_TICKS:
            return ""
    return f"in {MAX_STEPS} steps of one tick {tick_attribute} grew by {sum(growth)}, and never evenly"


_log = logging.getLogger(__name__)


class ClockSelection:
    """Selects the clock of one game; `reason` states why the grade is lower than the profile's, "" if it is not."""

    def __init__(self, profile: Profile, options: SessionOptions, pid: int, servers: Sequence[int] | None) -> None:
        self.reason = ""
        self._profile = profile
        self._options = options
        self._pid = pid
        self._servers = servers

    def open(
        self, attributes: AttributeTable, capture: Capture | None, page: LockstepPage | None, *, is_started: bool
    ) -> Clock:
        """Open the requested clock, or the best available one.

        Without a window the capture is None. A page is that of a game with the clock library, which the session started
        if `is_started`. Raises `ClockUnavailableError` if the requested grade is not available.
        """
        if (self._options.clock or self._profile.clock.grade) == "lockstep":
            clock = self._open_lockstep(page)
            if clock is not None and self._is_proven(clock, attributes, capture, is_started=is_started):
                return clock
        speed = self._profile.clock.speed_attribute
        if self._options.clock in ("", "scaled") and speed and not self._options.is_read_only:
            return ScaledClock(
                lambda: attributes.read(speed),
                lambda value: attributes.write({speed: value}),
                self._pid,
                game_time=_game_time(self._profile, attributes),
                frames=FrameRate(self._profile.clock, attributes.read, attributes.write),
            )
        if self._options.clock == "scaled":
            why = "the session is read-only" if speed else "the profile names no clock.speed_attribute"
            raise ClockUnavailableError(f"cannot scale the time of {self._profile.name}: {why}")
        return RealtimeClock(self._pid)

    def _open_lockstep(self, page: LockstepPage | None) -> LockstepClock | None:
        """Open the lockstep clock of a game with the clock library; None if unavailable and not requested."""
        try:
            if page is not None:
                return LockstepClock(page, self._pid, self._profile.clock, servers=self._servers)
            if self._options.is_read_only:
                self._refuse(
                    "the session is read-only, and takes no control of the time of a game that it did not start"
                )
                return None
            # This process did not start the game, so the game does not end with it.
            on_orphan = "run" if self._options.on_orphan == "end" else self._options.on_orphan
            return attach_lockstep(self._pid, self._profile.clock, on_orphan=on_orphan, servers=self._servers)
        except ClockError as error:  # it has no clock library, or another process controls it
            self._refuse(str(error))
            return None

    def _is_proven(
        self, clock: LockstepClock, attributes: AttributeTable, capture: Capture | None, *, is_started: bool
    ) -> bool:
        """Return whether the clock holds the game; close the clock if it does not."""
        facts, speed = self._profile.clock, clock.speed
        names = [name for name in (facts.tick_attribute, facts.game_time_attribute) if name]

        def observe() -> Observation:
            values = {name: _read_if_loaded(attributes, name) for name in names}
            return values if capture is None else values | {PICTURE: capture.grab(NATIVE).tobytes()}

        # A game that another program started and that runs may run for some more ticks; a paused one may not.
        may_step = is_started or speed > 0
        tick_s = (1.0 / facts.tick_hz if facts.tick_hz else DEFAULT_STEP_S) if may_step else 0.0
        try:
            fault = find_lockstep_fault(clock, observe, tick_s, facts.tick_attribute)
            if fault:
                self._refuse(f"the clock does not hold {self._profile.name}: {fault}")
        except BaseException:
            clock.close()
            raise
        if fault:
            clock.close()
        elif speed:
            clock.run(speed)
        return not fault

    def _refuse(self, reason: str) -> None:
        """Record why the lockstep clock is unavailable; raise if one was requested."""
        if self._options.clock == "lockstep" or self._options.deterministic:
            raise ClockUnavailableError(f"{reason}. See docs/clock.md, or use the grade realtime or scaled")
        self.reason = reason
        _log.warning(
            "%s: no lockstep clock, so the game keeps running between steps and game time is not exact: %s. See "
            "docs/clock.md",
            self._profile.name,
            reason,
        )


def _read_if_loaded(attributes: AttributeTable, name: str) -> object:
    try:
        return attributes.read(name)
    except LOADING:
        return None


def _game_time(profile: Profile, attributes: AttributeTable) -> Callable[[], float] | None:
    """Return a function that reads the game's own time in seconds; None if the profile names no attribute for it."""
    name, unit_s = profile.clock.game_time_attribute, profile.clock.game_time_s
    return (lambda: float(attributes.read(name)) * unit_s) if name else None
