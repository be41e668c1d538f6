"""Detection of threads of a held game that the clock library does not hold.

The library intercepts calls of libc. A program that makes system calls directly waits in real time, and one that reads
the counter of the processor runs on. Both are visible in ``/proc`` while game time is held (proc(5): ``syscall``,
``schedstat``, ``timers``, ``fdinfo``).
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from soulslab.siphon.clock.lockstep_page import MAX_THREADS, LockstepPage, native_library

__all__ = ["UnheldThread", "find_unheld_threads"]

HELPER_NAME = "soulslab-clock"
#: Futex operations that wait: WAIT, LOCK_PI, WAIT_BITSET, WAIT_REQUEUE_PI, LOCK_PI2 (linux/futex.h).
_FUTEX_WAITS = {0, 6, 9, 11, 13}
_FUTEX_COMMAND = 0x7F
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

    Attributes:
        tid: Thread id; the process id for a kernel timer.
        name: Name, as the kernel shows it.
        reason: System call with a time-out that it waits in, ``timer_create`` or ``timerfd`` for a kernel timer, or
            ``runs``.
    """

    tid: int
    name: str
    reason: str


def find_unheld_threads(page: LockstepPage, pid: int, *, watch_s: float = 0.05) -> tuple[UnheldThread, ...]:
    """Return the threads that wait in real time, or run within `watch_s` of wall time, although the game is held.

    Threads come in the order of their ids, then timers. The system call numbers are those of x86-64.
    """
    before = dict(_read_all(pid, "schedstat"))
    time.sleep(watch_s)
    after = dict(_read_all(pid, "schedstat"))
    calls = dict(_read_all(pid, "syscall"))
    names = dict(_read_all(pid, "comm"))
    parked = _find_parked(page, pid)
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


def _find_parked(page: LockstepPage, pid: int) -> set[int]:
    tids = (ctypes.c_int * MAX_THREADS)()
    n = native_library().parked(page.address, pid, tids, len(tids))
    return set(tids[:n])


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
