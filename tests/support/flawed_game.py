"""Compiles ``flawed_game.c``, a small game with an optional flaw in its time, and writes its profile."""

from __future__ import annotations

import subprocess
from pathlib import Path
from shutil import which

SOURCE = Path(__file__).with_suffix(".c")
_PROFILE = """\
format = 1
name = "Flawed game"

[process]
executable = "flawed_game"
command = ["{program}", "{{flaw}}", "{{at}}"]
options = {{ flaw = "none", at = "20" }}

[bases.state]
module = ""
offset = {offset}
source = "symbol state"

{attributes}
[keys]
left = "A"
right = "D"
restart = "R"

[clock]
grade = "lockstep"
tick_hz = 60
tick_attribute = "ticks"

[env]
step_ticks = 1
state = ["x"]

[env.actions]
left = ["left"]
right = ["right"]

[[env.reset]]
tap = ["restart"]
ticks = 1
"""
_ATTRIBUTE = """\
[attributes.{name}]
base = "state"
offsets = [0, {offset}]
type = "i32"
range = [-2147483648, 2147483647]
source = "struct game"

"""


def build_flawed_game(folder: Path) -> Path:
    """Compile the game into a folder; return its profile there."""
    program = folder / "flawed_game"
    gcc, nm = which("gcc"), which("nm")
    assert gcc, "gcc is not installed; scripts/bootstrap.py installs it"
    assert nm, "nm is not installed; it comes with gcc"
    subprocess.run([gcc, "-O1", "-pthread", "-o", str(program), str(SOURCE), "-l:libX11.so.6"], check=True)
    symbols = subprocess.run([nm, str(program)], capture_output=True, text=True, check=True).stdout.splitlines()
    offset = next(int(line.split()[0], 16) for line in symbols if line.split()[-1] == "state")
    names = ("ticks", "x", "n_presses", "value", "motion")
    attributes = "".join(_ATTRIBUTE.format(name=name, offset=4 * i) for i, name in enumerate(names))
    profile = folder / "flawed_game.toml"
    profile.write_text(_PROFILE.format(program=program, offset=offset, attributes=attributes))
    return profile
