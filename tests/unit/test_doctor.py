"""Checks of the installation, on this machine and with simulated defects."""

import os
import shutil
import sys
from collections import namedtuple
from importlib import metadata

import pytest
from rich.console import Console

from soulslab import cli, doctor
from soulslab.doctor import Check, State
from soulslab.errors import (
    AmbiguousProcessError,
    AntiCheatError,
    AttachDeniedError,
    ClockUnavailableError,
    ProcessNotFoundError,
)
from soulslab.siphon.clock.lockstep_page import native_library


def only(checks):
    (check,) = checks
    return check


@pytest.mark.parametrize(
    "check",
    [
        doctor.check_python,
        doctor.check_processor,
        doctor.check_kernel_cache,
        doctor.check_torch,
        doctor.check_video,
        doctor.check_fight,
    ],
)
def test_all_checks_pass_on_this_machine(check):
    assert only(check()).state is not State.MISSING


def test_installed_packages_have_the_tested_versions():
    checks = {check.name: check for check in doctor.check_packages()}
    assert {"numpy", "numba", "gymnasium", "extra learn", "extra siphon"} <= checks.keys()
    assert all(check.state is State.OK for check in checks.values())


def test_package_of_another_version(monkeypatch):
    monkeypatch.setattr(doctor, "_pins", lambda: {"numpy": "0.1"})
    checks = {check.name: check for check in doctor.check_tested_versions()}
    assert checks["numpy"] == Check(
        "numpy", State.WARNING, f"{metadata.version('numpy')}, tested with 0.1", "run: make setup"
    )


def test_a_missing_required_package(monkeypatch):
    monkeypatch.setattr(metadata, "requires", lambda _: ["no-such-thing>=1"])
    found = next(doctor.check_packages())
    assert found == Check("no-such-thing", State.MISSING, "not installed", "pip install soulslab")


def test_a_missing_extra_is_a_warning_with_the_command(monkeypatch):
    monkeypatch.setattr(metadata, "requires", lambda _: ['no-such-thing[x]>=1; extra == "learn"'])
    found = next(doctor.check_packages())
    assert (found.name, found.state, found.detail) == ("extra learn", State.WARNING, "not installed: no-such-thing")
    assert found.remedy == "for training: pip install 'soulslab[learn]'"


def test_packages_for_development_are_only_checked_with_dev(monkeypatch):
    monkeypatch.setattr(metadata, "requires", lambda _: ['no-such-thing; extra == "docs"'])
    assert all(check.state is State.OK for check in doctor.check_packages())
    assert only(doctor.check_tested_versions()).detail == "not installed (extra docs)"


