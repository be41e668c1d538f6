"""The lockstep clock: the game queries the time from its controller (method and limits: docs/clock.md)."""

from __future__ import annotations

import ctypes
import logging
import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from soulslab.errors import ClockStalledError, ClockUnavailableError, SessionStateError
from soulslab.siphon.clock import Advance, check_seconds, check_speed
from soulslab.siphon.clock.lockstep_page import (
    BOUNDARIES,
    CROWDED,
    FOREVER_NS,
    IS_WINDOWS,
    LOOPED,
    MAX_THREADS,
    RUNS,
    UNIT_SPEED,
    LockstepPage,
    OnOrphan,
    check_can_preload,
    native_library,
    open_page_of,
)
from soulslab.siphon.process.process_watch import watch_process
from soulslab.siphon.process.threads_windows import processor_time_ns, thread_ids
from soulslab.siphon.profile import ClockFacts, ClockGrade

#: Substeps per second if the profile names no tick: most games clamp the time of a longer frame.
DEFAULT_STEP_S = 1 / 60
#: Interval between checks that the process runs, during a step.
_SLICE_NS = 20_000_000
_LOAD_DEADLINE_S = 5.0
_MAX_SPEED = 1000.0

_log = logging.getLogger(__name__)


class LockstepClock:
    """The clock of a game with the clock library (`soulslab.siphon.clock.Clock`).

    Args:
        page: Clock page; `close` closes it.
        pid: Process id of the game.
        facts: Clock facts of the profile: `ClockFacts.step_hz` is the number of steps per second of game time that
            `advance` makes.
        servers: Processes without the library that the game may wait for, such as its X server. The proof that the game
            stands includes them. None if they are unknown: then a game that waits for events and not for time cannot be
            held.

    Raises `ClockUnavailableError` if the game has not loaded the library, and `ProcessExitedError`.
    """

    grade: ClockGrade = "lockstep"

    def __init__(
        self,
        page: LockstepPage,
        pid: int,
        facts: ClockFacts | None = None,
        *,
        servers: Sequence[int] | None = (),
    ) -> None:
        self.pid = pid
        self._page = page
        self._is_closed = False
        self._native = native_library()
        self._lock = threading.RLock()
        self._watch = watch_process(pid)
        facts = facts or ClockFacts()
        self._step_s = _part_s(facts)
        self._rest_ns = 0.0  # fraction of a nanosecond, carried over to the next advance
        try:
            self._await_library()
        except BaseException:
            self._watch.close()
            raise
        self._was_held = self.speed == 0
        self._native.set_boundary(page.address, BOUNDARIES[facts.boundary], facts.spin_reads)
        pids = (ctypes.c_int * len(servers or ()))(*servers or ())
        self._native.set_servers(page.address, pids, len(servers) if servers is not None else -1)

    def configure(self, facts: ClockFacts) -> None:
        """Use the tick length and the boundary of other facts from now on, to try out settings."""
        with self._lock:
            self._native.set_boundary(self._address(), BOUNDARIES[facts.boundary], facts.spin_reads)
            self._step_s = _part_s(facts)

    @property
    def game_time_s(self) -> float:
        """See `Clock.game_time_s`: since the library was loaded."""
        return self._now()[0] * 1e-9

    @property
    def speed(self) -> float:
        """See `Clock.speed`."""
        return self._now()[1] / UNIT_SPEED

    def _now(self) -> tuple[int, int]:
        """Return the game time (ns) and the speed (1 / `UNIT_SPEED`)."""
        started_ns, speed = ctypes.c_int64(), ctypes.c_int64()
        with self._lock:
            now_ns = self._native.now(self._address(), ctypes.byref(started_ns), ctypes.byref(speed))
        return now_ns - max(started_ns.value, 0), speed.value

    @property
    def n_time_reads(self) -> int:
        """Number of time reads of the game's threads while it stood."""
        with self._lock:
            return int(self._native.time_reads(self._address()))

    def run(self, speed: float = 1.0) -> None:
        """See `Clock.run`."""
        check_speed(speed, _MAX_SPEED)
        with self._lock:
            address = self._address()
            self._watch.check()
            self._native.publish(address, max(round(speed * UNIT_SPEED), 1), 0, FOREVER_NS)

    def pause(self, *, deadline_s: float = 10.0) -> None:
        """See `Clock.pause`. Raises `ClockStalledError` if the game computes without querying the time."""
        with self._lock:
            address = self._address()
            self._watch.check()
            if self.speed != 0:
                self._native.publish(address, 0, 0, FOREVER_NS)
            self._await_rest(self._native.wait(address, self.pid, _SLICE_NS), time.monotonic(), deadline_s)

    def advance(self, seconds: float, *, deadline_s: float = 10.0, speed: float | None = None) -> Advance:
        """See `Clock.advance`.

        Time advances at once by each substep (one tick), so the game sees exactly one substep at a time.

        With a `speed`, time advances continuously at this multiple of wall time, up to the limit, for games that need
        to see time pass. The number of frames during the advance is then not deterministic.
        """
        check_seconds(seconds)
        if speed is not None:
            check_speed(speed, _MAX_SPEED)
        with self._lock:
            started_s = time.monotonic()
            self.pause(deadline_s=deadline_s)
            exact_ns = seconds * 1e9 + self._rest_ns
            total_ns = math.floor(exact_ns)
            self._rest_ns = exact_ns - total_ns
            n_steps = 1 if speed else max(1, math.ceil(seconds / self._step_s - 1e-6))
            done_ns = 0
            for i in range(1, n_steps + 1):
                target_ns = total_ns * i // n_steps
                if target_ns > done_ns:
                    self._step(target_ns - done_ns, speed, started_s, deadline_s)
                done_ns = target_ns
            return Advance(requested_s=seconds, elapsed_s=total_ns * 1e-9)

    def find_unheld_threads(self) -> tuple[UnheldThread, ...]:
        """Find the threads that run although the game is paused (`find_unheld_threads`)."""
        with self._lock:
            self._address()
            return find_unheld_threads(self._page, self.pid)

    def close(self) -> None:
        """See `Clock.close`."""
        with self._lock:
            if self._is_closed or not self._page.address:
                return
            self._is_closed = True
            if not self._was_held:
                self._native.publish(self._page.address, UNIT_SPEED, 0, FOREVER_NS)
            if not self._page.has_pad:
                self._page.close()
            self._watch.close()

    def _step(self, step_ns: int, speed: float | None, started_s: float, deadline_s: float) -> None:
        """Advance and wait until the game stands at the new limit."""
        address = self._address()
        if speed is None:
            result = self._native.step(address, self.pid, step_ns, _SLICE_NS)
        else:
            self._native.publish(address, max(round(speed * UNIT_SPEED), 1), 0, step_ns)
            result = self._native.wait(address, self.pid, _SLICE_NS)
        self._await_rest(result, started_s, deadline_s)

    def _await_rest(self, result: int, started_s: float, deadline_s: float) -> None:
        """Wait until the game stands, given the result of the first wait."""
        while result == RUNS:
            self._watch.check()
            waited_s = time.monotonic() - started_s
            if waited_s > deadline_s or self._native.counter_at(self._address()):
                raise ClockStalledError(
                    f"process {self.pid} did not come to rest within {waited_s:.1f} s of wall time: {self._why()}",
                    waited_s,
                )
            result = self._native.wait(self._address(), self.pid, _SLICE_NS)
        if result == CROWDED:
            raise ClockUnavailableError(
                f"process {self.pid} has had more than {MAX_THREADS} threads at once, and lockstep holds no more. "
                "Use the grade realtime, or scaled if the profile has an attribute for the speed"
            )
        if result == LOOPED:
            _log.warning(
                "process %d: a loop at address %#x ran for long without a call while time stood, so it is held as one "
                "that waits for another thread. If the game computes there, steps end before its ticks are done: set "
                'clock.boundary = "sleep" in the profile (docs/clock.md)',
                self.pid,
                self._native.take_loop(self._address()),
            )

    def _why(self) -> str:
        """Return the reason why the game does not stand, and advice."""
        counter_at = self._native.counter_at(self._address())
        if counter_at:
            return (
                f"a loop of it at address {counter_at:#x} reads the counter of the processor (rdtsc), which runs in "
                "real time. Use the grade realtime or scaled"
            )
        with suppress(psutil.Error):
            if psutil.Process(self.pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP):
                return "it is stopped (SIGSTOP, Ctrl-Z or a debugger). Let it go on: kill -CONT"
        return (
            "it computes and neither sleeps nor reads the clock, or waits for something else. Give it longer "
            "(deadline_s), or see docs/clock.md for games that lockstep cannot hold"
        )

    def _await_library(self) -> None:
        """Wait until the game, which may just have been started, has mapped the page."""
        deadline = time.monotonic() + _LOAD_DEADLINE_S
        check_can_preload(self.pid)
        while not self._page.was_loaded_by(self.pid):
            self._watch.check()
            check_can_preload(self.pid)
            if time.monotonic() > deadline:
                raise ClockUnavailableError(
                    f"process {self.pid} has not loaded the clock library; if it is a sandbox or a launcher that "
                    "clears its environment, start the game itself, or use the grade realtime or scaled"
                )
            time.sleep(0.005)

    def _address(self) -> int:
        if self._is_closed or not self._page.address:
            raise SessionStateError("the clock is closed; open another session")
        return self._page.address


