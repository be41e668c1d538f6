"""The process of a remote actor, as the learner sees it, and the scheduling priority of both processes."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from soulslab.errors import ActorError
from soulslab.learn.actors.actor_status import StatusBoard
from soulslab.learn.actors.shared_memory import ACTOR_LOCK
from soulslab.learn.process_lock import is_held

PROGRAM: Final = "soulslab.learn.rainbow.remote_actor_program"
LOG_NAME: Final = "actor.log"
MAX_FAILURES: Final = 5
FAILURES_WITHIN_S: Final = 600.0
STOP_DEADLINE_S: Final = 60.0
"""Default time that an actor gets to end (s); a step and a reset of a real game can take this long."""

_TERMINATE_DEADLINE_S: Final = 10.0
_POLL_S: Final = 0.02
_TAIL_BYTES: Final = 2000
_MAX_LOG_BYTES: Final = 1 << 20

_log = logging.getLogger(__name__)


class ActorProcess:
    """The process of a remote actor. It runs in a new session, so Ctrl-C does not reach it."""

    def __init__(self, run_dir: Path, place: Path, status: StatusBoard) -> None:
        self._run_dir = run_dir
        self.log_path = run_dir / LOG_NAME
        self._lock = place / ACTOR_LOCK
        self._status = status
        self._child: subprocess.Popen[bytes] | None = None
        self._is_found = False
        self._failures: list[float] = []

    def is_alive(self) -> bool:
        """Return whether an actor of this run is running, in a process that this or an earlier learner started."""
        if self._child is not None:
            return self._child.poll() is None
        return is_held(self._lock)

    def watch(self) -> None:
        """Start the actor unless it is running; an actor that an earlier learner started is reused.

        Raises ActorError after more than `MAX_FAILURES` failures within `FAILURES_WITHIN_S`.
        """
        if self.is_alive():
            if self._child is None and not self._is_found:
                _log.info("the actor of this run is still running (process %d); using it", self._status.read().pid)
                self._is_found = True
            return
        if self._child is not None or self._is_found:
            self._note_failure()
        self._start()

    def stop(self, deadline_s: float = STOP_DEADLINE_S) -> None:
        """Ask the actor to end and wait; after the deadline kill a child, or raise ActorError for another process."""
        self._status.set_stop_request(True)
        if self._child is not None:
            _end(self._child, deadline_s)
            self._child = None
            return
        deadline = time.monotonic() + deadline_s
        while is_held(self._lock):
            if time.monotonic() > deadline:
                pid = self._status.read().pid
                raise ActorError(
                    self._run_dir, f"its actor (process {pid}) did not end within {deadline_s:.0f} s; end the process"
                )
            time.sleep(_POLL_S)

    def log_tail(self) -> str:
        """Return the last lines of the actor's log; "" without a log."""
        try:
            with self.log_path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _TAIL_BYTES))
                text = file.read().decode(errors="replace")
        except OSError:
            return ""
        return (text.partition("\n")[2] if size > _TAIL_BYTES else text).strip()

    def _note_failure(self) -> None:
        now = time.monotonic()
        self._failures = [each for each in (*self._failures, now) if now - each <= FAILURES_WITHIN_S]
        how = f"ended with {self._child.returncode}" if self._child is not None else "ended"
        if len(self._failures) > MAX_FAILURES:
            raise ActorError(
                self._run_dir,
                f"its actor {how}, {len(self._failures)} times within {FAILURES_WITHIN_S / 60:.0f} minutes; "
                f"see {self.log_path} for the cause, fix it and resume the run",
                log_tail=self.log_tail(),
            )
        _log.warning("the actor %s; restarting it (see %s)", how, self.log_path)

    def _start(self) -> None:
        self._status.set_stop_request(False)
        self._is_found = False
        command = [sys.executable, "-m", PROGRAM, str(self._run_dir.resolve())]
        try:
            if self.log_path.exists() and self.log_path.stat().st_size > _MAX_LOG_BYTES:
                self.log_path.replace(self.log_path.with_name(f"{LOG_NAME}.old"))
            with self.log_path.open("ab") as log:
                self._child = subprocess.Popen(  # noqa: S603 - a program of soulslab
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
                )
        except OSError as error:
            raise ActorError(self._run_dir, f"its actor could not be started: {error.strerror or error}") from error
        _log.info("the actor runs in process %d; its log is %s", self._child.pid, self.log_path)


def _end(child: subprocess.Popen[bytes], deadline_s: float) -> None:
    """Wait until a child process ends; terminate it after the deadline."""
    try:
        child.wait(deadline_s)
    except subprocess.TimeoutExpired:
        _log.warning("the actor (process %d) did not end within %.0f s; terminating it", child.pid, deadline_s)
        child.terminate()
        try:
            child.wait(_TERMINATE_DEADLINE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


JUDGED_AFTER_STEPS: Final = 20
MOST_BUSY: Final = 0.5
"""A process that is busy for a larger share of the time does not get real-time priority."""


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

    Measured with a step of 20 ms beside a learner at full load, on 2 cores with ten other busy processes: the 99th
    percentile of the lateness was 90 ms without any measure, 0.1 to 5 ms with the actor in the real-time class of the
    system, and 10 to 60 ms with changes to the learner alone (a nice value of 19, batch, idle, a core for each).

    This is checked every ``JUDGED_AFTER_STEPS`` steps, because a process that compiles code or loads a game in its
    first steps sleeps only later.
    """

    def __init__(
        self,
        go: Callable[[], None] = raise_priority,
        clocks: Sequence[Callable[[], float]] = (time.monotonic, time.process_time),
    ) -> None:
        """Start the first check interval; ``go`` raises the priority, ``clocks`` are wall and processor time (s)."""
        self._go = go
        self._clocks = clocks
        self._is_first = False
        self._n_steps = 0
        self._began_s = [clock() for clock in clocks]

    def after_step(self, *, has_pace: bool) -> None:
        """Count a step, and check the priority if it is due; ``has_pace`` means that the game runs in real time."""
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
