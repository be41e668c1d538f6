"""Sessions with a game on Windows: started, found, played, restarted, and what happens when the game fails."""

from contextlib import suppress

import msgspec
import numpy as np
import psutil
import pytest

from soulslab.errors import (
    AntiCheatError,
    ControlTakenError,
    LaunchError,
    PointerError,
    ProcessNotFoundError,
    ReadOnlyError,
    SoulslabError,
    WaitTimeoutError,
)
from soulslab.siphon.attributes.address_resolution import resolve_addresses
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.local import open_session
from soulslab.siphon.memory.windows import WindowsMemory
from soulslab.siphon.process.image import read_image
from soulslab.siphon.process.windows_window import Window, find_window
from soulslab.siphon.session import LOADING, SessionOptions, Step
from support.waiting import wait_for
from support.windows_faults import FAULTS, keys_down
from support.windows_painter import painting
from support.windows_profile import PROFILE, start_options

TICK_S = 1 / 60
REALTIME = start_options(clock="realtime")


@pytest.fixture(scope="class")
def session():
    with open_session(PROFILE, REALTIME) as one:
        yield one


class TestStartedGame:
    """One game for all tests of the class; the last one restarts it."""

    def test_a_started_game_is_described(self, session):
        info = session.info
        assert info.executable.endswith(PROFILE.process.executable)
        assert (info.version, info.clock_grade, info.is_child) == ("1.4.2.7", "realtime", True)
        assert info.input_backend == "sendinput"
        assert info.window_px == (320, 240)

    def test_a_step_holds_keys_lets_time_pass_reads_and_captures(self, session):
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

    def test_values_are_written_within_their_ranges(self, session):
        session.write({"hp": 77})
        assert session.read("hp") == 77
        with pytest.raises(SoulslabError, match="hp"):
            session.write({"hp": 10**9})
        assert session.read("hp") == 77

    def test_a_restart_starts_another_process(self, session):
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
    facts = msgspec.structs.replace(PROFILE.process, anti_cheat=("ntdll.dll",))
    with pytest.raises(AntiCheatError, match=r"module ntdll\.dll"):
        open_session(msgspec.structs.replace(PROFILE, process=facts), SessionOptions(launch="never", clock="realtime"))


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


@pytest.fixture(scope="module")
def held_session():
    """A session in lockstep, which a test may restart."""
    with open_session(PROFILE, start_options()) as one:
        assert one.info.clock_grade == "lockstep", one.info.clock_reason
        one.clock.pause()
        yield one


def play(session, n_steps):
    """Step with other keys each time; return the last result."""
    for n in range(n_steps):
        result = session.step(Step(held=("D",) if n % 2 else ("A",), advance_s=TICK_S, deadline_s=0.5))
    return result


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_and_a_restart_recovers(held_session, name):
    cause, errors = FAULTS[name]
    play(held_session, 2)
    pid = held_session.info.pid
    cause(pid)
    with pytest.raises(SoulslabError, match=f"{pid}|window") as caught:
        play(held_session, 1000)
    assert type(caught.value).__name__ in errors
    held_session.restart()
    wait_for(lambda: not keys_down(), "the release of the keys")
    held_session.clock.pause()
    before = held_session.read("presses")
    assert play(held_session, 4).snapshot["presses"] > before
    wait_for(lambda: not psutil.pid_exists(pid), "the end of the game")


def test_a_null_pointer_is_named_until_it_is_restored(held_session):
    memory = WindowsMemory(held_session.info.pid)
    world = resolve_addresses(PROFILE, memory, read_image(memory, PROFILE.process.executable)).bases["world"]
    at = int.from_bytes(memory.read(world, 8), "little") + 8
    player = memory.read(at, 8)
    memory.write(at, bytes(8))
    for _ in range(2):
        with pytest.raises(PointerError, match="is a null pointer; the game may be loading"):
            held_session.step(Step(held=("D",)))
    memory.write(at, player)
    memory.close()
    assert play(held_session, 2).snapshot["hp"] == 200


def test_a_stolen_focus_is_taken_back_from_another_window(held_session):
    play(held_session, 1)
    window = find_window(held_session.info.pid)
    with painting() as other:
        stolen = Window(other.open(350, 20, 200, 200, "other"))
        other.ask("front", stolen.id)
        assert stolen.is_in_front()
        before = held_session.read("presses")
        other.events()
        assert play(held_session, 4).snapshot["presses"] > before
        assert window.is_in_front()
        assert [event for event in other.events() if event[0] == "key"] == []
