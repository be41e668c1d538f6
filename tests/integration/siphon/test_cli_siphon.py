"""The commands of ``soulslab siphon`` on Chocolate Doom."""

from __future__ import annotations

import io
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import cv2
import pytest

from soulslab import cli
from soulslab.siphon.process.private_display import PrivateDisplay
from soulslab.siphon.process.window import wait_for_window
from soulslab.siphon.process.x11 import XConnection
from soulslab.siphon.profile import load_profile
from soulslab.siphon.recording.reading import read_recording
from support.doom import start_doom
from support.waiting import PATIENCE_S

SOULSLAB = Path(sys.executable).with_name("soulslab")
COMMAND = (
    *("chocolate-doom", "-iwad", "freedoom1.wad", "-window", "-geometry", "320x240"),
    *("-nosound", "-nomouse", "-nograbmouse", "-nogui", "-skill", "4", "-warp", "1", "1"),
)
# The pistol is raised for a moment, and a shot is counted a little after the key.
FIND_BULLETS = """
wait 3
= 50
tap RIGHT_CTRL
wait 1
= 49
path 1
restart
wait 3
tap RIGHT_CTRL
wait 1
tap RIGHT_CTRL
wait 1
verify 48
save bullets range=0..400
"""


@pytest.fixture
def soulslab(capfd, monkeypatch):
    """Return a function that runs a command with input lines and returns its output."""

    def run(*arguments, lines="", code=0):
        monkeypatch.setattr("sys.stdin", io.StringIO(lines))
        capfd.readouterr()
        assert cli.run(["siphon", *map(str, arguments)]) == code, capfd.readouterr()
        out, errors = capfd.readouterr()
        assert "Traceback" not in errors
        return out if code == 0 else errors

    return run


