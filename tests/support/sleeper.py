"""A process that does nothing, for tests that end a process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SLEEP = (sys.executable, "-c", "import time; time.sleep(1000)") if sys.platform == "win32" else ("/bin/sleep", "1000")


@contextmanager
def sleeping_process() -> Iterator[subprocess.Popen[bytes]]:
    """A context with the process."""
    with subprocess.Popen(SLEEP) as process:
        try:
            yield process
        finally:
            process.kill()
