"""Installing the clock library beside a game: the folder is restored byte for byte, also after an interruption."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from soulslab.errors import InstallError
from soulslab.siphon.clock import windows_install
from soulslab.siphon.clock.lockstep_page import windows_library
from soulslab.siphon.clock.windows_install import CLOCK, FUNCTIONS, NUMBERS, PROXY, RECORD, install, uninstall
from soulslab.siphon.profile import Process
from support.forked import ForkedPopen
from support.windows_program import program_file

NAME = f"AGameOf{os.getpid()}.exe"
PROCESS = Process(executable=NAME, anti_cheat=("guard.exe",))
IMPORTS = {"KERNEL32.dll": ("Sleep",), "XINPUT1_3.dll": ("XInputGetState", 3, 100)}
FOREIGN = b"MZ the library of another program"
KEPT = "xinput1_3.dll.soulslab-original"


@pytest.fixture
def program(tmp_path):
    path = tmp_path / NAME
    path.write_bytes(program_file(IMPORTS))
    (tmp_path / "data.pak").write_bytes(b"data")
    return path


def contents(program):
    return {one.name: one.read_bytes() for one in program.parent.iterdir()}


@pytest.mark.parametrize("name", ["", "xinput1_3.dll", "XInput1_3.DLL"])
def test_uninstalling_restores_the_folder(program, name):
    if name:
        (program.parent / name).write_bytes(FOREIGN)
    before = contents(program)
    record = install(program, PROCESS)
    after = contents(program)
    assert after[record.library] == windows_library(PROXY).read_bytes()
    assert after[CLOCK] == windows_library(CLOCK).read_bytes()
    assert after.get(f"{name}.soulslab-original") == (FOREIGN if name else None)
    assert uninstall(program) == record
    assert contents(program) == before


def test_installing_again_replaces_an_older_version(program, monkeypatch):
    before = contents(program)
    with monkeypatch.context() as patch:
        patch.setattr(windows_install, "windows_library", older_library)
        install(program, PROCESS)
    assert contents(program)["xinput1_3.dll"] == b"MZ older"
    install(program, PROCESS)
    assert contents(program)["xinput1_3.dll"] == windows_library(PROXY).read_bytes()
    uninstall(program)
    assert contents(program) == before


def older_library(name):
    class Older:
        def read_bytes(self):
            return b"MZ older"

    return Older()


#: Installs, and ends itself without any cleaning up before a change of the file system.
INTERRUPTED = """
import os, sys
from pathlib import Path
from soulslab.siphon.clock.windows_install import install, uninstall
from soulslab.siphon.profile import Process
left = int(sys.argv[2])
def count(event, arguments):
    global left
    if event in ("os.rename", "os.remove") or (event == "open" and "w" in str(arguments[1])):
        if left == 0:
            os.kill(os.getpid(), 9)
        left -= 1
program = Path(sys.argv[1])
if sys.argv[3] == "uninstall":
    install(program, Process(executable=program.name))
