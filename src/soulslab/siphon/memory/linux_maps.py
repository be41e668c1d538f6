"""The memory map of a process on Linux, from ``/proc/PID/maps`` (man 5 proc_pid_maps), and errors for denied access.

The rules of access are in ``man 2 ptrace``, "Ptrace access mode checking".
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from soulslab.errors import AttachDeniedError, ProcessExitedError
from soulslab.siphon.memory import Region

YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")

_ADVICE = {
    1: (
        "kernel.yama.ptrace_scope is 1, so a process may only read its children: let soulslab start the game, "
        "or run `sudo sysctl kernel.yama.ptrace_scope=0` (until the next boot), "
        "or give this Python the right: `sudo setcap cap_sys_ptrace=ep {python}`"
    ),
    2: (
        "kernel.yama.ptrace_scope is 2, so only CAP_SYS_PTRACE may read other processes: run "
        "`sudo setcap cap_sys_ptrace=ep {python}`, "
        "or `sudo sysctl kernel.yama.ptrace_scope=1` and let soulslab start the game"
    ),
    3: (
        "kernel.yama.ptrace_scope is 3, so no process may read others, and it can only be changed by a boot "
        "with another value in /etc/sysctl.d"
    ),
}
_OTHER_USER = (
    "the process belongs to another user, or was started with additional rights (setuid, capabilities): "
    "run soulslab as the user that runs the game, let soulslab start it, or give this Python the right: "
    "`sudo setcap cap_sys_ptrace=ep {python}`"
)


def denied(pid: int, yama: Path = YAMA) -> AttachDeniedError:
    """Return the error for a process that cannot be accessed, with advice.

    Args:
        pid: Process id.
        yama: File with the kernel's ptrace rule; absent in a kernel without one.
    """
    scope = int(yama.read_text(encoding="ascii")) if yama.exists() else 0
    advice = _ADVICE.get(scope, _OTHER_USER).format(python=Path(sys.executable).resolve())
    return AttachDeniedError(f"process {pid} must not be read: {advice}", pid=pid)


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
