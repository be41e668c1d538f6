"""A server in a separate process, for benchmarks of its clients."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from soulslab.errors import SiphonError

#: Time for a server to end its game (s).
END_S = 15.0


@contextmanager
def running_server(code: str, argument: str) -> Iterator[str]:
    """Run a Python program that prints the address of its server and ends when its standard input is closed.

    Args:
        code: The program.
        argument: Its argument.

    Yields:
        The address.

    Raises:
        SiphonError: The program ended without printing an address.
    """
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code, argument], stdin=pipe, stdout=pipe, text=True) as process:
        try:
            place = process.stdout.readline().strip() if process.stdout else ""
            if not place:
                raise SiphonError("the server of the benchmark did not start; see its output above")
            yield place
        finally:
            if process.stdin:
                process.stdin.close()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
