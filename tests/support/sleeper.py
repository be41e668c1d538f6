"""A process that does nothing, for tests that end a process."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def sleeping_process() -> Iterator[subprocess.Popen[bytes]]:
    """A context with the process."""
    with subprocess.Popen(["/bin/sleep", "1000"]) as process:
        try:
            yield process
        finally:
            process.kill()
