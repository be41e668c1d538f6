"""Scheduling priority of an actor that plays in real time.

Measured with a step of 20 ms beside a learner at full load, on 2 cores with ten other busy processes. The 99th
percentile of the lateness was 90 ms without any measure, 0.1 to 5 ms with the actor in the real-time class of the
system, and 10 to 60 ms with changes to the learner alone (a nice value of 19, batch, idle, a core for each).
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias

Clock: TypeAlias = Callable[[], float]

JUDGED_AFTER_STEPS: Final = 20
MOST_BUSY: Final = 0.5
"""A process that is busy for a larger share of the time does not get real-time priority."""

_log = logging.getLogger(__name__)


def raise_priority() -> None:
    """Give this process real-time priority if the system permits it.

    Use it only for a process that mostly sleeps. Linux permits it to root and to users with a limit for it
    (``ulimit -r``). Child processes, such as a game, do not inherit it.
    """
    if sys.platform != "linux":
        return
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except PermissionError:
        _log.info(
            "this user may not set real-time priority (ulimit -r); on a machine with more busy processes than cores, "
            "steps may be late"
        )
    else:
        _log.info("this process has real-time priority, because the game runs in real time")


class PriorityController:
    """Gives a process real-time priority once it plays in real time and mostly sleeps.

    This is checked every ``JUDGED_AFTER_STEPS`` steps, because a process that compiles code or loads a game in its
    first steps sleeps only later.
    """

    def __init__(
        self, go: Callable[[], None] = raise_priority, clocks: Sequence[Clock] = (time.monotonic, time.process_time)
    ) -> None:
        """Start the first check interval.

        Args:
            go: Called once, to raise the priority.
            clocks: Wall time, and processor time of this process (s).
        """
        self._go = go
        self._clocks = clocks
        self._is_first = False
        self._n_steps = 0
        self._began_s = [clock() for clock in clocks]

    def after_step(self, *, has_pace: bool) -> None:
        """Count a step, and check the priority if it is due.

        Args:
            has_pace: Whether the environment runs in real time.
        """
        self._n_steps += 1
        if self._is_first or self._n_steps % JUDGED_AFTER_STEPS:
            return
        now_s = [clock() for clock in self._clocks]
        wall_s, busy_s = (now - began for now, began in zip(now_s, self._began_s, strict=True))
        self._began_s = now_s
        if has_pace and busy_s < MOST_BUSY * wall_s:
            self._is_first = True
            self._go()


def reset_priority() -> None:
    """Reset the scheduling class of this process, which it inherited from its parent, to the default."""
    if sys.platform == "linux":
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@contextmanager
def batch_scheduling() -> Iterator[None]:
    """Run this thread in the batch class during the ``with`` block, so that it does not preempt others on waking up."""
    if sys.platform != "linux":
        yield
        return
    before = os.sched_getscheduler(0)
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    try:
        yield
    finally:
        os.sched_setscheduler(0, before, os.sched_param(0))
