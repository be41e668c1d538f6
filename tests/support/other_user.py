"""A TCP relay that runs as another user: ``python other_user.py PORT``; its clients reach a server as that user.

It prints the port on which it listens and ends with its standard input. It uses the standard library only, because the
other user may not be able to read other files. `relayed` starts one for a test.
"""

import os
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


@contextmanager
def relayed(port):
    """A context with a relay of the user `NOBODY` to a port of this machine; yields its port. Requires root."""
    source = Path(__file__).read_text(encoding="utf-8")
    # Not `user=` of Popen: it forks, and a process with threads of gRPC sometimes crashes in between.
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    process = subprocess.Popen(
        [*user, "/usr/bin/env", "python3", "-I", "-c", source, str(port)],
        cwd="/",
        env={"PATH": os.environ["PATH"]},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stdout.readline()
        assert line, f"the relay ended with {process.wait()}"
        yield int(line)
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def copy(source, target):
    """Copy bytes until one side ends."""
    while data := source.recv(65536):
        target.sendall(data)
    target.shutdown(socket.SHUT_WR)


def main():
    """Relay until standard input ends."""
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        while True:
            near, _ = listener.accept()
            far = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
            for pair in ((near, far), (far, near)):
                threading.Thread(target=copy, args=pair, daemon=True).start()


if __name__ == "__main__":
    main()