def attach_lockstep(
    pid: int,
    facts: ClockFacts | None = None,
    *,
    on_orphan: OnOrphan | str = "run",
    servers: Sequence[int] | None = (),
) -> LockstepClock:
    """Take over the clock of a game that was started with the library. Its time continues unchanged.

    Args:
        pid: Process id of the game.
        facts: See `LockstepClock`.
        on_orphan: What the game does when this process dies: ``end``, ``run`` on at 1x or stay ``paused``.
        servers: See `LockstepClock`.

    Raises:
        ClockUnavailableError: The game was not started with the library.
        ClockError: Another process controls it.
        AttachDeniedError: The operating system denies access.
        ProcessExitedError: The game has ended.
    """
    page = LockstepPage(open_page_of(pid), on_orphan)
    try:
        return LockstepClock(page, pid, facts, servers=servers)
    except BaseException:
        page.close()
        raise


def _part_s(facts: ClockFacts) -> float:
    """Return the longest part of a step, in seconds."""
    return 1.0 / facts.step_hz if facts.step_hz > 0 else DEFAULT_STEP_S


HELPER_NAME = "soulslab-clock"
#: Futex operations that wait: WAIT, LOCK_PI, WAIT_BITSET, WAIT_REQUEUE_PI, LOCK_PI2 (linux/futex.h).
_FUTEX_WAITS = {0, 6, 9, 11, 13}
_FUTEX_COMMAND = 0x7F
#: Longest wait for threads that are ready to run.
_STARVED_S = 5.0
#: System calls of x86-64 with a time-out: number, name, and index of the time-out argument.
_ALWAYS = -1
_CALLS = {
    7: ("poll", 2), 23: ("select", 4), 35: ("nanosleep", _ALWAYS), 128: ("rt_sigtimedwait", 2), 202: ("futex", 3),
    208: ("io_getevents", 4), 219: ("restart_syscall", _ALWAYS), 220: ("semtimedop", 3),
    230: ("clock_nanosleep", _ALWAYS), 232: ("epoll_wait", 3), 242: ("mq_timedsend", 4), 243: ("mq_timedreceive", 4),
    270: ("pselect6", 4), 271: ("ppoll", 2), 281: ("epoll_pwait", 3), 299: ("recvmmsg", 4), 441: ("epoll_pwait2", 3),
    449: ("futex_waitv", 3),
}  # fmt: skip
#: System calls whose time-out is a number of milliseconds; negative for none.
_MILLISECONDS = {"poll", "epoll_wait", "epoll_pwait"}


