"""Held keys are released after any end of the program, on a display that outlives the program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import psutil
import pytest

from support.key_listener import listening
from support.waiting import wait_for

HOLD = """
import os, sys
from soulslab.siphon.input.x_input import open_input
from soulslab.siphon.process.window import find_window
from soulslab.siphon.process.x11 import XConnection

x = XConnection(os.environ["DISPLAY"])
keys = open_input(find_window(x, int(sys.argv[1])), sys.argv[2])
keys.set_held(["A", "SPACE"])
keys.set_held(["W", "SPACE", "MOUSE_LEFT"])
print("holds", flush=True)
sys.stdin.readline()
"""
W, SPACE, LEFT_BUTTON = 25, 65, -1


@contextmanager
def holding(listener, display, backend):
    """Start a program that holds keys of the listener, whose display outlives it."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(listener.pid), backend],
        env={**os.environ, **display.environment()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "holds\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def guards_of(pid):
    """Return the guard processes of a program."""
    guards = []
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if any(word.endswith("guard_process.py") for word in command) and command[-1] == str(pid):
            guards.append(process)
    return guards


@pytest.mark.parametrize("backend", ["xtest", "xsendevent"])
@pytest.mark.parametrize("end", ["SIGKILL", "SIGTERM", "exit"])
def test_keys_are_released_when_their_holder_ends(display, backend, end):
    with listening(display.name) as listener, holding(listener, display, backend) as holder:
        assert listener.down() == {W, SPACE, LEFT_BUTTON}
        # A process that has just started has no command line for a moment.
        wait_for(lambda: len(guards_of(holder.pid)) == 1, "the guard")
        if end == "exit":
            holder.stdin.write("\n")
            holder.stdin.flush()
        else:
            holder.send_signal(signal.Signals[end])
        wait_for(lambda: not listener.down(), "the release of the keys")
        holder.wait()
        # Each key went down and up once: what had been released before was not released again.
        assert [event["kind"] for event in listener.events if event.get("detail") == 38] == ["press", "release"]
        wait_for(lambda: not guards_of(holder.pid), "the end of the guard")
        assert listener.ask("keymap") == []
