"""Processes that have a file open, because a file that is being written must not be copied or replaced."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

_log = logging.getLogger(__name__)


def writers_of(path: Path) -> tuple[int, ...]:
    """Return the processes that have a file open for writing, by id.

    Processes of other users that cannot be examined are skipped and logged.

    Args:
        path: Path of the file.

    Raises:
        FileNotFoundError: The file does not exist.
    """
    wanted = path.stat()
    found = set()
    for pid, descriptor in _descriptors():
        try:
            # Device and inode, because a file can be opened under several names.
            held = descriptor.stat()
            if (held.st_dev, held.st_ino) == (wanted.st_dev, wanted.st_ino) and _is_for_writing(pid, descriptor.name):
                found.add(pid)
        except OSError:
            continue  # it was closed in the meantime
    return tuple(sorted(found))


def _descriptors() -> Iterator[tuple[int, Path]]:
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            descriptors = list((process / "fd").iterdir())
        except PermissionError:
            _log.debug("process %s is left out: its files are not ours to see", process.name)
            continue
        except OSError:
            continue  # the process has ended
        for descriptor in descriptors:
            yield int(process.name), descriptor


def _is_for_writing(pid: int, number: str) -> bool:
    """Return whether the flags of a descriptor (octal, proc(5)) permit writing."""
    lines = Path(f"/proc/{pid}/fdinfo/{number}").read_text(encoding="ascii").splitlines()
    flags = next(int(line.split()[1], 8) for line in lines if line.startswith("flags:"))
    return flags & os.O_ACCMODE in (os.O_WRONLY, os.O_RDWR)
