"""Starting a game whose time is held from its first instruction on.

The game gets no time of its own while it starts. Whenever everything in it waits, it gets one tick, and then the caller
checks again whether the game is ready. So the number of ticks until then does not depend on the speed of the machine.
"""

from __future__ import annotations

import ctypes
import logging
import time
from collections.abc import Sequence

from soulslab.siphon.clock.lockstep import DEFAULT_STEP_S, SPIN_READS, SPIN_TURNS
from soulslab.siphon.clock.native_library import FOREVER_NS, MAIN_RUNS, STILL, UNIT_SPEED, native_library
from soulslab.siphon.clock.page import LockstepPage
from soulslab.siphon.clock.quiet import Quiet

#: CLOCK_REALTIME of a deterministic start with seed 0: 2026-01-01T00:00:00Z. The seed counts seconds from there.
EPOCH_S = 1_767_225_600
#: CLOCK_MONOTONIC and the other clocks since boot, at a deterministic start.
BOOT_S = 1000
#: Wall time of one call of `HeldStart.wait`; callers check their deadlines and the process between two calls.
SLICE_NS = 20_000_000
#: Wall time before the second look at the threads; each later pause is twice as long.
FIRST_PAUSE_S = 0.0002
#: Wall time for threads that do not wait for time, while the main thread waits: they may be loading.
WORKER_DEADLINE_S = 2.0
#: The same where it cannot be proven that the game stands: a thread never sleeps, or the X server is not known.
UNPROVEN_S = 0.05

_log = logging.getLogger(__name__)


class HeldStart:
    """Lets a game that is starting have time, one tick at a time, each when the game stands.

    Args:
        page: Its page, made with ``is_held=True``.
        tick_hz: Ticks per second; 0 if not known.
        servers: See `LockstepClock`.

    Attributes:
        pid: The process whose main thread is waited for: of the command, later of the game.
        n_ticks: Ticks that have passed.
    """

    def __init__(self, page: LockstepPage, tick_hz: float, servers: Sequence[int] | None) -> None:
        self.n_ticks = 0
        self._page = page
        self._tick_s = 1.0 / tick_hz if tick_hz > 0 else DEFAULT_STEP_S
        self._native = native_library()
        self._is_settled = False
        self._blocked_since_s: float | None = None
        self._patience_s = UNPROVEN_S if servers is None else WORKER_DEADLINE_S
        self.follow(0)
        pids = (ctypes.c_int * len(servers or ()))(*servers or ())
        self._native.set_servers(page.address, pids, -1 if servers is None else len(servers))
        # A game that never sleeps would not stand otherwise.
        self._native.set_spin(page.address, SPIN_READS, SPIN_TURNS)

    def follow(self, pid: int) -> None:
        """Wait for this process from now on."""
        self.pid = pid
        self._quiet = Quiet(pid)

    def wait(self) -> bool:
        """Wait until the game stands, for 20 ms of wall time at most.

        If the call before has returned True then the game gets one tick first: the caller has checked a game that
        stands, and it was not ready.

        Returns:
            Whether the game stands.
        """
        if self._is_settled:
            self._pass_tick()
        self._is_settled = self._settle()
        return self._is_settled

    def close(self) -> None:
        """Let time run at 1x, so that the game can end in order; nothing if the page is closed."""
        if self._page.address:
            self._native.publish(self._page.address, UNIT_SPEED, 0, FOREVER_NS)

    def _pass_tick(self) -> None:
        before_ns, after_ns = (round(n * self._tick_s * 1e9) for n in (self.n_ticks, self.n_ticks + 1))
        self.n_ticks += 1
        self._blocked_since_s = None
        self._native.publish(self._page.address, 0, after_ns - before_ns, FOREVER_NS)

    def _settle(self) -> bool:
        """Wait for a proof that nothing runs; where there is none, for the main thread to be blocked for long."""
        result = self._native.wait(self._page.address, self.pid, SLICE_NS)
        if result == STILL or (result != MAIN_RUNS and self._await_still()):
            return True
        if result == MAIN_RUNS and not self._quiet.is_blocked(self.pid):
            self._blocked_since_s = None
            return False
        now_s = time.monotonic()
        self._blocked_since_s = self._blocked_since_s or now_s
        if now_s - self._blocked_since_s < self._patience_s:
            return False
        if self._patience_s > UNPROVEN_S:
            _log.info("process %d has threads that never sleep, so its start may take other ticks next time", self.pid)
            self._patience_s = UNPROVEN_S
        return True

    def _await_still(self) -> bool:
        """Return whether all threads come to sleep, in 20 ms of wall time at most."""
        deadline_s, pause_s = time.monotonic() + SLICE_NS * 1e-9, FIRST_PAUSE_S
        while not self._native.is_still(self._page.address, self.pid):
            if time.monotonic() > deadline_s:
                return False
            time.sleep(pause_s)
            pause_s *= 2
        return True
