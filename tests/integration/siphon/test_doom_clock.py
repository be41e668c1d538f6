"""The lockstep clock on Chocolate Doom: exact tics, and equal games for equal seeds."""

from __future__ import annotations

import hashlib
import random
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import soulslab.games.doom
from soulslab.errors import ImplausibleValueError, PointerError, ProcessExitedError
from soulslab.siphon.attributes.address_resolution import resolve_addresses
from soulslab.siphon.attributes.attribute_table import AttributeTable
from soulslab.siphon.capture import NATIVE
from soulslab.siphon.capture.window_capture import WindowCapture
from soulslab.siphon.clock.lockstep import LockstepClock
from soulslab.siphon.clock.lockstep_page import LockstepPage
from soulslab.siphon.input.x_input import open_input
from soulslab.siphon.memory.linux import LinuxMemory
from soulslab.siphon.process.image import read_image
from soulslab.siphon.process.private_display import PrivateDisplay
from soulslab.siphon.process.window import wait_for_window
from soulslab.siphon.process.x11 import XConnection
from soulslab.siphon.profile import load_profile
from soulslab.siphon.tick_alignment import advance_to_tick_middle
from support.launching import launch
from support.long_form import IS_LONG
from support.waiting import PATIENCE_S, wait_for

DOOM = load_profile(Path(soulslab.games.doom.__file__).with_name("profile.toml"))
TIC_S = 1 / 35
KEYS = ("UP_ARROW", "DOWN_ARROW", "LEFT_ARROW", "RIGHT_ARROW", "LEFT_CTRL", "SPACE", "COMMA", "PERIOD")
STATE = ("health", "bullets", "x", "y", "z", "angle", "kills", "level_time")
N_STEPS = 1000 if IS_LONG else 300
N_RUNS = 3 if IS_LONG else 2
# How many tics of the start we see depends on the machine, and the picture melts meanwhile, with no tics at all.
FIRST_TIC = 80


class Doom:
    """A running game with a lockstep clock."""

    def __init__(self, display: PrivateDisplay, undo: ExitStack) -> None:
        page = LockstepPage.create()
        undo.callback(page.close)
        environment = page.environment() | display.environment()
        self.process = launch(DOOM.process, display=display.name, extra_environment=environment)
        undo.callback(self.process.kill)
        self.memory = LinuxMemory(self.process.pid)
        undo.callback(self.memory.close)
        x = XConnection(display.name)
        undo.callback(x.close)
        window = wait_for_window(x, self.process.pid, deadline_s=PATIENCE_S)
        places = resolve_addresses(DOOM, self.memory, read_image(self.memory, DOOM.process.executable))
        self.values = AttributeTable(DOOM, self.memory, places)
        wait_for(self.is_in_level)
        self.clock = LockstepClock(page, self.process.pid, DOOM.clock, servers=[x.server_pid])
        undo.callback(self.clock.close)
        self.keys = open_input(window, "xsendevent")
        undo.callback(self.keys.close)
        self.frames = WindowCapture(window, display)
        undo.callback(self.frames.close)

    def is_in_level(self) -> bool:
        try:
            return bool(self.values.read("level_time") > 0)
        except (PointerError, ImplausibleValueError):
            return False

    def tic(self) -> int:
        return int(self.values.read("game_tic"))

    def tic_after(self, seconds: float) -> int:
        self.clock.advance(seconds)
        return self.tic()

    def begin(self) -> None:
        """Advance to the middle of the tic from which all tests start."""
        assert advance_to_tick_middle(self.tic_after, TIC_S)
        while self.values.read("level_time") < FIRST_TIC:
            self.clock.advance(TIC_S)
        assert self.values.read("level_time") == FIRST_TIC


@contextmanager
def running_doom(display):
    with ExitStack() as undo:
        yield Doom(display, undo)


def play(doom, seed, n_steps):
    """Hold random keys; return a hash of the state and one of the frame for each step."""
    random_keys = random.Random(seed)  # noqa: S311 - no secrets
    doom.begin()
    states, frames = [], []
    for _ in range(n_steps):
        if random_keys.random() < 0.2:
            doom.keys.set_held(random_keys.sample(KEYS, random_keys.randrange(4)))
        before = doom.tic()
        doom.clock.advance(TIC_S)
        assert doom.tic() == before + 1
        states.append(tuple(doom.values.read_many(STATE).values()))
        frames.append(hashlib.sha256(doom.frames.grab(NATIVE)).digest())
    return states, frames


def test_steps_of_one_tic_are_the_same_every_time(display):
    runs = []
    for _ in range(N_RUNS):
        with running_doom(display) as doom:
            runs.append(play(doom, 7, N_STEPS))
    states, frames = runs[0]
    assert len(set(states)) > N_STEPS // 2
    assert len(set(frames)) > N_STEPS // 2
    for other_states, other_frames in runs[1:]:
        assert other_states == states
        assert other_frames == frames


def test_steps_of_any_length_lose_no_tic(display):
    with running_doom(display) as doom:
        doom.begin()
        first, n_tics = doom.tic(), 0
        for n in (1, 4, 35, 2, 7, 100, 3):
            doom.clock.advance(n * TIC_S)
            n_tics += n
            assert doom.tic() - first == n_tics
        for _ in range(10):
            doom.clock.advance(0.1)  # three and a half tics
        assert doom.tic() - first == n_tics + 35


def test_the_game_is_killed_during_a_step(display):
    with running_doom(display) as doom:
        doom.clock.pause()
        doom.process.kill()
        with pytest.raises(ProcessExitedError):
            doom.clock.advance(TIC_S)
