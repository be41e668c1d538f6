"""The wheel for Windows: built on Linux from the tracked files, and used by the Windows Python under Wine."""

import hashlib
import shutil
import subprocess
import sys
from zipfile import ZipFile

import pytest

from support.windows_python import PYTHON, ROOT, WindowsPython

DLLS = "soulslab/siphon/clock/windows"
CHECK = """
import sys
sys.dont_write_bytecode = True  # each run has another folder
from pathlib import Path
import soulslab
from soulslab import doctor
from soulslab.siphon.clock.lockstep_page import native_library

native_library()
checks = [*doctor.check_packages(), *doctor.check_clock(), *doctor.check_memory()]
missing = [(one.name, one.detail) for one in checks if one.state is doctor.State.MISSING]
print(Path(soulslab.__file__).parent.parent.name, missing)
sys.stdout.write(doctor.lines(checks))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [shutil.which("git"), "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if name.split("/")[0] in ("src", "setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
            target = folder / "source" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)
    options = ["--no-deps", "--no-build-isolation", "--config-settings=--build-option=--plat-name=win_amd64"]
    command = [sys.executable, "-m", "pip", "--quiet", "wheel", *options, "-w", folder / "dist", folder / "source"]
    subprocess.run(command, check=True)
    (path,) = (folder / "dist").iterdir()
    return path


def test_its_tags_are_those_of_windows(wheel):
    assert wheel.name.endswith("-py3-none-win_amd64.whl")


def test_it_contains_the_dlls_of_the_repository_and_no_library_of_linux(wheel):
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        sums = dict(line.split()[::-1] for line in archive.read(f"{DLLS}/SHA256SUMS").decode("ascii").splitlines())
        found = {name: hashlib.sha256(archive.read(f"{DLLS}/{name}")).hexdigest() for name in sums}
    assert found == sums
    assert set(sums) == {"soulslab_clock.dll", "soulslab_control.dll", "soulslab_xinput.dll"}
    assert [name for name in names if name.endswith((".so", ".pyd"))] == []
    assert "soulslab/learn/configs/demo.toml" in names


def test_windows_python_runs_it(wheel, windows, request, tmp_path):
    here = ["--no-deps", "--platform", "win_amd64", "--python-version", PYTHON, "--only-binary", ":all:"]
    folder = tmp_path / "installed"
    subprocess.run([sys.executable, "-m", "pip", "--quiet", "install", *here, "--target", folder, wheel], check=True)
    with windows.occupied():
        python = WindowsPython(request.config.cache.mkdir("windows_python"), windows)
        python.use(folder)
        first, *lines = python.run(CHECK).splitlines()
    assert first == "installed []"
    assert any(line.split() == ["game", "time", "ok", "lockstep"] for line in lines)