@dataclass(frozen=True)
class UnheldThread:
    """A thread that runs while game time is held.

    `tid` is the process id for a kernel timer. `reason` is the system call with a time-out that the thread waits in,
    ``timer_create`` or ``timerfd`` for a kernel timer, or ``runs``.
    """

    tid: int
    name: str
    reason: str


def find_unheld_threads(page: LockstepPage, pid: int, *, watch_s: float = 0.05) -> tuple[UnheldThread, ...]:
    """Return the threads that wait in real time, or run within `watch_s` of wall time, although the game is held.

    The time is longer while a thread is ready to run and gets no processor.

    The library intercepts calls of libc. A program that makes system calls directly waits in real time, and one that
    reads the counter of the processor runs on. Both are visible in ``/proc`` while game time is held (proc(5):
    ``syscall``, ``schedstat``, ``timers``, ``fdinfo``).

    Threads come in the order of their ids, then timers. The system call numbers are those of x86-64. On Windows only
    threads that run are found, by the processor time that they have used.
    """
    if IS_WINDOWS:
        return _find_running_threads(page, pid, watch_s)
    before = dict(_read_all(pid, "schedstat"))
    end_s = time.monotonic() + _STARVED_S
    while True:
        time.sleep(watch_s)
        after = dict(_read_all(pid, "schedstat"))
        calls = dict(_read_all(pid, "syscall"))
        parked = _parked_threads(page, pid)
        # On a busy machine a thread may wait for a processor all this time.
        ready = [tid for tid, call in calls.items() if call == "running" and tid not in parked]
        if all(before.get(tid) != after.get(tid) for tid in ready) or time.monotonic() >= end_s:
            break
    names = dict(_read_all(pid, "comm"))
    found = []
    for tid in sorted(calls):
        name = names.get(tid, "")
        if tid in parked or name == HELPER_NAME:
            continue
        reason = _find_wait(calls[tid])
        if not reason and before.get(tid) != after.get(tid):
            reason = "runs"
        if reason:
            found.append(UnheldThread(tid, name, reason))
    name = names.get(pid, "")
    return (*found, *(UnheldThread(pid, name, reason) for reason in _find_timers(pid)))


