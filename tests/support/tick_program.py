"""Compiles ``tick_program.c``, a program with a game loop that counts its ticks on the heap."""

from __future__ import annotations

import subprocess
from pathlib import Path
from shutil import which

SOURCE = Path(__file__).with_suffix(".c")


def compile_tick_program(folder: Path) -> Path:
    """Compile the program into a folder."""
    program = folder / "tick_program"
    gcc = which("gcc")
    assert gcc, "gcc is not installed; scripts/bootstrap.py installs it"
    subprocess.run([gcc, "-O1", "-o", str(program), str(SOURCE)], check=True)
    return program
