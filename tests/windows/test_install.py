"""The clock library beside a game: sessions attach with lockstep to a game that another program started."""

import os
import shutil
import subprocess
import sys
import winreg
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from soulslab.cli.application import run
from soulslab.errors import ClockUnavailableError
from soulslab.siphon.clock.lockstep import attach_lockstep
from soulslab.siphon.clock.lockstep_page import VARIABLE
from soulslab.siphon.local import open_session
from soulslab.siphon.pad import Pad
from soulslab.siphon.session import SessionOptions, Step
from soulslab.siphon.tick_alignment import TickAlignment
from support import windows_profile
from support.long_form import IS_LONG
from support.waiting import wait_for
from support.windows_profile import PROFILE, start_options

TICK_S = 1 / 60
PROFILE_PATH = Path(windows_profile.__file__).with_name("windows_game.toml")
#: Wine prefers its own libraries to those beside a program; Windows does not.
OVERRIDES = r"Software\Wine\AppDefaults\{}\DllOverrides"
PROGRAMS = (PROFILE.process.executable, "python.exe")
LIBRARY, CLOCK = "xinput1_4.dll", "soulslab_clock.dll"
A_PRESSED = Pad(buttons=("A",)).to_bytes()
NOT_CONNECTED = 1167
#: The short form of `test_lockstep.py` has them.
OTHER_LOOPS = ("coarse", "event", "tick_count", "timer")
#: Calls functions of a library of XInput; a session has started this process, so the clock library is not loaded.
CALLER = """
import ctypes, sys
library = ctypes.WinDLL(sys.argv[1])
for function in (library.XInputGetState, library[2], library[100]):
    state = (ctypes.c_uint8 * 16)()
    print(function(0, state), bytes(state[4:]).hex(), function(1, state))
"""


@pytest.fixture(scope="module", autouse=True)
def order_of_libraries():
    for one in PROGRAMS:
        with winreg.CreateKey(winreg.HKEY_CURRENT_USER, OVERRIDES.format(one)) as key:
            winreg.SetValueEx(key, LIBRARY.partition(".")[0], 0, winreg.REG_SZ, "native,builtin")
    yield
    for one in PROGRAMS:
        winreg.DeleteKey(winreg.HKEY_CURRENT_USER, OVERRIDES.format(one))


@pytest.fixture
def program(tmp_path, game_path):
    """The game in a folder of its own, with a name that a user may choose."""
    folder = tmp_path / "Spiele für Åsa"
    folder.mkdir()
    return Path(shutil.copy(game_path, folder))


def command(name, program):
    return run(["siphon", name, str(PROFILE_PATH), "--folder", str(program.parent)])


@contextmanager
def playing(program, loop):
    """Start the game as Steam does, without soulslab; the context is its process."""
    with subprocess.Popen([program, loop]) as process:
        try:
            yield process
        finally:
            process.kill()


def attached(process, **options):
    return open_session(PROFILE, SessionOptions(pid=process.pid, launch="never", **options))


def count_ticks(session, n_steps):
    """Return the number of steps that made 0, 1, 2 ... ticks."""
    TickAlignment(PROFILE).align(session)
    counts = {}
    last = session.read("ticks")
    for _ in range(n_steps):
        session.clock.advance(TICK_S)
        now = session.read("ticks")
        counts[now - last] = counts.get(now - last, 0) + 1
        last = now
    return counts


@pytest.mark.parametrize(
    "loop",
    ["spin", "thread", "workers", *(pytest.param(name, marks=pytest.mark.long) for name in OTHER_LOOPS)],
)
def test_a_session_attaches_with_lockstep(program, loop):
    assert command("install", program) == 0
    with playing(program, loop) as process:
        with attached(process, clock="lockstep") as session:
            session.clock.pause()
            assert (session.info.clock_grade, session.info.is_child) == ("lockstep", False)
            assert count_ticks(session, 600 if IS_LONG else 100).keys() == {1}
        with attached(process) as session:
            before = session.read("ticks")
            wait_for(lambda: session.read("ticks") > before, "the game to run between two sessions")
            assert session.info.clock_grade == "lockstep"


def test_the_commands_say_what_they_did(program, capsys):
    folder = program.parent
    before = {one.name: one.read_bytes() for one in folder.iterdir()}
    assert command("install", program) == 0
    printed = capsys.readouterr().out
    assert f"installed in {folder}: {LIBRARY}, {CLOCK}" in printed
    assert 'clock="lockstep"' in printed
    assert command("uninstall", program) == 0
    assert f"uninstalled from {folder}: {LIBRARY} is removed" in capsys.readouterr().out
    assert {one.name: one.read_bytes() for one in folder.iterdir()} == before


def test_a_running_game_is_refused(program, capsys):
    assert command("install", program) == 0
    with playing(program, "sleep") as process:
        for name in ("install", "uninstall"):
            assert command(name, program) == 1
            assert f"runs (process {process.pid}); end the game first" in capsys.readouterr().err
    assert command("uninstall", program) == 0


def test_after_the_removal_lockstep_is_refused(program):
    assert command("install", program) == 0
    assert command("uninstall", program) == 0
    with playing(program, "sleep") as process, pytest.raises(ClockUnavailableError, match="soulslab siphon install"):
        attach_lockstep(process.pid)


def test_the_attached_game_gets_a_gamepad(program):
    assert command("install", program) == 0
    with playing(program, "pad") as process, attached(process, input_backend="pad", clock="lockstep") as session:
        session.clock.pause()
        TickAlignment(PROFILE).align(session)
        seen = session.step(Step(advance_s=TICK_S, pad=Pad(buttons=("A",)))).snapshot
        assert (seen["pad"], seen["n_different"], seen["pad_results"]) == (A_PRESSED, 0, 0)


def test_the_library_of_the_game_is_kept_and_used(program, capsys):
    library = program.with_name(LIBRARY)
    shutil.copy(os.environ["WINDOWS_XINPUT"], library)
    before = library.read_bytes()
    assert command("install", program) == 0
    assert f"the {LIBRARY} of the game is kept and used" in capsys.readouterr().out
    called = subprocess.run(
        [sys.executable, "-c", CALLER, library],
        env={**os.environ, VARIABLE: "another game"}, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    pressed, none = f"0 {A_PRESSED.hex()} {NOT_CONNECTED}", f"{NOT_CONNECTED} {bytes(12).hex()} {NOT_CONNECTED}"
    assert called == [pressed, pressed, none], "that library has no function 100"
    with playing(program, "sleep") as process, attached(process, clock="lockstep") as session:
        assert session.info.clock_grade == "lockstep"
    assert command("uninstall", program) == 0
    assert library.read_bytes() == before


def test_soulslab_can_start_the_game_itself(program):
    assert command("install", program) == 0
    options = start_options("spin", clock="lockstep")
    options = msgspec.structs.replace(options, options=dict(options.options) | {"program": str(program)})
    with open_session(PROFILE, options) as session:
        session.clock.pause()
        assert count_ticks(session, 100) == {1: 100}