@contextmanager
def serving(*arguments):
    """Run a server; yield its first output, and check its clean exit."""
    process = subprocess.Popen(
        [SOULSLAB, "siphon", "serve", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        try:
            yield process
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 0, errors
            assert "stopped" in out
        finally:
            process.kill()


def test_a_value_is_found_by_a_script_and_read_through_the_saved_profile(soulslab, tmp_path):
    file = tmp_path / "found.toml"
    said = soulslab("scan", file, "--private", "--", *COMMAND, lines=FIND_BULLETS)
    assert "held over 1 restart" in said
    assert "bullets = 48, found by a byte pattern" in said
    assert load_profile(file).process.command == COMMAND
    said = soulslab("scan", file, "--start", "--private", lines="wait 3\nvalues\n")
    assert said.endswith("> values\nbullets = 50\n")


def test_a_served_game_is_reached_by_its_address(soulslab, tmp_path):
    address, token = f"unix:{tmp_path}/doom.sock", tmp_path / "token"
    with serving("doom", "--start", "--private", "--address", address, "--token-file", token, "--public") as server:
        assert server.stdout.readline().startswith("Doom, process ")
        assert address in server.stdout.readline()
        assert token.stat().st_mode & 0o777 == 0o600
        us = (address, "--token-file", token)
        soulslab("write", us[0], "health=66", *us[1:])
        assert soulslab("read", us[0], "health", *us[1:]) == "health = 66 hp\n"
        assert "framebuffer" in soulslab("attach", *us)
        soulslab("capture", us[0], tmp_path / "shot.png", *us[1:])
        assert cv2.imread(str(tmp_path / "shot.png")).std() > 10
        assert "the token is missing" in soulslab("read", address, "health", code=1)
        public = Path(sys.executable).with_name("pysiphon")
        status = [public, "--host", address, "status"]
        done = subprocess.run(status, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        assert "Server Status" in done.stdout
    assert not (tmp_path / "doom.sock").exists()


@pytest.fixture(scope="module")
def doom():
    """A game that another process started; it runs from here on, so tests with games of their own come first."""
    with PrivateDisplay((640, 480)) as display:
        game = start_doom(display)
        try:
            x = XConnection(display.name)
            try:
                wait_for_window(x, game.pid, deadline_s=PATIENCE_S)
                yield game
            finally:
                x.close()
        finally:
            game.kill()


def test_a_game_is_read_and_written(soulslab, doom):
    at = ("--pid", doom.pid)
    said = soulslab("attach", "doom", *at)
    assert str(doom.pid) in said
    assert re.search(r"^health +\d+ +hp", said, re.MULTILINE)
    soulslab("write", "doom", "health=55", *at)
    assert soulslab("read", "doom", "health", *at) == "health = 55 hp\n"
    said = soulslab("watch", "doom", *at, "--seconds", "0.5")
    assert "body_health" in said
    assert "game time" in said
    assert "it has to lie between 0 and 200" in soulslab("write", "doom", "health=500", *at, code=1)
    assert "did you mean 'health'" in soulslab("read", "doom", "heatlh", *at, code=1)


def test_a_picture_shows_the_game(soulslab, doom, tmp_path):
    file = tmp_path / "shot.png"
    soulslab("capture", "doom", file, "--pid", doom.pid, "--size-px", "160", "120")
    picture = cv2.imread(str(file))
    assert picture.shape == (120, 160, 3)
    assert picture.std() > 10
    assert "end it in .png" in soulslab("capture", "doom", tmp_path / "shot.what", "--pid", doom.pid, code=2)


def test_a_recording_contains_the_requested_parts(soulslab, doom, tmp_path):
    file = tmp_path / "doom.h5"
    flags = ("--pid", doom.pid, "--seconds", "1", "--rate-hz", "20", "--attribute", "health")
    said = soulslab("record", "doom", file, *flags, "--frames", "none")
    # In real time samples are late on a busy machine; none is lost otherwise.
    n_samples, n_dropped, n_late = re.search(r"(\d+) samples .* (\d+) dropped(?: \((\d+) late)?", said).groups("0")
    assert (int(n_samples) + int(n_dropped), n_dropped) == (20, n_late)
    recording = read_recording(file)
    assert list(recording.attributes) == ["health"]
    assert len(recording) == int(n_samples)
    assert "exists" in soulslab("record", "doom", file, *flags, "--frames", "none", code=1)


def test_a_script_ends_at_its_first_mistake(soulslab, doom, tmp_path):
    file = tmp_path / "found.toml"
    said = soulslab("scan", file, "--pid", doom.pid, lines="= 55\nsve\nquit\n", code=2)
    assert "line 2: sve: unknown command" in said
    said = soulslab("scan", file, "--pid", doom.pid, lines="path 0x10\n", code=1)
    assert "no path leads" in said


def test_a_game_is_played_from_the_prompt(soulslab, doom, tmp_path):
    shots = [tmp_path / "before.png", tmp_path / "after.png"]
    # Turning changes the picture; a game that stands still shows the same twice but for monsters far away.
    lines = f"shot '{shots[0]}'\nhold RIGHT_ARROW 0.5\nshot '{shots[1]}'\n"
    soulslab("scan", tmp_path / "found.toml", "--pid", doom.pid, lines=lines)
    before, after = (cv2.imread(str(shot)).astype(float) for shot in shots)
    assert abs(before - after).mean() > 5


def test_a_game_is_played_by_hand(soulslab, doom, tmp_path):
    at = ("--pid", doom.pid)
    angle = float(soulslab("read", "doom", "angle", *at).split()[2])
    soulslab("tap", "doom", "LEFT_ARROW", "--hold-ms", "300", *at)
    turned = float(soulslab("read", "doom", "angle", *at).split()[2])
    assert turned != angle
    soulslab("hold", "doom", "LEFT_ARROW", "--seconds", "0.3", *at)
    held = float(soulslab("read", "doom", "angle", *at).split()[2])
    assert held != turned
    said = soulslab("toggle", "doom", "LEFT_ARROW", *at, lines="\n")
    assert said.splitlines() == ["down: LEFT_ARROW; Enter releases, Ctrl-D ends", "down: (none)"]
    soulslab("move", "doom", "-30", "5", "--steps", "3", *at)
    frames = tmp_path / "frames"
    said = soulslab("stream", "doom", frames, "--frames", "2", "--size-px", "160", "120", *at)
    assert said.startswith("2 frames of 160x120 px")
    assert len(list(frames.glob("*.png"))) == 2
    said = soulslab("shell", "doom", *at, lines="get health\ntoggle left_arrow\nwait 0.2\ntoggle left_arrow\nquit\n")
    assert said.splitlines()[0].startswith("health = ")
    assert "unknown command" in soulslab("shell", "doom", *at, lines="gett health\n", code=2)
