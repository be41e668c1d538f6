"""The wheel for Windows: built on Linux from the tracked files, and used by the Windows Python under Wine.

It is built with the address of a repository, so its metadata contains the URLs of the project.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from email import message_from_bytes
from zipfile import ZipFile

import pytest

from support.windows_python import PYTHON, ROOT, WindowsPython

ADDRESS = "https://github.com/owner/soulslab"
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


def environment(address):
    return {**os.environ, "SOULSLAB_REPOSITORY": address}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    command = [shutil.which("git"), "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if name.split("/")[0] in ("src", "setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)
    return folder


def built(source, folder):
    options = ["--no-deps", "--no-build-isolation", "--config-settings=--build-option=--plat-name=win_amd64"]
    command = [sys.executable, "-m", "pip", "--quiet", "wheel", *options, "-w", folder, source]
    subprocess.run(command, env=environment(ADDRESS), check=True)
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory):
    return built(source, tmp_path_factory.mktemp("wheel"))


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


def test_it_contains_no_module_that_was_deleted_after_an_earlier_build(wheel, source, tmp_path):
    module = source / "src/soulslab/doctor.py"
    kept = module.rename(tmp_path / "doctor.py")
    try:
        with ZipFile(built(source, tmp_path / "wheel")) as archive:
            names = archive.namelist()
    finally:
        kept.rename(module)
    assert "soulslab/demo.py" in names
    assert "soulslab/doctor.py" not in names


def test_links_and_pictures_of_its_description_are_absolute(wheel):
    with ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = message_from_bytes(archive.read(name))
    assert f"Issues, {ADDRESS}/issues" in metadata.get_all("Project-URL")
    assert metadata["Description-Content-Type"] == "text/markdown"
    description = metadata.get_payload()
    for mark, folder in (("!", "raw"), ("", "blob")):
        places = re.findall(rf"(?<!!){mark}\[[^][]*\]\({ADDRESS}/{folder}/HEAD/([^)#]+)", description)
        assert len(places) > 3
        assert all((ROOT / place).is_file() for place in places)
    links = re.findall(r"\]\(([^)]*)\)", description)
    assert all(link.startswith("https://") for link in links)


@pytest.mark.parametrize(("address", "is_allowed"), [("", True), ("https://name:password@github.com/a/b", False)])
def test_the_description_without_an_address_and_with_credentials_in_it(source, address, is_allowed):
    command = [sys.executable, "setup.py", "--long-description"]
    done = subprocess.run(
        command, cwd=source, env=environment(address), capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert (done.returncode == 0) is is_allowed
    assert "password" not in done.stdout + done.stderr
    if is_allowed:
        links = re.findall(r"(!?)\[[^][]*\]\(([^)]*)\)", done.stdout)
        assert links
        assert all(not mark and place.startswith(("https://", "#")) for mark, place in links)
        assert "The first hour continues from here to your own boss and your own reward." in done.stdout
        assert "| --- | --- |" not in done.stdout, "the table of pictures is left out"
        assert done.stdout.count("```") == (ROOT / "README.md").read_text(encoding="utf-8").count("```")
    else:
        assert "SOULSLAB_REPOSITORY is not of the form https://" in done.stderr


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
