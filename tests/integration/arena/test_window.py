"""The game program as users and environments meet it: a process with a window, keys, time and memory of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import cv2
import numpy as np
import pytest

from soulslab.arena.binding import Binding
from soulslab.arena.boss_catalog import find_boss
from soulslab.arena.boss_file import load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.arena.live_fight import HISTORY_TICKS, LiveFight, LiveFightOptions, buttons_of, is_press_action
from soulslab.arena.records import TICKS_PER_DECISION
from soulslab.arena.vocabulary import N_ACTIONS
from soulslab.arena.window.key_log import Replay
from soulslab.arena.window.panda_window import open_pipe
from soulslab.arena.window.settings import PANDA_NAMES
from soulslab.errors import DisplayError
from soulslab.games.arena import PROFILE_PATH
from soulslab.games.arena.key_log_from_recording import key_log_from_recording
from soulslab.siphon.capture import NATIVE
from soulslab.siphon.input.x_input import open_input
from soulslab.siphon.local import open_session
from soulslab.siphon.process.private_display import PrivateDisplay
from soulslab.siphon.process.window import wait_for_window
from soulslab.siphon.process.x11 import XConnection
from soulslab.siphon.profile import load_profile
from soulslab.siphon.recording.reading import read_recording
from soulslab.siphon.recording.recorder import Recorder, RecordingOptions
from soulslab.siphon.session import SessionOptions, Step
from support.waiting import PATIENCE_S, wait_for

PROFILE = load_profile(PROFILE_PATH)
EVENTS = Path(__file__).parents[2] / "support" / "window_events.py"
PICTURE = EVENTS.with_name("window_picture.py")
PROGRAM = (str(Path(sys.executable).parent / "soulslab"), "arena", "--size", "160x90")
FIGHTING = 0


@pytest.fixture(scope="module")
def display():
    with PrivateDisplay((640, 480)) as one:
        yield one


@pytest.fixture
def x(display):
    one = XConnection(display.name)
    yield one
    one.close()


@contextmanager
def started(display, command, **options):
    """Start a program on a display; end it at last."""
    environment = os.environ | display.environment()
    process = subprocess.Popen(command, env=environment, **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


@contextmanager
def session(**options):
    """The game, started on a display of its own."""
    chosen = SessionOptions(launch="always", display="private", options={"size": "160x90", **options})
    with open_session(PROFILE, chosen) as one:
        yield one


def test_real_keys_in_lockstep_give_the_fight_that_buttons_give():
    boss = load_boss("judge", list(load_knight().knock_backs))
    game = LiveFight(boss, LiveFightOptions(seed=21))
    binding = Binding(PROFILE.duel, PROFILE.attributes)
    rng = np.random.default_rng(4)
    with session(seed="21") as real:
        real.clock.pause()
        # It began when it was started, and was paused anywhere between two ticks.
        for _ in range(real.step(Step(advance_s=0.1)).snapshot["game.tick"]):
            game.tick(())
        assert real.read("fight.digest") == game.digest()
        for _ in range(80):
            action = int(rng.integers(N_ACTIONS))
            buttons = buttons_of(action)
            pressed = buttons if is_press_action(action) else ()
            keys = tuple(PROFILE.keys[button] for button in buttons)
            again = tuple(PROFILE.keys[button] for button in pressed)
            seen = real.step(Step(held=keys, again=again, advance_s=0.1)).snapshot
            for k in range(TICKS_PER_DECISION):
                game.tick(buttons, pressed if k == 0 else ())
            assert seen["game.tick"] == game.n_ticks
            assert seen["fight.digest"] == game.digest(), f"after tick {game.n_ticks}: {action}"
        assert seen["game.history"] == game.history.tobytes()
        for name, value in binding.values(game).items():
            if isinstance(value, str | bytes):
                assert seen[name] == value, name
            else:
                assert np.allclose(seen[name], value, rtol=1e-6), name


def test_the_window_shows_a_fight_against_a_generated_boss():
    game = LiveFight(find_boss("generated:7"), LiveFightOptions(seed=21))
    with session(boss="generated:7", seed="21") as real:
        real.clock.pause()
        seen = real.step(Step(advance_s=1.0, frame=NATIVE))
        for _ in range(seen.snapshot["game.tick"]):
            game.tick(())
        assert real.read("fight.digest") == game.digest()
        later = real.step(Step(advance_s=0.5, frame=NATIVE)).frame.pixels.astype(int)
    assert seen.snapshot["boss.max_hp"] == find_boss("generated:7").hp
    height, width = seen.frame.pixels.shape[:2]
    red, green, blue = (seen.frame.pixels[..., channel].astype(int) for channel in range(3))
    is_red = (red > 120) & (green < 60) & (blue < 60)
    # The bar of its health is shown, and it walks about where the camera looks.
    assert is_red[-height // 6 :].sum(axis=1).max() > width / 2
    middle = np.s_[height // 3 : height // 2, width // 3 : 2 * width // 3]
    assert (np.abs(later - seen.frame.pixels)[middle].max(axis=2) > 40).sum() > 20


def test_a_game_that_a_person_played_is_recorded_and_played_again(tmp_path):
    path = tmp_path / "human.h5"
    attributes = tuple(PROFILE.attributes)
    with session(boss="trickster", seed="3", phase="1", poses="random") as real:
        tick = lambda: int(real.read("game.tick"))  # noqa: E731
        with Recorder(real, path, RecordingOptions(rate_hz=5, attributes=attributes, frames="none")):
            real.input.set_held([PROFILE.keys["restart"]])
            wait_for(lambda: real.read("fight.number") == 2, "the restart")
            for buttons in (("forward",), ("forward", "roll"), ("light_attack",), ("right", "lock_on"), ("parry",), ()):
                real.input.set_held([PROFILE.keys[button] for button in buttons])
                until = tick() + 25
                wait_for(lambda until=until: tick() > until, "some ticks")
            until = tick() + 60
            wait_for(lambda: tick() > until, "some more ticks")
    log = key_log_from_recording(read_recording(path))
    assert (log.header.boss, log.header.phase, log.header.random_pose) == ("trickster", "1", True)
    replay = Replay(log)
    while not replay.is_over:
        replay.tick()
    assert len(log.checks) > 5
    assert replay.n_ticks == log.n_ticks > 150
    assert len({code for line in log.lines for _, code in line.runs}) >= 5, "all those keys did something"


def test_a_key_that_is_released_in_another_window_is_not_held():
    with session() as real:
        real.clock.pause()
        hold = Step(held=(PROFILE.keys["forward"],), advance_s=0.1)
        assert last_code(real.step(hold).snapshot) == 0
        x = XConnection(real.info.display)
        try:
            x.core.SetInputFocus(0, x.root, 0, is_checked=True).check()
        finally:
            x.close()
        assert last_code(real.step(Step(advance_s=0.1)).snapshot) == N_ACTIONS - 1


def last_code(seen):
    return seen["game.history"][seen["game.tick"] % HISTORY_TICKS]


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "closed"])
def test_it_ends_cleanly(display, x, tmp_path, how):
    log = tmp_path / "game.log"
    command = [*PROGRAM, "--renderer", "software", "--no-help", "--log", str(log)]
    with started(display, command, stderr=subprocess.PIPE, text=True) as process:
        window = wait_for_window(x, process.pid, "soulslab arena", deadline_s=PATIENCE_S)
        wait_for(lambda: log.exists() and log.read_bytes().count(b"\n") > 1, "some ticks")
        if how == "closed":
            window.ask_to_close()
        else:
            process.send_signal(signal.Signals[how])
        assert process.wait(PATIENCE_S) == 0
        said = process.stderr.read()
        process.stderr.close()
    assert "Traceback" not in said
    assert "Assertion" not in said
    if how == "SIGTERM":
        check_replays(log, display)


def check_replays(log, display):
    done = subprocess.run(
        [*PROGRAM, "--renderer", "software", "--replay", str(log), "--speed", "50"],
        env=os.environ | display.environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_without_a_display_it_says_what_to_do(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    with pytest.raises(DisplayError, match="there is no display to open a window on; start it"):
        open_pipe("software")
    done = subprocess.run(
        [*PROGRAM, "--renderer", "gpu"], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("soulslab: there is no display to open a window on; start it")


def test_opengl_draws_what_the_software_renderer_draws(display, tmp_path):
    pictures, drivers = {}, {}
    for renderer in ("gpu", "software"):
        folder = tmp_path / renderer
        folder.mkdir()
        command = [sys.executable, str(PICTURE), renderer, str(folder)]
        environment = os.environ | display.environment()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        drivers[renderer] = done.stdout.strip()
        pictures[renderer] = cv2.imread(str(next(folder.glob("*.png")))).astype(int)
    assert drivers["gpu"], "OpenGL names its driver"
    assert not drivers["software"]
    assert pictures["software"].std() > 20.0
    apart = np.abs(pictures["gpu"] - pictures["software"]).max(axis=2)
    # Textures are filtered and edges fall differently; light, figures and bars are the same.
    assert apart.mean() < 12.0
    assert np.percentile(apart, 90) < 30.0
    fighters = [pictures[renderer][50:150, 140:180].mean(axis=(0, 1)) for renderer in ("gpu", "software")]
    np.testing.assert_allclose(*fighters, atol=6.0)


def test_every_key_arrives_by_its_place(display, x):
    command = [sys.executable, str(EVENTS)]
    with started(display, command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "open\n"
        window = wait_for_window(x, process.pid, "window events", deadline_s=PATIENCE_S)
        keys = open_input(window, "xtest", is_private=True)
        try:
            heard = {}
            for name in PANDA_NAMES:
                keys.set_held([name])
                heard[name] = next_event(process)
                keys.set_held([])
                assert next_event(process) == "-" + heard[name][1:]
        finally:
            keys.close()
        window.ask_to_close()
        assert process.wait(PATIENCE_S) == 0
    assert heard == {name: "+" + panda for name, panda in PANDA_NAMES.items()}


def next_event(process):
    while (line := process.stdout.readline().rstrip("\n")) in ("focus", "no focus"):
        pass
    return line
