"""The bridge on Windows: steps per second of the lockstep clock, and the cost of a snapshot of 20 attributes.

A Python for Windows measures both under Wine, with the small game of the tests, which waits for its next tick in
different ways. Both come from the folder ``tests/support``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import msgspec

from benchmarks.result import Result, Row
from benchmarks.siphon_memory import MemoryBenchSettings, measure_memory
from benchmarks.timing import seconds, with_progress
from soulslab.errors import ClockUnavailableError, SoulslabError
from soulslab.siphon.local import open_session
from soulslab.siphon.tick_alignment import TickAlignment

ROOT = Path(__file__).parents[1]
SUPPORT = ROOT / "tests"
#: Folder in which the tests keep the Python for Windows.
CACHE = ROOT / ".pytest_cache" / "d" / "windows_python"
TICK_S = 1 / 60
N_WARM_UP = 60
#: Names of the loops of the game (``windows_game.c``), and how they wait for the next tick.
LOOPS: Mapping[str, str] = {
    "spin": "PeekMessage, QueryPerformanceCounter",
    "coarse": "Sleep(1), timeGetTime",
    "event": "MsgWaitForMultipleObjects, QueryPerformanceCounter",
    "tick_count": "Sleep(1), GetTickCount",
    "sleep": "Sleep for the whole tick",
    "timer": "waitable timer",
    "multimedia": "timeSetEvent and an event",
    "window_timer": "SetTimer, GetMessage",
    "thread": "a second thread plays, the first takes messages",
    "workers": "a second thread computes each tick, by events",
    "conditions": "the same by condition variables",
}
#: Target for the steps per second, and the loops that it is for: one for each source of time.
TARGET_STEPS_PER_S = 800
TARGET_LOOPS = ("spin", "coarse", "event", "tick_count")
_MEASURE = """
import sys
import msgspec
from benchmarks.windows import WindowsBenchSettings, measure_here

settings = msgspec.json.decode(sys.argv[1], type=WindowsBenchSettings)
print(msgspec.json.encode(measure_here(settings)).decode())
"""


class WindowsBenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        n_steps: Steps of one tick per round.
        n_rounds: Rounds per loop; the table has the median speed.
        memory: Settings of reading memory. A call takes 0.1 ms under Wine, so there are few.
    """

    n_steps: int = 600
    n_rounds: int = 3
    memory: MemoryBenchSettings = MemoryBenchSettings(n_reads=20, n_rounds=10)

    @classmethod
    def quick(cls) -> WindowsBenchSettings:
        """Return settings for a short run."""
        return cls(n_steps=100, n_rounds=3, memory=MemoryBenchSettings(n_reads=5, n_rounds=3))


def measure_windows(settings: WindowsBenchSettings) -> list[Result]:
    """Measure the lockstep clock and reading memory by a Python for Windows under Wine.

    Raises:
        SoulslabError: This is Windows, which has no Wine.
    """
    if sys.platform == "win32":
        raise SoulslabError("this benchmark needs Wine, on Linux; on Windows, run the benchmark siphon")
    sys.path.append(str(SUPPORT))
    from soulslab.siphon.process.private_display import PrivateDisplay  # noqa: PLC0415  (Linux only)
    from support.windows_python import WindowsPython  # noqa: PLC0415  (not on the path before)
    from support.wine import WindowsInstallation  # noqa: PLC0415

    CACHE.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder, PrivateDisplay((800, 600)) as display:
        windows = WindowsInstallation(Path(folder))
        with windows.in_use(), windows.occupied():
            python = WindowsPython(CACHE, windows)
            python.use(ROOT, ROOT / "src", SUPPORT)
            printed = python.run(_MEASURE, msgspec.json.encode(settings).decode(), display=display.name)
    return msgspec.json.decode(printed, type=list[Result])


def measure_here(settings: WindowsBenchSettings) -> list[Result]:
    """Measure by this Python, on Windows.

    Raises:
        ClockUnavailableError: The clock does not hold the game.
    """
    title = f"lockstep on Windows, under Wine: {settings.n_rounds} times {settings.n_steps} steps of 1/60 s"
    rows = [measure_clock(loop, settings) for loop in with_progress(LOOPS, "stepping")]
    return [Result(title=title, rows=rows), measure_memory(settings.memory)]


def measure_clock(loop: str, settings: WindowsBenchSettings) -> Row:
    """Step the small game with one of its loops; return its ticks and the speed."""
    from support.windows_profile import PROFILE, start_options  # noqa: PLC0415  (only on the path of the tests)

    with open_session(PROFILE, start_options(loop)) as session:
        if session.info.clock_grade != "lockstep":
            raise ClockUnavailableError(session.info.clock_reason)
        session.clock.pause()
        TickAlignment(session.profile).align(session)

        def step(n_steps: int = settings.n_steps) -> None:
            for _ in range(n_steps):
                session.clock.advance(TICK_S)

        step(N_WARM_UP)
        before = session.read("ticks")
        times_s = [seconds(step) for _ in range(settings.n_rounds)]
        n_ticks = int(session.read("ticks")) - int(before)
    return {
        "loop of the game": LOOPS[loop],
        "steps": settings.n_steps * settings.n_rounds,
        "ticks": n_ticks,
        "steps/s": settings.n_steps / median(times_s),
        "target steps/s": TARGET_STEPS_PER_S if loop in TARGET_LOOPS else None,
    }
