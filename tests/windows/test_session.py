"""Sessions with a game on Windows: started, found, played, restarted, and what happens when the game fails."""

import os
import subprocess
from contextlib import suppress

import msgspec
import numpy as np
import pytest

from soulslab.errors import (
    AntiCheatError,
    ControlTakenError,
    LaunchError,
    ProcessExitedError,
    ProcessNotFoundError,
    ReadOnlyError,
    SoulslabError,
    WaitTimeoutError,
)
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.local import open_session
from soulslab.siphon.session import LOADING, SessionOptions, Step
from support.waiting import wait_for
from support.windows_profile import PROFILE, start_options

REALTIME = start_options(clock="realtime")


@pytest.fixture
def session():
    with open_session(PROFILE, REALTIME) as one:
        yield one


def end(pid):
    program = rf"{os.environ['SYSTEMROOT']}\system32\taskkill.exe"
    subprocess.run([program, "/F", "/PID", str(pid)], check=True, capture_output=True)


def read_if_loaded(session, name):
    try:
        return session.read(name)
    except LOADING:
        return None


def test_a_started_game_is_described(session):
    info = session.info
    assert info.executable.endswith(PROFILE.process.executable)
    assert (info.version, info.clock_grade, info.is_child) == ("1.4.2.7", "realtime", True)
    assert info.input_backend == "sendinput"
    assert info.window_px == (320, 240)


def test_a_step_holds_keys_lets_time_pass_reads_and_captures(session):
    before = session.snapshot()
    result = session.step(Step(held=("D",), advance_s=0.3, frame=FrameFormat(32, 24)))
    after = result.snapshot
    assert list(after) == list(before)
    assert after["presses"] == before["presses"] + 1
    assert after["held"] > before["held"]
    assert after["x"] > before["x"]
    assert result.advance.elapsed_s == pytest.approx(0.3, abs=0.25)
    assert result.frame.pixels.shape == (24, 32, 3)
    red, green, blue = result.frame.pixels.mean(axis=(0, 1))
    assert np.abs(np.array([red, green, blue]) - [after["hp"], 255 - after["hp"], 64]).max() < 3
    session.step(Step(held=()))
    wait_for(lambda: session.read("held") == session.read("held"), "the release of the key")


def test_values_are_written_within_their_ranges(session):
    session.write({"hp": 77})
    assert session.read("hp") == 77
    with pytest.raises(SoulslabError, match="hp"):
        session.write({"hp": 10**9})
    assert session.read("hp") == 77


def test_a_restart_starts_another_process(session):
    pid = session.info.pid
    session.write({"hp": 77})
    session.restart()
    assert session.info.pid != pid
    assert session.info.n_starts == 2
    assert session.read("hp") != 77


def test_a_running_game_is_found_and_stays(game):
    with open_session(PROFILE, SessionOptions(launch="never", clock="realtime")) as session:
        assert session.info.pid == game.pid
        assert not session.info.is_child
        assert session.read("hp") == 200
    assert game.poll() is None


def test_a_running_game_has_one_controller(game):
    options = SessionOptions(launch="never", clock="realtime", controller="toys/A-v0")
    with open_session(PROFILE, options), pytest.raises(ControlTakenError, match="toys/A-v0"):
        open_session(PROFILE, msgspec.structs.replace(options, controller="toys/B-v0"))
    open_session(PROFILE, msgspec.structs.replace(options, controller="toys/B-v0")).close()


def test_a_read_only_session_changes_nothing(game):
    with open_session(PROFILE, SessionOptions(launch="never", clock="realtime", is_read_only=True)) as session:
        for change in (lambda: session.write({"hp": 1}), lambda: session.step(Step(held=("D",))), session.restart):
            with pytest.raises(ReadOnlyError):
                change()
        assert session.read("hp") == 200


def test_no_game_runs():
    with pytest.raises(ProcessNotFoundError, match=r"no process is called 'SmallWindowsGame\.exe'"):
        open_session(PROFILE, SessionOptions(launch="never", clock="realtime"))


def test_an_anti_cheat_beside_the_game_is_refused(game):
    facts = msgspec.structs.replace(PROFILE.process, anti_cheat=("user32.dll",))
    with pytest.raises(AntiCheatError, match=r"module user32\.dll"):
        open_session(msgspec.structs.replace(PROFILE, process=facts), SessionOptions(launch="never", clock="realtime"))


def test_a_game_that_is_ended_is_named_and_can_be_restarted(session):
    pid = session.info.pid
    end(pid)
    with pytest.raises(ProcessExitedError, match=f"process {pid} has ended"):
        while True:
            session.step(Step(held=("D",), advance_s=0.05))
    session.restart()
    assert session.read("hp") == 200
    assert session.input.held == frozenset()


def test_a_program_that_opens_no_window():
    process = msgspec.structs.replace(PROFILE.process, window_title="another title")
    with pytest.raises(WaitTimeoutError, match="window"):
        open_session(
            msgspec.structs.replace(PROFILE, process=process), msgspec.structs.replace(REALTIME, deadline_s=2.0)
        )


def test_a_program_that_does_not_start(tmp_path):
    with pytest.raises(LaunchError, match="was not found"):
        open_session(PROFILE, msgspec.structs.replace(REALTIME, options={"program": str(tmp_path / "none.exe")}))


def test_without_a_window_memory_can_be_read(game):
    options = SessionOptions(launch="never", clock="realtime", with_window=False)
    with open_session(PROFILE, options) as session:

        def is_readable():
            with suppress(*LOADING):
                return session.read("hp") == 200
            return False

        wait_for(is_readable, "the end of loading")
        with pytest.raises(SoulslabError, match="with_window=False"):
            session.capture()
