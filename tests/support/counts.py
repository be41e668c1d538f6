"""System resources of this process, to compare them before and after a test."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import xcffib.res

from soulslab.siphon.process.x11 import XConnection


def held() -> dict[str, object]:
    """Return descriptors, threads, children and shared memory of this process only."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "children": children,
        "shared maps": sum("/SYSV" in line or "Xvfb_screen" in line for line in maps),
        "segments": n_segments(),
    }


def n_segments() -> int:
    """Return the number of System V segments that this process created (cpid in /proc/sysvipc/shm)."""
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()
    column = lines[0].split().index("cpid")
    return sum(int(line.split()[column]) == os.getpid() for line in lines[1:])


def n_clients(x: XConnection) -> int:
    """Return the number of clients of a display."""
    return len(x.extension(xcffib.res.key).QueryClients().reply().clients)