def test_without_a_terminal_each_check_is_one_line(monkeypatch, capsys):
    checks = [Check("disk", State.OK, "9 GB"), Check("extra learn", State.WARNING, "two\nlines", "pip install x")]
    monkeypatch.setattr(doctor, "examine", lambda **_: checks)
    assert cli.run(["doctor"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown == ["disk         ok       9 GB", "extra learn  warning  two lines -> pip install x"]


def test_the_exit_code_reports_a_missing_requirement(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "examine", lambda **_: [Check("numpy", State.MISSING, "not installed")])
    assert cli.run(["doctor", "--dev"]) == 1


def test_packages_of_other_systems_are_not_missing(monkeypatch):
    requirement = 'no-such-thing>=1; sys_platform == "plan9" and extra == "siphon"'
    monkeypatch.setattr(metadata, "requires", lambda _: [requirement])
    assert all(check.state is State.OK for check in doctor.check_packages())


def test_full_disk(monkeypatch):
    usage = namedtuple("usage", "total used free")(10**12, 10**12, 10**8)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert only(doctor.check_disk()).state is State.WARNING


@pytest.mark.skipif(os.name == "nt", reason="Windows always has a desktop")
def test_display(monkeypatch):
    monkeypatch.setenv("DISPLAY", ":7")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    desktop, private = doctor.check_display()
    assert desktop == Check("display", State.OK, ":7")
    assert private.state is State.OK
    monkeypatch.delenv("DISPLAY")
    monkeypatch.setenv("PATH", "/nowhere")
    desktop, private = doctor.check_display()
    assert desktop.state is State.WARNING
    assert "apt-get install xvfb" in private.remedy


def test_a_missing_clock_library(monkeypatch):
    assert only(doctor.check_clock()).state is State.OK
    native_library.cache_clear()
    monkeypatch.setattr("soulslab.siphon.clock.lockstep_page.library_path", _unbuilt)
    assert only(doctor.check_clock()) == Check("game time", State.WARNING, "no lockstep", "install gcc")


def _unbuilt(name):
    raise ClockUnavailableError("install gcc")


def test_missing_games(monkeypatch):
    found = {check.name: check for check in doctor.check_real_games()}
    assert found["game doom"].state is State.OK
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    found = {check.name: check for check in doctor.check_real_games()}
    assert found["game doom"].remedy == "install chocolate-doom to play it"


@pytest.mark.parametrize("game", ["dark_souls_3", "elden_ring"])
def test_the_extent_of_tests_of_a_real_game(game):
    found = {check.name: check for check in doctor.check_real_games()}[f"game {game}"]
    assert found.state is State.WARNING
    assert "in its memory layout" in found.detail
    assert "not tested: the real game" in found.detail
    assert f"soulslab games check {game}" in found.remedy


def test_a_machine_without_the_engine_or_opengl(monkeypatch):
    assert only(doctor.check_window()).state is State.OK
    monkeypatch.setattr("ctypes.util.find_library", lambda _: None)
    assert "software only" in only(doctor.check_window()).detail

    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", missing)
    check = only(doctor.check_window())
    assert (check.state, check.detail) == (State.WARNING, "no panda3d")
    assert "soulslab[window]" in check.remedy


def test_an_error_in_a_check_is_reported(monkeypatch):
    def broken():
        raise OSError("no such device")
        yield

    monkeypatch.setattr(doctor, "CHECKS", (("thing", broken), ("disk", doctor.check_disk)))
    found = doctor.examine()
    assert (found[0].name, found[0].state, found[0].detail) == ("thing", State.MISSING, "OSError: no such device")
    assert found[1].name == "disk"


def test_table_shows_everything():
    console = Console(width=120, record=True, file=open(os.devnull, "w"))  # noqa: SIM115, PTH123
    with console.file:
        console.print(doctor.table([Check("torch", State.MISSING, "not [here]", "pip install x")]))
    text = console.export_text()
    assert all(word in text for word in ("torch", "missing", "not [here]", "pip install x"))


def real_game(row):
    """Return the checks for Dark Souls III."""
    return {check.name: check for check in doctor.check_real_games()}[f"dark_souls_3 {row}"]


@pytest.mark.skipif(sys.platform != "linux", reason="the bridge is for Linux")
def test_installed_games(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    found = real_game("installed")
    assert found.state is State.WARNING
    assert "Steam was not found" in found.detail
    apps = tmp_path / ".steam/steam/steamapps/common"
    for file in ("DARK SOULS III/Game/DarkSoulsIII.exe", "Proton 9.0/proton"):
        (apps / file).parent.mkdir(parents=True)
        (apps / file).touch()
    found = real_game("installed")
    assert found.state is State.OK
    assert "DARK SOULS III/Game, started by Proton 9.0" in found.detail


@pytest.mark.skipif(sys.platform != "linux", reason="the bridge is for Linux")
@pytest.mark.parametrize(
    ("version", "state", "told"),
    [
        ("1.15.2.0", State.OK, "version 1.15.2.0, which the profile supports"),
        ("1.15.1.0", State.WARNING, "version 1.15.1.0, which the profile does not support"),
        ("", State.WARNING, "it has no version, which the profile does not support"),
    ],
)
def test_version_of_a_running_game(monkeypatch, version, state, told):
    # This very process is the game; only what its executable says of itself is put in.
    monkeypatch.setattr("soulslab.siphon.process.discovery.find_process", lambda *_: os.getpid())
    image = namedtuple("Image", "version")(version)
    monkeypatch.setattr("soulslab.siphon.process.image.read_image", lambda *_: image)
    found = real_game("running")
    assert found.state is state
    assert told in found.detail
    assert f"process {os.getpid()}" in found.detail
    assert ("soulslab games check" if state is State.OK else "allow_unknown_version") in found.remedy


def _raising(error):
    def find_process(*_):
        raise error

    return find_process


@pytest.mark.skipif(sys.platform != "linux", reason="the bridge is for Linux")
@pytest.mark.parametrize(
    ("error", "told", "remedy"),
    [
        (ProcessNotFoundError("nobody"), "no process is called DarkSoulsIII.exe", "start it"),
        (AntiCheatError("start it without", pid=7), "process 7, an anti-cheat is running", "start it without"),
        (AttachDeniedError("ptrace_scope is 1", pid=7), "process 7, access is denied", "ptrace_scope is 1"),
        (AmbiguousProcessError("give the pid", [7, 8]), "cannot be determined", "give the pid"),
    ],
)
def test_errors_when_attaching_to_a_game(monkeypatch, error, told, remedy):
    monkeypatch.setattr("soulslab.siphon.process.discovery.find_process", _raising(error))
    found = real_game("running")
    assert found.state is State.WARNING
    assert told in found.detail
    assert remedy in found.remedy
