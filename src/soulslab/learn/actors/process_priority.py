"""Who goes first when there are fewer cores than work: the process that plays in real time.

Measured with a step of 20 ms beside a learner at full load, on 2 cores with ten other processes at work: 99 of 100
steps were at most 90 ms late with no measure taken, 0.1 to 5 ms with the actor in the system's class for real time, and
10 to 60 ms with anything that was done to the learner alone (a nice value of 19, batch, idle, a core for each).
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
"""Whoever is busy for a larger share of the time in so many steps does not go before other processes."""

_log = logging.getLogger(__name__)


def go_first() -> None:
    """Let this process go before all others whenever it has something to do, where the system permits it.

    Only for one that mostly sleeps. Linux permits it to root and to whoever has a limit for it (``ulimit -r``). What
    this process starts, such as a game, is not affected.
    """
    if sys.platform != "linux":
        return
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except PermissionError:
        _log.info(
            "this user may not give a process priority (ulimit -r); on a machine with more work than cores, steps may "
            "come late"
        )
    else:
        _log.info("goes before other processes, as the game has a pace to keep up with")


class Precedence:
    """Lets a process go first once it has shown, in some twenty steps, that it has a pace and mostly sleeps.

    It is looked at again and again: whoever is compiling code or loading a game in the first steps sleeps later.
    """

    def __init__(
        self, go: Callable[[], None] = go_first, clocks: Sequence[Clock] = (time.monotonic, time.process_time)
    ) -> None:
        """Begin to look.

        Args:
            go: Called once, when it may.
            clocks: Wall time, and processor time of this process (s).
        """
        self._go = go
        self._clocks = clocks
        self._is_first = False
        self._n_steps = 0
        self._began_s = [clock() for clock in clocks]

    def after_step(self, *, has_pace: bool) -> None:
        """Take note of a step.

        Args:
            has_pace: Whether there is anything to be kept up with.
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


def go_normally() -> None:
    """Be like any other process, whatever the one is that started this."""
    if sys.platform == "linux":
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@contextmanager
def giving_way() -> Iterator[None]:
    """Let this thread interrupt nobody when it wakes up, while the ``with`` block runs: it has no pace to keep."""
    if sys.platform != "linux":
        yield
        return
    before = os.sched_getscheduler(0)
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    try:
        yield
    finally:
        os.sched_setscheduler(0, before, os.sched_param(0))
