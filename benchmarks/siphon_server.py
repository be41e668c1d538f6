"""A server in a process of its own, for what is measured of its clients."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from soulslab.errors import SiphonError

#: A server may have a game to end.
END_S = 15.0


@contextmanager
def running_server(code: str, argument: str) -> Iterator[str]:
    """Run a Python program that prints the address of its server, and ends with its standard input.

    Args:
        code: The program.
        argument: What it is given.

    Yields:
        The address.

    Raises:
        SiphonError: It ended without an address.
    """
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code, argument], stdin=pipe, stdout=pipe, text=True) as process:
        try:
            place = process.stdout.readline().strip() if process.stdout else ""
            if not place:
                raise SiphonError("the server of the benchmark did not start; what it printed says why")
            yield place
        finally:
            if process.stdin:
                process.stdin.close()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
