"""Opening the memory of a process on this platform."""

from __future__ import annotations

import sys

from soulslab.siphon.memory import Memory

if sys.platform == "win32":
    from soulslab.siphon.memory.windows import WindowsMemory as PlatformMemory
else:
    from soulslab.siphon.memory.linux import LinuxMemory as PlatformMemory


def open_memory(pid: int) -> Memory:
    """Open the memory of a process.

    Raises:
        ProcessNotFoundError: The process does not exist.
        ProcessExitedError: It has ended.
        AttachDeniedError: The operating system denies access; the message explains how to get it.
    """
    return PlatformMemory(pid)