sys.addaudithook(count)
install(program, Process(executable=program.name)) if sys.argv[3] == "install" else uninstall(program)
"""


@pytest.mark.parametrize("command", ["install", "uninstall"])
@pytest.mark.parametrize("has_library", [False, True])
def test_uninstalling_restores_the_folder_after_a_kill_at_any_point(program, command, has_library):
    if has_library:
        (program.parent / "xinput1_3.dll").write_bytes(FOREIGN)
    before = contents(program)
    for n_changes in range(20):
        words = [sys.executable, "-c", INTERRUPTED, str(program), str(n_changes), command]
        with ForkedPopen(words) as process:
            status = process.wait()
        # Before the record is written, and after it is removed, there is nothing to restore.
        if (program.parent / RECORD).exists():
            uninstall(program)
        for one in program.parent.glob(f"{RECORD}*"):
            one.unlink()
        assert contents(program) == before, n_changes
        if status == 0:
            break
    assert n_changes == {"install": 6 + 2 * has_library, "uninstall": 3}[command]


def test_a_failed_installation_changes_nothing(program, monkeypatch):
    before = contents(program)

    def fail(path, data):
        if path.name == CLOCK:
            raise OSError(28, "No space left on device", str(path))
        write(path, data)

    write = windows_install._write
    monkeypatch.setattr(windows_install, "_write", fail)
    with pytest.raises(InstallError, match=r"No space left on device \(soulslab_clock.dll\)"):
        install(program, PROCESS)
    assert contents(program) == before


def test_a_library_that_was_replaced_since_then_is_kept(program):
    (program.parent / "xinput1_3.dll").write_bytes(FOREIGN)
    install(program, PROCESS)
    (program.parent / "xinput1_3.dll").write_bytes(b"MZ of an update")
    uninstall(program)
    assert set(contents(program)) == {NAME, "data.pak", "xinput1_3.dll", KEPT}
    assert contents(program)["xinput1_3.dll"] == b"MZ of an update"


def test_a_removed_library_is_restored(program):
    (program.parent / "xinput1_3.dll").write_bytes(FOREIGN)
    before = contents(program)
    install(program, PROCESS)
    (program.parent / "xinput1_3.dll").unlink()
    uninstall(program)
    assert contents(program) == before


def test_a_missing_original_is_reported_and_nothing_is_removed(program):
    (program.parent / "xinput1_3.dll").write_bytes(FOREIGN)
    install(program, PROCESS)
    (program.parent / KEPT).unlink()
    before = contents(program)
    with pytest.raises(InstallError, match=r"cannot be restored.*verify the files of the game"):
        uninstall(program)
    assert contents(program) == before


def test_uninstalling_what_is_not_installed_is_an_error(program):
    with pytest.raises(InstallError, match="soulslab is not installed there"):
        uninstall(program)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not a record"),
        ('{"library": "../data.pak", "proxy_sha256": "", "original_sha256": ""}', "not a library of XInput"),
    ],
)
def test_a_malformed_record_is_refused(program, text, message):
    (program.parent / RECORD).write_text(text)
    with pytest.raises(InstallError, match=message):
        uninstall(program)


def refused(program, match):
    before = contents(program)
    with pytest.raises(InstallError, match=match):
        install(program, PROCESS)
    assert contents(program) == before


@pytest.mark.parametrize("name", [KEPT, CLOCK])
def test_files_without_a_record_are_refused(program, name):
    (program.parent / name).write_bytes(b"MZ")
    refused(program, "no record of an installation; move it")


def test_our_library_without_a_record_is_refused(program):
    (program.parent / "xinput1_3.dll").write_bytes(windows_library(PROXY).read_bytes())
    refused(program, "is the library of soulslab, but there is no record")


@pytest.mark.parametrize("name", ["EasyAntiCheat", "start_protected_game.exe", "Guard.exe"])
def test_a_game_with_an_anti_cheat_is_refused(program, name):
    (program.parent / name).write_bytes(b"MZ")
    refused(program, f"contains an anti-cheat \\({name}\\).*without the anti-cheat")


def test_a_running_game_is_refused(program, tmp_path_factory):
    running = Path(shutil.copy("/bin/sleep", tmp_path_factory.mktemp("running") / NAME))
    with subprocess.Popen([running, "1000"]) as process:
        try:
            refused(program, f"runs \\(process {process.pid}\\); end the game first")
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not a Windows program"),
        (b"#!/bin/sh\n" * 50, "is not a Windows program"),
        (program_file(IMPORTS, machine=0x14C), "not a 64-bit program.*0x14c"),
        (program_file(IMPORTS)[:0x420], "headers are malformed"),
        (program_file({"KERNEL32.dll": ("Sleep",)}), "imports none of xinput1_4.dll.*--start"),
        (program_file({"xinput1_4.dll": ("XInputNew", 2, 9)}), "does not know: 9, XInputNew"),
        (program_file({"XINPUT9_1_0.dll": (4,)}), "does not know: 4"),
    ],
)
def test_other_programs_are_refused(program, data, message):
    program.write_bytes(data)
    refused(program, message)


def test_a_missing_program_is_named(tmp_path):
    with pytest.raises(InstallError, match=r"game\.exe: does not exist"):
        install(tmp_path / "game.exe", PROCESS)


def test_a_folder_that_cannot_be_written_is_named(program, monkeypatch):
    def deny(path, data):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(windows_install, "_write", deny)  # root may write to any folder
    refused(program, "cannot be changed: Permission denied .*allow your user to write")


def test_the_functions_are_those_of_the_library():
    text = (Path(windows_library(PROXY)).parent / "beside.def").read_text(encoding="ascii")
    entries = re.findall(r"^    (\w+) @(\d+)( NONAME)?$", text, re.MULTILINE)
    assert {int(number) for _, number, _ in entries} == NUMBERS
    assert {name for name, _, has_no_name in entries if not has_no_name} == FUNCTIONS
