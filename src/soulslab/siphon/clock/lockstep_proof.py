"""Verification on the running game that a lockstep clock holds it.

A program may take its time from a source that the clock library does not cover. Therefore, before a session reports
``lockstep``, the game must stand for some wall time while game time is held, and must make the expected ticks in a few
steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import msgspec

from soulslab.errors import ClockStalledError
from soulslab.siphon.clock.lockstep import LockstepClock

#: Wall time for which the game must stand.
STAND_S = 0.1
POLL_S = 0.01
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


class Observation(msgspec.Struct, frozen=True):
    """Observable state of a standing game.

    Attributes:
        values: Attributes that were read, by name.
        frame: Pixels of its window as bytes; empty without a window.
    """

    values: Mapping[str, object]
    frame: bytes = b""


def find_lockstep_fault(
    clock: LockstepClock, observe: Callable[[], Observation], tick_s: float, tick_attribute: str = ""
) -> str:
    """Return why a lockstep clock does not hold its game; "" if it does.

    Args:
        clock: Clock of the game; the game is held afterwards.
        observe: Reads the game.
        tick_s: Game time of a step; 0 for no steps, if the game's time must not change.
        tick_attribute: Attribute with the tick count in `Observation.values`; "" if there is none.

    Raises:
        ProcessExitedError: The game has ended.
    """
    try:
        clock.pause(deadline_s=REST_S)
        fault = _find_motion(clock, observe) or _find_unheld_thread(clock)
        return fault or (_find_wrong_ticks(clock, observe, tick_s, tick_attribute) if tick_s else "")
    except ClockStalledError as error:
        return str(error)


def _find_motion(clock: LockstepClock, observe: Callable[[], Observation]) -> str:
    """Return a description of changes while game time is held."""
    before, n_reads = observe(), clock.n_time_reads
    deadline = time.monotonic() + STAND_S
    while time.monotonic() < deadline:
        time.sleep(POLL_S)
        now = observe()
        changed = [name for name, value in now.values.items() if value != before.values.get(name)]
        if changed:
            return f"while time stands, {', '.join(changed)} changed: the game has a source of time that is not held"
        if now.frame != before.frame:
            return "while time stands, the picture changed: the game has a source of time that is not held"
        if clock.n_time_reads != n_reads:
            return "while time stands, the game goes on and reads the time: a thread of it is not held"
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
    last = observe().values.get(tick_attribute)
    while len(growth) < MAX_STEPS:
        clock.advance(tick_s, deadline_s=REST_S)
        now = observe().values.get(tick_attribute)
        growth.append(now - last if isinstance(now, int) and isinstance(last, int) else 0)
        last = now
        if len(growth) == N_SILENT and not any(growth):
            return ""
        if len(growth) >= N_STEPS and abs(sum(growth[-N_STEPS:]) - N_STEPS) <= SLACK_TICKS:
            return ""
    return f"in {MAX_STEPS} steps of one tick {tick_attribute} grew by {sum(growth)}, and never evenly"
