"""Telling that a game stands although its main thread waits for something that is not time.

The clock library sees threads that wait for time. A main thread may wait for a worker, for a server (Wine) or for
events without a timeout instead. That looks the same as waiting for the X server in the middle of a frame, so only one
that does so for a while counts as idle, and for a long while if it has waited for time before.
"""

from __future__ import annotations

import time
from pathlib import Path

IDLE_S = 0.05
#: For a game whose main thread has been seen waiting for time.
IDLE_AFTER_PARKING_S = 1.0


class Quiet:
    """Looks at the threads of one process.

    Args:
        pid: Its id.

    Attributes:
        has_parked: Its main thread has been seen waiting for time.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.has_parked = False
        self._seen: tuple[int, ...] = ()
        self._since_s = 0.0

    def reset(self) -> None:
        """Forget what was seen: time has been moved on."""
        self._seen = ()

    def is_idle(self) -> bool:
        """Tell whether the main thread has been blocked without a break since an earlier call, for long enough."""
        now_s = time.monotonic()
        state = self._state(self.pid)
        if state is None or state != self._seen:
            self._seen = state or ()
            self._since_s = now_s
            return False
        return now_s - self._since_s >= (IDLE_AFTER_PARKING_S if self.has_parked else IDLE_S)

    def is_blocked(self, tid: int) -> bool:
        """Tell whether a thread waits for something now, or is gone."""
        return self._state(tid) is not None

    def is_stopped(self) -> bool:
        """Tell whether somebody has stopped the process: SIGSTOP, or a debugger."""
        return self._fields(self.pid).get("State", "")[:1] in ("T", "t")

    def _state(self, tid: int) -> tuple[int, ...] | None:
        """Return how often a thread has been switched, if it is blocked; None if it runs; () if it is gone."""
        fields = self._fields(tid)
        if not fields:
            return ()
        # One that somebody has stopped waits for nothing: it has still to do what it was given time for.
        if fields["State"][0] not in "SD":
            return None
        return int(fields["voluntary_ctxt_switches"]), int(fields["nonvoluntary_ctxt_switches"])

    def _fields(self, tid: int) -> dict[str, str]:
        """Return what the kernel says about a thread (proc(5), ``status``); nothing if it is gone."""
        try:
            text = Path(f"/proc/{self.pid}/task/{tid}/status").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return {}
        return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
