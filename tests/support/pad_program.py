"""Compiles ``pad_program.c``, a program that reads a gamepad, and reads its report."""

from __future__ import annotations

import struct
import subprocess
from ctypes.util import find_library
from pathlib import Path
from shutil import which

import msgspec

from soulslab.games.facts import GAMES
from soulslab.siphon.profile import ClockFacts, Process, Profile, load_profile

SOURCE = Path(__file__).with_suffix(".c")
TICK_HZ = 60
#: How it reads the pad: SDL 2; the event device without waiting, with poll, select, epoll, or by a thread that waits in
#: read; the joystick device.
WAYS = ("sdl", "read", "poll", "select", "epoll", "thread", "joystick")
_REPORT = struct.Struct("<4q12s64s")


class Report(msgspec.Struct, frozen=True):
    """What the program has written: `pad` is that of the last tick, as XINPUT_GAMEPAD."""

    n_ticks: int
    n_devices: int
    n_presses: int
    n_others: int
    pad: bytes
    name: str


def compile_pad_program(folder: Path) -> Path:
    """Compile the program into a folder."""
    gcc, sdl = which("gcc"), find_library("SDL2-2.0")
    assert gcc, "gcc is not installed; scripts/bootstrap.py installs it"
    assert sdl, "SDL 2 is not installed; scripts/bootstrap.py installs it"
    program = folder / "pad_program"
    command = [gcc, "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", program, SOURCE, f"-l:{sdl}"]
    subprocess.run(command, check=True)
    return program


def pad_profile(program: Path, report: Path, way: str, game: str = "dark_souls_3") -> Profile:
    """Return a profile that starts the program, with the keys and controls of a game."""
    facts = load_profile(GAMES / game / "profile.toml")
    return Profile(
        name=f"pad_{way}",
        process=Process(
            executable=program.name,
            command=(str(program), str(report), way),
            environment={"SDL_VIDEODRIVER": "x11", "SDL_RENDER_DRIVER": "software"},
        ),
        keys=facts.keys,
        pad=facts.pad,
        clock=ClockFacts(grade="lockstep", tick_hz=TICK_HZ),
    )


def read_report(path: Path) -> Report:
    """Return the current report."""
    *numbers, pad, name = _REPORT.unpack_from(path.read_bytes())
    return Report(*numbers, pad, name.partition(b"\0")[0].decode())