def _parked_threads(page: LockstepPage, pid: int) -> set[int]:
    tids = (ctypes.c_int * MAX_THREADS)()
    return set(tids[: native_library().parked(page.address, pid, tids, len(tids))])


def _find_running_threads(page: LockstepPage, pid: int, watch_s: float) -> tuple[UnheldThread, ...]:
    before = {tid: processor_time_ns(tid) for tid in thread_ids(pid)}
    time.sleep(watch_s)
    parked = _parked_threads(page, pid)
    running = [tid for tid, time_ns in before.items() if tid not in parked and processor_time_ns(tid) != time_ns]
    return tuple(UnheldThread(tid, "", "runs") for tid in sorted(running))


def _read_all(pid: int, name: str) -> Iterator[tuple[int, str]]:
    """Read one file of each thread; threads that end during the call are skipped."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            yield int(task.name), (task / name).read_text(encoding="utf-8", errors="replace").strip()


def _find_wait(call: str) -> str:
    """Return the name of the system call if it has a time-out; "" if it has none, or the thread runs."""
    fields = call.split()
    number = int(fields[0]) if fields[0].lstrip("-").isdigit() else -1
    name, position = _CALLS.get(number, ("", _ALWAYS))
    if position == _ALWAYS:
        return name
    arguments = [int(field, 16) for field in fields[1:7]]
    if name == "futex" and arguments[1] & _FUTEX_COMMAND not in _FUTEX_WAITS:
        return ""
    timeout = arguments[position]
    if name in _MILLISECONDS:
        timeout = 0 if timeout & 0x80000000 else timeout & 0xFFFFFFFF
    return name if timeout else ""


def _find_timers(pid: int) -> Iterator[str]:
    if "ID:" in Path(f"/proc/{pid}/timers").read_text(encoding="utf-8"):
        yield "timer_create"
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            if "[timerfd]" in str(fd.readlink()) and _is_armed(
                Path(f"/proc/{pid}/fdinfo/{fd.name}").read_text("utf-8")
            ):
                yield "timerfd"


def _is_armed(text: str) -> bool:
    lines = [line for line in text.splitlines() if line.startswith(("it_value", "it_interval"))]
    return any(digit in "123456789" for line in lines for digit in line)
