"""Starting and finding the real Doom, and the errors."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from soulslab.errors import (
    AmbiguousProcessError,
    ClockUnavailableError,
    ConfigError,
    GameVersionError,
    LaunchError,
    PatternError,
    ProcessExitedError,
    ProcessNotFoundError,
    ReadOnlyError,
    SiphonError,
    WaitTimeoutError,
)
from soulslab.games import profile_path
from soulslab.siphon.capture import NATIVE
from soulslab.siphon.clock.lockstep import LockstepClock
from soulslab.siphon.clock.lockstep_page import LockstepPage
from soulslab.siphon.linux_game import LinuxGameOpener
from soulslab.siphon.local import LocalSession, open_session
from soulslab.siphon.process.launch import GameProcess
from soulslab.siphon.process.private_display import PrivateDisplay
from soulslab.siphon.process.x11 import XConnection
from soulslab.siphon.profile import ClockFacts, Process, Profile, load_profile
from soulslab.siphon.session import SessionOptions, Step
from support.clock_program import speed_of
from support.counts import check_released, held
from support.launching import launch
from support.waiting import wait_for

DOOM = load_profile(profile_path(Path("doom")))


def process(**changes):
    return msgspec.structs.replace(DOOM, process=msgspec.structs.replace(DOOM.process, **changes))


def check_fails(kind, match, profile=DOOM, **options):
    """Check the error, and that no resources remain."""
    before = held()
    with pytest.raises(kind, match=match):
        open_session(profile, SessionOptions(**options))
    check_released(before)


@pytest.mark.parametrize(
    ("option", "value"), [("launch", "perhaps"), ("clock", "sundial"), ("on_orphan", "weep"), ("input_backend", "pen")]
)
def test_invalid_options_are_errors(option, value):
    check_fails(ConfigError, f"{option}.*'{value}'", **{option: value})


def test_a_pid_and_a_new_game_exclude_each_other():
    check_fails(ConfigError, "names a process", pid=1, launch="always")


def test_no_game_to_be_found():
    check_fails(ProcessNotFoundError, "no-such-game", process(executable="no-such-game"), launch="never")


def test_a_missing_program_is_an_error():
    check_fails(LaunchError, "no-such-game", process(executable="no-such-game", command=("no-such-game",)))


def test_a_game_that_exits_immediately_is_an_error_with_the_reason():
    check_fails(SiphonError, "no-such-iwad", options={"iwad": "no-such-iwad"})


def test_an_option_that_the_game_does_not_have():
    check_fails(ConfigError, "did you mean 'skill'", options={"skil": "3"})


def test_a_version_that_the_profile_does_not_know():
    check_fails(GameVersionError, "9.9", process(versions=("9.9",)))
    with open_session(process(versions=("9.9",)), SessionOptions(allow_unknown_version=True)) as game:
        assert game.read("health") == 100


def test_a_pattern_without_a_match_is_an_error():
    wrong = msgspec.structs.replace(DOOM.bases["players"], pattern="DE AD BE EF ?? ?? ?? ?? CA FE BA BE 00")
    bases = {**DOOM.bases, "players": wrong}
    # Before the deadline: the code of the game is complete, so the pattern will never be there.
    check_fails(PatternError, "'players'", msgspec.structs.replace(DOOM, bases=bases), deadline_s=300.0)


def test_a_clock_that_cannot_be_had():
    check_fails(ClockUnavailableError, "clock.speed_attribute", clock="scaled")


def test_a_window_that_does_not_come():
    match = r"(?s)'Quake'.*the game has had [1-9]\d* ticks of game time, and .*of its processes"
    check_fails(WaitTimeoutError, match, process(window_title="Quake"), deadline_s=2.0)


def test_processes_started_by_others_are_found():
    with open_session(DOOM) as first:
        # By its pid, as tests that run beside this one have other Dooms.
        with open_session(DOOM, SessionOptions(pid=first.info.pid, is_read_only=True)) as onlooker:
            assert onlooker.info.pid == first.info.pid
            assert onlooker.info.clock_grade == "realtime"  # the first one has its time
            assert not onlooker.info.is_child
            with pytest.raises(ReadOnlyError):
                onlooker.write({"health": 50})
        with open_session(DOOM) as second:
            with pytest.raises(AmbiguousProcessError, match=str(second.info.pid)) as found:
                open_session(DOOM, SessionOptions(launch="never"))
            assert set(found.value.pids) >= {first.info.pid, second.info.pid}
            with open_session(DOOM, SessionOptions(pid=first.info.pid, with_window=False, clock="realtime")) as again:
                assert again.info.pid == first.info.pid
                assert again.info.window_px == (0, 0)
                assert again.clock.grade == "realtime"
        assert first.step(Step(advance_s=0.1)).advance.elapsed_s == pytest.approx(0.1)


def test_of_several_games_a_window_picks_one(tmp_path):
    """The program with a name that no other test uses."""
    copy = Path(shutil.copy("/usr/games/chocolate-doom", tmp_path / f"doom_{os.getpid()}"))
    doom = process(executable=copy.name, command=(str(copy), *DOOM.process.command[1:]))
    found = SessionOptions(launch="never", clock="realtime")
    with open_session(doom) as one, open_session(doom, SessionOptions(options={"iwad": "freedoom2"})):
        with pytest.raises(AmbiguousProcessError, match="window_title"):
            open_session(doom, found)
        with pytest.raises(AmbiguousProcessError):
            open_session(doom, msgspec.structs.replace(found, window_title="Doom"))  # both
        with open_session(doom, msgspec.structs.replace(found, window_title="Phase 1")) as same:
            assert same.info.pid == one.info.pid


def test_a_display_that_was_killed_is_replaced_at_the_next_restart():
    opener = LinuxGameOpener()
    with LocalSession(DOOM, SessionOptions(), opener) as game:
        os.kill(opener._display.pid, signal.SIGKILL)
        with pytest.raises(SiphonError):
            for _ in range(1000):
                game.step(Step(advance_s=0.1, frame=NATIVE))
        game.restart()
        assert game.step(Step(advance_s=0.1, frame=NATIVE)).snapshot["health"] == 100


def pointer_of(game):
    x = XConnection(game.info.display)
    pointer = x.core.QueryPointer(x.root).reply()
    return pointer.root_x, pointer.root_y


def test_a_restart_puts_the_pointer_back():
    with open_session(DOOM, SessionOptions()) as game:
        at_start = pointer_of(game)
        game.input.move_mouse(-100, 70)
        assert pointer_of(game) != at_start
        game.restart()
        assert pointer_of(game) == at_start


@pytest.mark.parametrize("is_named", [True, False])
def test_a_game_can_be_started_on_an_existing_display(monkeypatch, is_named):
    with PrivateDisplay((640, 480)) as display:
        if not is_named:
            monkeypatch.setenv("DISPLAY", display.name)
        options = SessionOptions(display=display.name if is_named else "", input_backend="xsendevent")
        with open_session(DOOM, options) as game:
            assert (game.info.display, game.info.input_backend) == (display.name, "xsendevent")
            assert game.step(Step(advance_s=0.1, frame=NATIVE, held=("W",))).frame.pixels.any()
            assert game.info.capture_backend == "shm"  # it is not ours


def test_a_private_display_is_as_large_as_was_asked_for():
    with open_session(DOOM, SessionOptions(screen_px=(700, 500))) as game:
        x = XConnection(game.info.display)
        assert x.size_px == (700, 500)
        x.close()


def test_the_deadline_holds_for_the_start_too():
    slow = process(executable="no-such-game", command=("sleep", "600"))
    check_fails(LaunchError, "no process 'no-such-game' came up within", slow, deadline_s=0.3)


def test_launch_options_of_a_running_game_are_ignored_with_a_warning(caplog):
    with open_session(DOOM) as first:
        options = SessionOptions(pid=first.info.pid, clock="realtime", options={"skill": "1"})
        with open_session(DOOM, options):
            assert "'skill': '1'" in caplog.text


CONTROLLER = """
import sys
from soulslab.games.doom import PROFILE_PATH
from soulslab.siphon.local import open_session
from soulslab.siphon.profile import load_profile
from soulslab.siphon.session import SessionOptions

