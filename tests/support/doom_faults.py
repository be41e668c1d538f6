"""Real Dooms to do harm to: environments that are closed, and programs that are ended, whatever happens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from soulslab.envs.tasks.process.doom import DoomEnv
from soulslab.errors import SoulslabError
from soulslab.games.doom import PROFILE_PATH
from soulslab.siphon.attributes.address_resolution import resolve_addresses
from soulslab.siphon.memory.linux import LinuxMemory
from soulslab.siphon.process.image import read_image
from soulslab.siphon.process.process_tree import living
from soulslab.siphon.process.window import find_window
from soulslab.siphon.process.x11 import XConnection
from soulslab.siphon.profile import load_profile
from support.waiting import wait_for

TESTS = Path(__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(TESTS)}
PROFILE = load_profile(PROFILE_PATH)
#: More steps than any test waits for.
FOREVER = 10**6


@contextmanager
def doom(**options):
    """Make an environment, and close it."""
    env = DoomEnv(**{"observation": "state", "frame_skip": 1, **options})
    try:
        yield env
    finally:
        env.close()


@contextmanager
def window_of(env):
    """Give the game's window, by a connection of its own."""
    connection = XConnection(env.session.info.display)
    try:
        yield find_window(connection, env.session.info.pid)
    finally:
        connection.close()


@contextmanager
def memory_of(pid):
    """Give a Doom's memory and the bases in it, past all the checks of a session."""
    memory = LinuxMemory(pid)
    try:
        image = read_image(memory, PROFILE.process.executable)
        yield memory, resolve_addresses(PROFILE, memory, image).bases
    finally:
        memory.close()


@contextmanager
def meanwhile(work):
    """Do something in a thread; fail if it failed."""
    failures = []

    def run():
        try:
            work()
        except BaseException as error:
            failures.append(error)
            raise

    thread = Thread(target=run, daemon=True)
    thread.start()
    yield
    thread.join(30)
    assert not thread.is_alive()
    assert not failures


def play_until_it_fails(env, action=0):
    """Step until an error of ours is raised; return it. The end of an episode begins the next."""
    for _ in range(FOREVER):
        try:
            if any(env.step(action)[2:4]):
                env.reset()
        except SoulslabError as error:
            return error
    pytest.fail("nothing failed")


def begins_anew(env, *, n_restarts):
    """Check that a reset brings a whole game back, and that it can be played."""
    observation, info = env.reset()
    assert observation["health"] == 100
    assert info["n_restarts"] == n_restarts
    before = observation["level_time"][0]
    assert env.step(0)[0]["level_time"][0] == before + 1


def await_deaths(pids):
    """Wait until none of the processes lives."""
    wait_for(lambda: not living(pids), deadline_s=30.0)


@contextmanager
def program(*words):
    """Start Python with these words and wait for its first line, JSON; gives the process and the line."""
    process = subprocess.Popen(
        [sys.executable, *words], env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        line = process.stdout.readline()
        assert line, f"{words} ended with {process.wait()}"
        yield process, json.loads(line)
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
