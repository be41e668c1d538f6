"""Starting a game whose time is held from its first instruction.

Whenever everything in the starting game waits, the game gets one tick, and the caller checks again whether it is ready.
The number of ticks until then therefore does not depend on the speed of the machine.
"""

from __future__ import annotations

import ctypes
import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence

from soulslab.siphon.clock.lockstep import DEFAULT_STEP_S
from soulslab.siphon.clock.lockstep_page import (
    BOUNDARIES,
    FOREVER_NS,
    PARKED,
    RUNS,
    UNIT_SPEED,
    LockstepPage,
    native_library,
)
from soulslab.siphon.profile import ClockFacts

#: CLOCK_REALTIME of a deterministic start with seed 0: 2026-01-01T00:00:00Z. The seed is added in seconds.
EPOCH_S = 1_767_225_600
#: CLOCK_MONOTONIC and the other clocks since boot, at a deterministic start.
BOOT_S = 1000
#: Wall time of one call of `HeldStart.wait`; callers check their deadlines and the process between calls. In a shorter
#: time, the proofs that the game stands take more of the processor, as they become rarer during a call.
SLICE_NS = 100_000_000
#: Wall time before the second check of the threads; each later pause is twice as long.
FIRST_PAUSE_S = 0.0002
#: Longest wait for threads and processes that do not wait for time while the others do: they may be loading.
WORKER_DEADLINE_S = 2.0
#: The same after a thread that never sleeps was found.
SHORT_DEADLINE_S = 0.05

_log = logging.getLogger(__name__)


class HeldStart:
    """Advances a starting game one tick at a time, each when the game stands.

    `page` was created with ``is_held=True``; `servers` are those of `LockstepClock` that are known before the game
    runs.

    Attributes:
        pid: Process to wait for: the command, later the game.
        processes: Returns all processes of the start; also a process that has not loaded the library yet is waited for.
        n_ticks: Number of ticks that have passed.
    """

    def __init__(self, page: LockstepPage, facts: ClockFacts, servers: Sequence[int]) -> None:
        self.pid = 0
        self.processes: Callable[[], Iterable[int]] = tuple
        self.n_ticks = 0
        self._page = page
        self._tick_s = 1.0 / facts.tick_hz if facts.tick_hz > 0 else DEFAULT_STEP_S
        self._native = native_library()
        self._is_settled = False
        self._busy_since_s: float | None = None
        self._patience_s = WORKER_DEADLINE_S
        self._native.set_servers(page.address, (ctypes.c_int * len(servers))(*servers), len(servers))
        # Otherwise a game that never sleeps would not stand.
        self._native.set_boundary(page.address, BOUNDARIES[facts.boundary], facts.spin_reads)

    def wait(self) -> bool:
        """Wait until the game stands, for at most `SLICE_NS` of wall time; return whether it stands.

        If the previous call has returned True, the game gets one tick first: the caller has checked the standing game,
        and it was not ready.
        """
        if self._is_settled:
            self._pass_tick()
        self._is_settled = self._settle()
        return self._is_settled

    def keep_tick(self) -> None:
        """Do not give the game a tick in the next call of `wait`: the caller has found it ready.

        It may have been ready before it stood, or only when it stood. It gets the same number of ticks in both cases.
        """
        self._is_settled = False

    def progress(self) -> str:
        """Return the game time that has passed and the processes that run now, for an error message."""
        busy = [str(pid) for pid in sorted({self.pid, *self.processes()}) if not _is_asleep(pid)]
        running = f"of its processes, {', '.join(busy)} still run" if busy else "all of its processes wait"
        return f"the game has had {self.n_ticks} ticks of game time, and {running}"

    def close(self) -> None:
        """Run the game at 1x, so that it can end in order; does nothing if the page is closed."""
        if self._page.address:
            self._native.publish(self._page.address, UNIT_SPEED, 0, FOREVER_NS)

    def _pass_tick(self) -> None:
        before_ns, after_ns = (round(n * self._tick_s * 1e9) for n in (self.n_ticks, self.n_ticks + 1))
        self.n_ticks += 1
        self._busy_since_s = None
        self._native.publish(self._page.address, 0, after_ns - before_ns, FOREVER_NS)

    def _settle(self) -> bool:
        """Wait for a proof that neither the game nor the processes that it waits for run."""
        result = self._native.wait(self._page.address, self.pid, SLICE_NS)
        if result != RUNS and self._await_still():
            return True
        if result != PARKED or not _is_asleep(self.pid):
            self._busy_since_s = None
            return False
        now_s = time.monotonic()
        self._busy_since_s = self._busy_since_s or now_s
        if now_s - self._busy_since_s < self._patience_s:
            return False
        if self._patience_s > SHORT_DEADLINE_S:
            _log.info("process %d has threads that never sleep, so its start may take other ticks next time", self.pid)
            self._patience_s = SHORT_DEADLINE_S
        return True

    def _await_still(self) -> bool:
        """Wait until all threads sleep, for at most `SLICE_NS` of wall time; return whether they do."""
        deadline_s, pause_s = time.monotonic() + SLICE_NS * 1e-9, FIRST_PAUSE_S
        while True:
            before = _times_of(self.processes())
            is_still = before is not None and self._native.is_still(self._page.address, self.pid)
            # One may have woken another and ended in between.
            if is_still and _times_of(self.processes()) == before:
                return True
            if time.monotonic() > deadline_s:
                return False
            time.sleep(pause_s)
            pause_s *= 2


def _times_of(pids: Iterable[int]) -> dict[str, bytes] | None:
    """Return the processor time of all threads (schedstat in proc(5)); None if one of them does not sleep."""
    times: dict[str, bytes] = {}
    for pid in pids:
        if not _is_asleep(pid):
            return None
        try:
            times |= _read_tasks(pid, "schedstat")
        except (FileNotFoundError, ProcessLookupError):
            return None
    return times


def _is_asleep(pid: int) -> bool:
    """Return whether all threads of a process sleep (state S in proc(5)), or have ended."""
    try:
        texts = _read_tasks(pid, "stat").values()
    except (FileNotFoundError, ProcessLookupError):  # a thread has just ended
        return False
    return all(text.rpartition(b")")[2].split()[0] in b"SZX" for text in texts)


def _read_tasks(pid: int, name: str) -> dict[str, bytes]:
    """Return the content of a file of each thread, by its path; a start reads these files hundreds of times."""
    folder = f"/proc/{pid}/task"
    try:
        threads = os.listdir(folder)  # noqa: PTH208 (`Path` takes six times as long)
    except (FileNotFoundError, ProcessLookupError):  # the process has ended, as in add_process of still.c
        return {}
    found = {}
    for thread in threads:
        path = f"{folder}/{thread}/{name}"
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            found[path] = os.read(file, 4096)
        finally:
            os.close(file)
    return found
