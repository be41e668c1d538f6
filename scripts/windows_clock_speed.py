"""Measure the lockstep clock on Windows: steps per second of the small Windows game, for each kind of its loop.

Run by a Python for Windows, also under Wine: python scripts/windows_clock_speed.py SmallWindowsGame.exe
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from soulslab.siphon.clock.lockstep import LockstepClock
from soulslab.siphon.clock.lockstep_page import LockstepPage
from soulslab.siphon.clock.windows_start import start_with_clock

LOOPS = ("spin", "coarse", "event", "tick_count", "sleep", "timer", "multimedia", "window_timer", "thread", "workers")
TICK_S = 1 / 60
N_WARM_UP, N_STEPS = 300, 3000


def measure(game: Path, loop: str) -> float:
    """Return the steps of one tick per second of wall time."""
    page = LockstepPage.create()
    with start_with_clock([game, loop], page) as process:
        try:
            clock = LockstepClock(page, process.pid)
            clock.advance(N_WARM_UP * TICK_S)
            started_s = time.perf_counter()
            for _ in range(N_STEPS):
                clock.advance(TICK_S)
            return N_STEPS / (time.perf_counter() - started_s)
        finally:
            page.close()
            process.kill()


def main() -> None:
    """Print a table."""
    for loop in LOOPS:
        sys.stdout.write(f"{loop:<14}{measure(Path(sys.argv[1]), loop):8.0f} steps/s\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
