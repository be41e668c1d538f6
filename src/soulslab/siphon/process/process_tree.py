"""Processes that descend from a started one, and the end of processes (from /proc and by descriptors)."""

from __future__ import annotations

import ctypes
import os
import select
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

from soulslab.siphon.process.discovery import has_ended
from soulslab.siphon.process.image import file_name, same_name

PROC = Path("/proc")
#: Command of shmctl(2) that removes a segment after its last user has detached it (<sys/ipc.h>).
IPC_RMID = 0


def process_ids() -> set[int]:
    """Return the ids of all processes."""
    with os.scandir(PROC) as entries:
        return {int(entry.name) for entry in entries if entry.name.isdigit()}


def marked(variable: str, value: str, pids: Iterable[int]) -> set[int]:
    """Return those of some processes whose environment has a variable with a value."""
    wanted = f"{variable}={value}".encode()
    return {pid for pid in pids if wanted in _words(PROC / str(pid) / "environ")}


def is_program(pid: int, executable: str) -> bool:
    """Return whether a process runs the program with a file name."""
    # Under Wine the program is Wine, and its command line contains the path of the game. The name in the command line
    # is compared as well, because /usr/bin/python3 is a link to another name, and the program of a script is the shell.
    first = _words(PROC / str(pid) / "cmdline")[0].decode(errors="replace")
    try:
        path = str((PROC / str(pid) / "exe").readlink()).removesuffix(" (deleted)")
    except OSError:  # it has ended, or belongs to another user
        path = ""
    return any(same_name(file_name(name), executable) for name in (path, first))


def living(pids: Collection[int]) -> set[int]:
    """Return the processes that have not ended; a zombie has ended."""
    return {pid for pid in pids if not has_ended(pid)}


def await_end(pids: Collection[int], wait_s: float, pidfds: Mapping[int, int] | None = None) -> bool:
    """Wait up to `wait_s` until all processes have ended; return whether they have.

    `pidfds` are open descriptors of the processes, which are correct even if a process id was reused.
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


def remove_shared_memory(pids: Collection[int], since_s: float) -> None:
    """Remove the private System V segments that ended processes created since a Unix time.

    The kernel does not do so: a game that marks its segments for removal only when it exits leaves them when it is
    killed, and the kernel allows 4,096 segments in total (SHMMNI). The X server may still have attached one, which then
    exists until the server detaches it. Segments older than `since_s`, the start of the first process, belong to
    another process with a reused id.
    """
    try:
        header, *lines = (PROC / "sysvipc" / "shm").read_text().splitlines()
    except FileNotFoundError:  # a kernel without System V shared memory
        return
    columns = header.split()
    for line in lines:
        about = dict(zip(columns, map(int, line.split()), strict=True))
        is_theirs = about["cpid"] in pids and about["ctime"] >= int(since_s) and about["cuid"] == os.getuid()
        if is_theirs and about["key"] == 0:
            # This fails only if the segment is gone, which is the purpose.
            ctypes.CDLL(None).shmctl(about["shmid"], IPC_RMID, None)


def _words(path: Path) -> list[bytes]:
    """Return the zero-terminated parts of a file of /proc; one empty part if it cannot be read."""
    try:
        return path.read_bytes().split(b"\0")
    except OSError:  # it has ended, or belongs to another user
        return [b""]
