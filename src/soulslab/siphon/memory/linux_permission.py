"""Advice when Linux denies access to a process (``man 2 ptrace``, "Ptrace access mode checking")."""

from __future__ import annotations

import sys
from pathlib import Path

from soulslab.errors import AttachDeniedError

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
