"""A server process with the toy game: ``python -m support.siphon_server ADDRESS TOKEN``.

It prints its address when it is ready and ends with its standard input. `serving` starts one for a test.
"""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.testing.fake_session import FakeSession

TESTS = Path(__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(TESTS)}


@contextmanager
def program(*words):
    """A context with a process ``python -m words``; waits for its first line, and yields the process and the line."""
    process = subprocess.Popen(
        [sys.executable, "-m", *words], env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        line = process.stdout.readline()
        assert line, f"{words} ended with {process.wait()}"
        yield process, json.loads(line)
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def serving(address, token):
    """A context with a server; yields its process and its address."""
    return program("support.siphon_server", address, token)


def main():
    """Serve until standard input ends."""
    address, token = sys.argv[1:]
    with FakeSession() as toys, serve(toys, ServerOptions(address=address, token=token)) as server:
        sys.stdout.write(json.dumps(server.address) + "\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
