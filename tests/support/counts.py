"""System resources of this process, to compare them before and after a test."""

from __future__ import annotations

import os
import re
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import xcffib.res

from soulslab.siphon.process.x11 import XConnection
from support.waiting import PATIENCE_S, POLL_S

_FILE_OF_THREAD = re.compile(r"/proc/(\d+)/task/")


def held() -> Counter[str]:
    """Return the numbers of descriptors by kind, threads, children and pieces of shared memory of this process."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return Counter(descriptors()) + Counter(
        {
            "threads": threading.active_count(),
            "children": len(children),
            "shared maps": sum("/SYSV" in line or "Xvfb_screen" in line for line in maps),
            "segments": len(segments_of([os.getpid()])),
        }
    )


def check_released(before: Counter[str]) -> None:
    """Wait until no more is held than `held` returned before; what earlier tests left may be released meanwhile."""
    end = time.monotonic() + PATIENCE_S
    while (left := held() - before) and time.monotonic() < end:
        time.sleep(POLL_S)
    assert not left, f"still held: {dict(left)}"


def descriptors() -> Iterator[str]:
    """Yield the kind of each open descriptor of this process: ``file``, ``pipe``, ``socket``, ``anon_inode``.

    Files about the threads of a running game are left out: a session holds three for each thread, and a game may start
    and end threads at any time. Those of a game that has ended count.
    """
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = str(entry.readlink())
            of_thread = _FILE_OF_THREAD.match(target)
            if of_thread and Path("/proc", of_thread[1]).exists():
                continue
            yield "file" if target.startswith("/") else target.partition(":")[0]
        except FileNotFoundError:  # the descriptor of this listing
            continue


def segments_of(pids: Iterable[int], since_s: float = 0.0) -> list[int]:
    """Return the System V segments that processes created (shmid, cpid and ctime in /proc/sysvipc/shm).

    Args:
        pids: Process ids.
        since_s: Unix time of the start of the test. A segment outlives its creator, so an older one may belong to an
            earlier process with a reused id.
    """
    header, *lines = Path("/proc/sysvipc/shm").read_text().splitlines()
    segments = [dict(zip(header.split(), map(int, line.split()), strict=True)) for line in lines]
    creators = set(pids)
    return [about["shmid"] for about in segments if about["cpid"] in creators and about["ctime"] >= int(since_s)]


def n_clients(x: XConnection) -> int:
    """Return the number of clients of a display."""
    return len(x.extension(xcffib.res.key).QueryClients().reply().clients)
