"""A Windows program under Wine, from its start to the end of its processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import pytest

from soulslab.envs.verification import busy_processes
from soulslab.errors import AttributeVersionError, GameVersionError, ProcessExitedError
from soulslab.siphon.local import open_session
from soulslab.siphon.memory.linux import LinuxMemory
from soulslab.siphon.process.image import read_image
from soulslab.siphon.rpc.client import connect
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.siphon.session import SessionOptions, Step
from soulslab.siphon.tick_alignment import TickAlignment
from support.long_form import IS_LONG
from support.painter import Painter
from support.waiting import wait_for
from support.wine import PROFILE

TICK_S, MILLISECOND = 1 / 60, 0.001
TESTS = Path(__file__).parents[2]
CONTROLLER = """
import sys
from soulslab.siphon.local import open_session
from soulslab.siphon.session import SessionOptions
from support.wine import PROFILE
game = open_session(PROFILE, SessionOptions(options={"program": sys.argv[1], "prefix": sys.argv[2]}))
game.clock.pause()
print(game.info.pid, flush=True)
sys.stdin.read()
"""
#: Waits of the C library, of no kind, of Wine's server and of a futex; the long form has more of each.
LOOPS = (
    *("sleep", "spin", "event", "address"),
    *(pytest.param(name, marks=pytest.mark.long) for name in ("timer", "condition", "thread")),
)


@pytest.fixture
def play(windows):
    """Start the game and return a session for one test."""

    @contextmanager
    def play(loop="sleep", **options):
        with windows.alone(), open_session(PROFILE, SessionOptions(options=windows.options(loop), **options)) as game:
            yield game

    return play


def colour_of(hp):
    return np.array([hp, 255 - hp, 64], np.uint8)


def press(game, key):
    """Press a key for two ticks."""
    game.step(Step(held=(key,), advance_s=2 * TICK_S))
    game.step(Step(held=(), advance_s=2 * TICK_S))


def show(game, hp):
    """Set the health, and wait until it is drawn: Wine shows it in the next turn of the loop."""
    game.write({"hp": hp})
    game.step(Step(advance_s=2 * TICK_S))


def test_it_is_found_read_written_and_seen(play):
    with play() as game:
        info = game.info
        assert info.executable.endswith(PROFILE.process.executable)
        assert (info.version, info.module_base, info.window_px) == ("1.4.2.7", 0x140000000, (320, 240))
        memory = LinuxMemory(info.pid)
        image = read_image(memory, "C:\\Games\\smallwindowsgame.EXE")
        memory.close()
        sections = {section.name: section for section in image.sections}
        assert image.kind == "pe"
        assert sections[".text"].is_executable
        assert not sections[".text"].is_writable
        assert sections[".data"].is_writable
        TickAlignment(PROFILE).align(game)
        snapshot = game.snapshot()
        assert (snapshot["hp"], snapshot["name"], snapshot["x"]) == (200, "Åsa of Wine", 0.0)
        game.write({"x": 3.5, "name": "Ŵulf"})
        show(game, 90)
        assert [game.read(name) for name in ("hp", "x", "name")] == [90, 3.5, "Ŵulf"]
        assert (game.capture().pixels == colour_of(90)).all()
        assert info.capture_backend == "framebuffer"
        with Painter(info.display) as painter:
            painter.paint(painter.open(150, 100, 200, 100), 1)  # covers a part of it
            game.clock.run()
            game.capture()  # from now on it draws beside the screen, too; it has to draw once before that can be seen
            show(game, 50)
            assert (game.capture().pixels == colour_of(50)).all()


def test_offsets_come_from_its_code_and_facts_are_tried(play, tmp_path):
    with play() as game, serve(game, ServerOptions(address=f"unix:{tmp_path}/s")) as server:
        TickAlignment(PROFILE).align(game)
        with connect(server.address, token=server.token) as remote:
            assert remote.info.sources == {"speed": ""}
            remote.write({"speed": 1.5})
            for one in (game, remote):
                assert one.info.sources == {"speed": "windows_game.c"}
                assert one.read("speed") == 1.5
                assert "weather" not in one.snapshot()
                with pytest.raises(AttributeVersionError, match=r"'weather' .* 1\.4\.2\.7 .* 1\.3\.0\.0"):
                    one.read("weather")
            frames = {remote.step(Step(advance_s=TICK_S)).snapshot["frame_s"] for _ in range(4)}
            assert frames == {np.float32(1 / 60), np.float32(1 / 60 + 1 / 1024)}


@pytest.mark.parametrize("loop", LOOPS)
def test_time_is_exact_however_it_waits(play, loop):
    """The long form starts the game several times, on a busy machine."""
    with busy_processes(4 * IS_LONG):
        for _ in range(5 if IS_LONG else 1):
            _assert_exact(play, loop, n_ticks=400 if IS_LONG else 100)


def _assert_exact(play, loop, n_ticks):
    with play(loop) as game:
        assert game.info.clock_grade == "lockstep"
        TickAlignment(PROFILE).align(game)
        first = game.read("ticks")
        for i in range(1, n_ticks + 1):
            game.clock.advance(TICK_S)
            assert game.read("ticks") - first == i
        game.clock.advance(30 * TICK_S)
        assert game.read("ticks") - first == n_ticks + 30
        _assert_free_run(game, speed=2.0)


def _assert_free_run(game, speed):
    """Let the game run. On a busy machine it drops ticks, but the clock and the game see the same time pass."""
    names = ("ticks", "elapsed_ms")
    before, before_s, begin_s = game.snapshot(names), game.clock.game_time_s, time.perf_counter()
    game.clock.run(speed)
    running_s = time.perf_counter()
    wait_for(lambda: game.read("ticks") > before["ticks"] + 60)
    pausing_s = time.perf_counter()
    game.clock.pause()
    after, passed_s, end_s = game.snapshot(names), game.clock.game_time_s - before_s, time.perf_counter()
    assert speed * (pausing_s - running_s) - MILLISECOND <= passed_s <= speed * (end_s - begin_s) + MILLISECOND
    # The game reads its time at its ticks, in whole milliseconds.
    assert (after["elapsed_ms"] - before["elapsed_ms"]) / 1000 == pytest.approx(passed_s, abs=TICK_S + 2 * MILLISECOND)
    assert after["ticks"] - before["ticks"] <= passed_s / TICK_S + 1
    for _ in range(20):
        game.step(Step(advance_s=0.0))
    assert game.snapshot(names) == after


@pytest.mark.parametrize("backend", ["xtest", "xsendevent"])
def test_keys_reach_it(play, backend):
    with play(input_backend=backend) as game:
        assert game.info.input_backend == backend
        TickAlignment(PROFILE).align(game)
        game.step(Step(held=("D",), advance_s=10 * TICK_S))
        result = game.step(Step(held=(), advance_s=5 * TICK_S, attributes=("held", "x", "presses")))
        assert result.snapshot["presses"] == 1  # WM_KEYDOWN
        assert (result.snapshot["held"], result.snapshot["x"]) == (10, 5.0)  # GetAsyncKeyState
        press(game, "H")
        assert game.read("hp") == 190
        assert (game.capture().pixels == colour_of(190)).all()


def test_a_second_session_finds_it_and_both_notice_its_end(windows, tmp_path):
    # Other processes of a run may play the game, too, so it gets a name of its own.
    program = shutil.copy(windows.game, tmp_path / f"SmallWindowsGame{os.getpid()}.exe")
    profile = msgspec.structs.replace(
        PROFILE, process=msgspec.structs.replace(PROFILE.process, executable=program.name)
    )
    options = SessionOptions(options={**windows.options("sleep"), "program": str(program)})
    with windows.alone(), open_session(profile, options) as game:
        again = SessionOptions(launch="never", clock="realtime", allow_unknown_version=True)
        newer = msgspec.structs.replace(
            profile, process=msgspec.structs.replace(profile.process, versions=("1.5.0.0",))
        )
        with pytest.raises(GameVersionError, match=r"is version 1\.4\.2\.7, but the profile was made for 1\.5\.0\.0"):
            open_session(newer, msgspec.structs.replace(again, allow_unknown_version=False))
        with open_session(newer, again) as other:
            assert other.info.pid == game.info.pid
            assert other.read("name") == "Åsa of Wine"
            with pytest.raises(ProcessExitedError, match="exit status 7"):
                press(game, "ESC")
            with pytest.raises(ProcessExitedError):
                other.snapshot()
        game.restart()
        assert game.read("hp") == 200


def test_no_resources_remain_after_the_controller_is_killed(windows):
    options = windows.options("sleep")
    with windows.alone():
        controller = subprocess.Popen(
            [sys.executable, "-c", CONTROLLER, options["program"], options["prefix"]],
            env={**os.environ, "PYTHONPATH": str(TESTS)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with controller:
            assert controller.stdout.readline()
            assert len(windows.processes()) > 2
            controller.kill()
        wait_for(lambda: windows.processes() == [])
