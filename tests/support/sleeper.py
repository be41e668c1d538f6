"""A process that does nothing, for tests that end a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SLEEP = (os.environ["WINDOWS_GAME"], "sleep") if sys.platform == "win32" else ("/bin/sleep", "1000")


@contextmanager
def sleeping_process() -> Iterator[subprocess.Popen[bytes]]:
    """A context with the process."""
    with subprocess.Popen(SLEEP) as process:
        try:
            yield process
        finally:
            process.kill()
