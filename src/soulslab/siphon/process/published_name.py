"""Names that a process on Windows publishes for itself, beside that of its program.

The built-in fight runs in ``python.exe`` and takes the name of a game (``eldenring.exe``), which Linux supports by
prctl(2). On Windows the name is in named shared memory of the login session, which ends with the process.
"""

from __future__ import annotations

import mmap
import os
from typing import Any

_SIZE = 1024
#: Keeps the published name until the process ends.
_published: list[mmap.mmap] = []


def publish_name(name: str) -> None:
    """Publish a name of this process, at most 255 characters."""
    section = _section(os.getpid())
    section[:] = name.encode().ljust(_SIZE, b"\0")
    _published.append(section)


def published_name(pid: int) -> str:
    """Return the name that a process has published; "" without one."""
    with _section(pid) as section:
        return section[:].rstrip(b"\0").decode()


def _section(pid: int) -> mmap.mmap:
    """Return the shared memory for the name of a process; it is created, and removed with its last user."""
    shared_memory: Any = mmap.mmap
    section: mmap.mmap = shared_memory(-1, _SIZE, tagname=f"Local\\soulslab-name-{pid}")
    return section
