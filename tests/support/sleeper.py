"""A process that does nothing, for what needs one that can end."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def sleeping_process() -> Iterator[subprocess.Popen[bytes]]:
    """Run it, and end it whatever happens."""
    with subprocess.Popen(["/bin/sleep", "1000"]) as process:
        try:
            yield process
        finally:
            process.kill()
