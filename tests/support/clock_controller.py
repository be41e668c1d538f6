"""Starts a program with the clock library, sets its time and waits to be killed.

Usage: python clock_controller.py ON_ORPHAN SPEED COMMAND...; it prints the pid of the program when it is
ready. Speed 0 pauses the program.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from soulslab.siphon.clock.lockstep import LockstepClock
from soulslab.siphon.clock.lockstep_page import LockstepPage


def main(on_orphan: str, speed: float, command: list[str]) -> None:
    page = LockstepPage.create(on_orphan)
    process = subprocess.Popen(command, env={**os.environ, **page.environment()}, stdin=subprocess.PIPE)
    clock = LockstepClock(page, process.pid)
    time.sleep(0.02)
    if speed:
        clock.run(speed)
    else:
        clock.pause()
    sys.stdout.write(f"{process.pid}\n")
    sys.stdout.flush()
    while True:
        time.sleep(1000)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), sys.argv[3:])
