"""The helper process of `soulslab.siphon.input.held_input`: ``python guard_process.py DISPLAY PID``, commands on stdin.

It imports xcffib only when it has keys to release, so that an unused guard is cheap.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from typing import Any


def main(display: str, owner: int) -> None:
    """Read lines until the owner closes the pipe or ends; then release the recorded keys."""
    held: dict[str, list[str]] = {}
    for line in lines_until_end(owner):
        command, name, *recipe = line.split()
        if command == "hold":
            held[name] = recipe
        else:
            held.pop(name, None)
    if held:
        release(display, list(held.values()))


def lines_until_end(owner: int) -> Iterator[str]:
    """Yield the lines of standard input until it is closed, or its owner (but not a fork of it) has ended."""
    pipe = sys.stdin.fileno()
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    try:
        owner_fd = os.pidfd_open(owner)
    except ProcessLookupError:
        owner_fd = -1  # the owner has ended already; the pipe contains all of its lines
    else:
        poll.register(owner_fd, select.POLLIN)
    rest = b""
    is_over = False
    while not is_over:
        ready = dict(poll.poll(0 if owner_fd < 0 else None))
        if pipe in ready:
            data = os.read(pipe, 65536)
            is_over = not data
            *lines, rest = (rest + data).split(b"\n")
            yield from (line.decode() for line in lines)
        else:
            is_over = True  # the owner has ended; the remaining lines are still read


def release(display: str, recipes: list[list[str]]) -> None:
    """Carry out the recipes (`soulslab.siphon.input.held_input.Guard`)."""
    import xcffib  # noqa: PLC0415  # see above
    import xcffib.xproto  # noqa: PLC0415
    import xcffib.xtest  # noqa: PLC0415

    connect: Any = xcffib.connect  # xcffib ships no types
    connection = connect(display)
    for how, *values in recipes:
        if how == "xtest":
            kind, detail = (int(value) for value in values)
            connection(xcffib.xtest.key).FakeInput(kind, detail, 0, 0, 0, 0, 0)
        else:
            window, mask, event = int(values[0], 16), int(values[1]), bytes.fromhex(values[2])
            connection.core.SendEvent(True, window, mask, event)
    connection.core.GetInputFocus().reply()
    connection.disconnect()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
