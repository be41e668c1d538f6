"""Compiles ``loop_program.c``, a program with a window whose loop never sleeps, and reads its report."""

from __future__ import annotations

import struct
import subprocess
from ctypes.util import find_library
from pathlib import Path
from shutil import which

from soulslab.siphon.profile import ClockFacts, Process, Profile

SOURCE = Path(__file__).with_suffix(".c")
FIELDS = ("n_ticks", "n_keys", "n_turns", "keys_at_tick")
TICK_MS = 10
#: Names of the program's loops, which never sleep.
LOOPS = ("sdl_busy", "sdl_variable", "sdl_drawing_events", "x_busy", "x_round_trip", "variable")


def compile_loop_program(folder: Path) -> Path:
    """Compile the program into a folder."""
    gcc, sdl, x11 = which("gcc"), find_library("SDL2-2.0"), find_library("X11")
    assert gcc, "gcc is not installed; scripts/bootstrap.py installs it"
    assert sdl, "SDL 2 is not installed; scripts/bootstrap.py installs it"
    assert x11, "Xlib is not installed; scripts/bootstrap.py installs it"
    program = folder / "loop_program"
    command = [gcc, "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", program, SOURCE]
    subprocess.run([*command, f"-l:{sdl}", f"-l:{x11}"], check=True)
    return program


def loop_profile(program: Path, report: Path, loop: str) -> Profile:
    """Return a profile that starts the program with a loop."""
    return Profile(
        name=loop,
        process=Process(
            executable=program.name,
            command=(str(program), str(report), loop, str(TICK_MS)),
            environment={"SDL_VIDEODRIVER": "x11", "SDL_RENDER_DRIVER": "software"},
        ),
        clock=ClockFacts(grade="lockstep", tick_hz=1000 / TICK_MS),
    )


def read_report(report: Path) -> dict[str, int]:
    """Return the current fields of the report."""
    return dict(zip(FIELDS, struct.unpack_from(f"{len(FIELDS)}q", report.read_bytes()), strict=True))