options = SessionOptions(pid=int(sys.argv[1]), with_window=False, on_orphan="paused")
with open_session(load_profile(PROFILE_PATH), options) as game:
    game.clock.run()
    print(game.info.clock_grade, flush=True)
    sys.stdin.read()
"""


def test_a_game_that_we_found_stays_paused_when_we_die_if_that_was_asked_for():
    with ExitStack() as undo:
        display = undo.enter_context(PrivateDisplay((640, 480)))
        page = LockstepPage.create("run")
        undo.callback(page.close)
        doom = launch(DOOM.process, display=display.name, extra_environment=page.environment() | display.environment())
        undo.callback(doom.kill)
        LockstepClock(page, doom.pid).close()
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", CONTROLLER, str(doom.pid)]
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as controller:
            try:
                assert controller.stdout.readline() == "lockstep\n"
            finally:
                controller.kill()
        wait_for(lambda: speed_of(doom.pid) == 0)


TWO_WINDOWS = """
import signal, sys, time
from pathlib import Path
import xcffib
import xcffib.xproto

is_ending = []
signal.signal(signal.SIGTERM, lambda *_: is_ending.append(True))
x = xcffib.connect()
root = x.setup.roots[0]

def show(width):
    number = x.generate_id()
    kind = xcffib.xproto.WindowClass.InputOutput
    x.core.CreateWindow(0, number, root.root, 0, 0, width, 40, 0, kind, root.root_visual, 0, [])
    x.core.MapWindow(number, is_checked=True).check()
    return number

first = show(50)
for _ in range(10_000_000):
    pass
x.core.DestroyWindow(first, is_checked=True).check()
show(60)
while not is_ending:
    time.sleep(0.01)
Path(sys.argv[1]).write_text("in order")
"""


def test_the_window_that_a_game_settles_for_is_the_one(tmp_path, monkeypatch):
    """SDL closes its first window when it has selected a renderer. At the end the game can save what it has."""
    monkeypatch.setattr(GameProcess.kill, "__defaults__", (60.0,))  # time for a busy machine
    saved = tmp_path / "saved"
    python = Path(sys.executable).resolve()
    game = Process(
        executable=python.name,
        command=(str(python), "-c", TWO_WINDOWS, str(saved)),
        environment={"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    profile = Profile(name="two windows", process=game, clock=ClockFacts(grade="lockstep"))
    with open_session(profile) as session:
        for _ in range(3):
            session.step(Step(advance_s=0.1, frame=NATIVE, held=("W",)))
        assert session.info.window_px == (60, 40)
        assert session.clock.speed == 0.0
    assert saved.read_text() == "in order"


def test_the_end_of_a_game_is_reported_with_its_signal():
    with open_session(DOOM) as game:
        os.kill(game.info.pid, signal.SIGKILL)
        with pytest.raises(ProcessExitedError, match="signal 9") as error:
            game.step(Step(advance_s=1.0))
        assert error.value.status == -signal.SIGKILL
        game.restart()
        assert game.read("health") == 100
