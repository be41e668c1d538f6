"""The processes that came of one that we started: which they are, which live, when they end. Linux, by /proc."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from pathlib import Path

from soulslab.siphon.process.discovery import has_ended
from soulslab.siphon.process.image import file_name, same_name

PROC = Path("/proc")


def marked(variable: str, value: str) -> set[int]:
    """Return the processes whose environment holds a variable with this value.

    It passes from a process to all that it starts, also to those that cut themselves loose by a session of their own.
    """
    wanted = f"{variable}={value}".encode()
    return {int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit() and wanted in _words(entry / "environ")}


def is_program(pid: int, executable: str) -> bool:
    """Tell whether a process runs the program of this file name."""
    # Under Wine the program that runs is Wine, which writes the path of the game into its command line. There is also
    # the name that a program was started by, as /usr/bin/python3 is a link to another; of a script it is the shell's.
    first = _words(PROC / str(pid) / "cmdline")[0].decode(errors="replace")
    try:
        path = str((PROC / str(pid) / "exe").readlink()).removesuffix(" (deleted)")
    except OSError:  # it has ended, or is not ours
        path = ""
    return any(same_name(file_name(name), executable) for name in (path, first))


def living(pids: Collection[int]) -> set[int]:
    """Return those that have not ended; one that waits for its parent to ask for its status has."""
    return {pid for pid in pids if not has_ended(pid)}


def await_end(pids: Collection[int], wait_s: float, pidfds: Mapping[int, int] | None = None) -> bool:
    """Wait until all have ended; tell whether they have.

    Args:
        pids: The processes.
        wait_s: At most so long; 0 only looks.
        pidfds: Descriptors of processes that are open already; by them a number that was used again is no mistake.
    """
    deadline = time.monotonic() + wait_s
    known = pidfds or {}
    with ExitStack() as opened:
        for pid in pids:
            fd = known.get(pid)
            if fd is None:
                try:
                    fd = os.pidfd_open(pid)
                except ProcessLookupError:
                    continue
                opened.callback(os.close, fd)
            left_ms = max(deadline - time.monotonic(), 0.0) * 1000
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            if not poll.poll(left_ms):
                return False
    return True


def _words(path: Path) -> list[bytes]:
    """Return the parts of a file of /proc that ends each with a zero byte; one empty part if it cannot be read."""
    try:
        return path.read_bytes().split(b"\0")
    except OSError:  # it has ended, or is not ours
        return [b""]
