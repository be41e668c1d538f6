"""The process name of the game."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="names of processes are those of Linux")

PROGRAM = """
from soulslab.arena.window.memory.profile_memory import set_process_name

set_process_name("DarkSoulsIII.exe")
for name in ("cmdline", "comm", "environ"):
    with open(f"/proc/self/{name}", "rb") as file:
        print(file.read().hex())
"""


def renamed(environment):
    """Return command line, short name and environment of a program that has set its name."""
    run = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, check=True, text=True)
    return [bytes.fromhex(line) for line in run.stdout.split()]


def test_a_program_goes_by_the_name():
    line, short, _ = renamed({"PYTHONPATH": str(Path(__file__).parents[5] / "src")})
    assert line.rstrip(b"\0 ") == b"DarkSoulsIII.exe"
    assert short.strip() == b"DarkSoulsIII.ex"


def test_its_display_can_still_be_determined():
    environment = {"DISPLAY": ":77", "PYTHONPATH": str(Path(__file__).parents[5] / "src")}
    assert b"DISPLAY=:77" in renamed(environment)[2].split(b"\0")
