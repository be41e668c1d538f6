"""The memory map of a process on Linux, from ``/proc/PID/maps`` (man 5 proc_pid_maps)."""

from __future__ import annotations

import re
from pathlib import Path

from soulslab.errors import ProcessExitedError
from soulslab.siphon.memory import Region
from soulslab.siphon.memory.linux_permission import denied

_ESCAPED = re.compile(r"\\([0-7]{3})")
#: Regions that are mapped as readable but that only the kernel can read.
_KERNEL_PAGES = ("[vvar]", "[vvar_vclock]", "[vsyscall]")


def read_regions(pid: int) -> list[Region]:
    """Return the mapped regions of a process, ascending; none for one that has ended.

    Raises:
        ProcessExitedError: The process does not exist any more.
        AttachDeniedError: The operating system denies access.
    """
    try:
        # File names are bytes; surrogates preserve names that are not UTF-8.
        text = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="surrogateescape")
    except (FileNotFoundError, ProcessLookupError) as error:
        raise ProcessExitedError(f"process {pid} has ended", pid=pid) from error
    except PermissionError as error:
        raise denied(pid) from error
    return [_parse_region(line) for line in text.split("\n") if line]


def _parse_region(line: str) -> Region:
    """Parse a line of ``/proc/PID/maps``: ``start-end rwxp offset device inode   path``."""
    addresses, access, _, _, _, *path = line.split(maxsplit=5)
    start, end = addresses.split("-")
    name = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), path[0]) if path else ""
    is_file = name.startswith("/")
    return Region(
        start=int(start, 16),
        end=int(end, 16),
        is_readable=access[0] == "r" and name not in _KERNEL_PAGES,
        is_writable=access[1] == "w",
        is_executable=access[2] == "x",
        path=name.removesuffix(" (deleted)") if is_file else "",
    )
