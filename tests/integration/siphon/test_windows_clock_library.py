"""The clock library for Windows: the files of the package are those of the sources, small, and need kernel32 only."""

import hashlib
import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location

import pytest

from support.windows_python import ROOT
from support.wine import COMPILER, program

MAX_BYTES = 16 * 1024
GAME_SIDE, CONTROL_SIDE, BESIDE_GAME = "soulslab_clock.dll", "soulslab_control.dll", "soulslab_xinput.dll"


@pytest.fixture(scope="module")
def script():
    spec = spec_from_file_location("build_windows_clock", ROOT / "scripts" / "build_windows_clock.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_build_makes_the_same_bytes():
    program(f"{COMPILER}-gcc")
    command = [sys.executable, ROOT / "scripts" / "build_windows_clock.py", "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_other_bytes_are_a_difference(script, tmp_path):
    for name in (*script.LIBRARIES, script.SUMS):
        (tmp_path / name).write_bytes((script.SOURCES / name).read_bytes())
    assert script.differences(tmp_path) == []
    (tmp_path / BESIDE_GAME).write_bytes(b"MZ")
    assert script.differences(tmp_path) == [BESIDE_GAME]


def test_the_hashes_are_those_of_the_files(script):
    lines = (script.SOURCES / script.SUMS).read_text(encoding="ascii").splitlines()
    expected = {name: hashlib.sha256((script.SOURCES / name).read_bytes()).hexdigest() for name in script.LIBRARIES}
    assert {name: digest for digest, name in map(str.split, lines)} == expected


@pytest.mark.parametrize("name", [GAME_SIDE, CONTROL_SIDE, BESIDE_GAME])
def test_the_library_is_small_and_imports_kernel32_only(script, name):
    path = script.SOURCES / name
    assert path.stat().st_size <= MAX_BYTES
    command = [program(f"{COMPILER}-objdump"), "-p", path]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert re.findall(r"DLL Name: (\S+)", text) == ["KERNEL32.dll"]


@pytest.mark.parametrize("name", [GAME_SIDE, BESIDE_GAME])
def test_the_documentation_has_the_hashes_of_the_libraries_in_the_game(script, name):
    digest = hashlib.sha256((script.SOURCES / name).read_bytes()).hexdigest()
    assert digest in (ROOT / "docs" / "clock.md").read_text(encoding="utf-8")
