"""Running processes on Linux, from /proc; `soulslab.siphon.process.windows` has the same functions.

Linux cuts process names to 15 characters, and Wine gives its processes Windows paths, so the name of a game is searched
in all places that may contain it.
"""

from __future__ import annotations

import glob
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import psutil

from soulslab.siphon.memory.linux import examining, read_regions
from soulslab.siphon.process.image import file_name
from soulslab.siphon.process.running_process import WINE_LOADERS, RunningProcess

#: Variables that identify the Windows installation of a Wine process.
_PREFIXES = ("WINEPREFIX", "STEAM_COMPAT_DATA_PATH")

_log = logging.getLogger(__name__)


def running() -> Iterator[RunningProcess]:
    """Yield the running processes that may be examined."""
    for pid in psutil.pids():
        try:
            one = psutil.Process(pid)
            with one.oneshot():
                if one.status() == psutil.STATUS_ZOMBIE:
                    continue
                # psutil would complete a name that the kernel has cut.
                comm = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").removesuffix("\n")
                yield RunningProcess(pid, comm, _program(one), tuple(one.cmdline()), one.create_time())
        except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        except psutil.AccessDenied as denial:
            _log.debug("process %d is left out: %s", pid, denial)


def _program(one: psutil.Process) -> str:
    try:
        return file_name(one.exe().removesuffix(" (deleted)"))
    except psutil.AccessDenied:
        return ""  # another user's; its name and command line still say what it is


def executable_of(pid: int) -> str:
    """Return the path of the program of a process (under Wine, the Windows program). Raises as `examining`."""
    with examining(pid):
        path = str(Path(f"/proc/{pid}/exe").readlink()).removesuffix(" (deleted)")
        arguments = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace").split("\0")
    if file_name(path) in WINE_LOADERS:
        return next((argument for argument in arguments if argument.casefold().endswith(".exe")), path)
    return path


def modules_of(pid: int) -> set[str]:
    """Return the file names of all files that a process has mapped. Raises as `examining`."""
    return {file_name(region.path) for region in read_regions(pid) if region.path}


def belong_together(pid: int, other: int) -> bool:
    """Return whether two processes may share a login session or a Windows installation."""
    try:
        if os.getsid(pid) == os.getsid(other):
            return True
        ours, theirs = (psutil.Process(one).environ() for one in (pid, other))
    except (psutil.AccessDenied, PermissionError):
        return True
    except (psutil.NoSuchProcess, ProcessLookupError):
        return False
    return any(ours.get(name) and ours.get(name) == theirs.get(name) for name in _PREFIXES)


def writers_of(path: Path) -> tuple[int, ...]:
    """Return the processes that have a file open for writing, by id; such a file must not be copied or replaced.

    Processes of other users that cannot be examined are skipped. Raises `FileNotFoundError` without the file.
    """
    wanted = path.stat()
    found = set()
    for name in glob.iglob("/proc/[0-9]*/fd/*"):  # noqa: PTH207  (Path.glob raises when a process ends meanwhile)
        descriptor, pid = Path(name), int(name.split("/")[2])
        try:
            # Device and inode, because a file can be opened under several names.
            held = descriptor.stat()
            if (held.st_dev, held.st_ino) == (wanted.st_dev, wanted.st_ino) and _is_for_writing(pid, descriptor.name):
                found.add(pid)
        except OSError:
            continue  # it was closed in the meantime
    return tuple(sorted(found))


def _is_for_writing(pid: int, number: str) -> bool:
    """Return whether the flags of a descriptor (octal, proc(5)) permit writing."""
    lines = Path(f"/proc/{pid}/fdinfo/{number}").read_text(encoding="ascii").splitlines()
    flags = next(int(line.split()[1], 8) for line in lines if line.startswith("flags:"))
    return flags & os.O_ACCMODE in (os.O_WRONLY, os.O_RDWR)
