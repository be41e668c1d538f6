"""Faults for the real Doom: contexts with environments and programs, which are always closed."""

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
from support.waiting import PATIENCE_S, wait_for

TESTS = Path(__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(TESTS)}
PROFILE = load_profile(PROFILE_PATH)
#: More steps than a test needs.
FOREVER = 10**6


@contextmanager
def doom(**options):
    """A context with an environment."""
    env = DoomEnv(**{"observation": "state", "frame_skip": 1, **options})
    try:
        yield env
    finally:
        env.close()


@contextmanager
def window_of(env):
    """A context with the game's window and a new X connection."""
    connection = XConnection(env.session.info.display)
    try:
        yield find_window(connection, env.session.info.pid)
    finally:
        connection.close()


@contextmanager
def memory_of(pid):
    """A context with the memory of Doom and its bases, without the checks of a session."""
    memory = LinuxMemory(pid)
    try:
        image = read_image(memory, PROFILE.process.executable)
        yield memory, resolve_addresses(PROFILE, memory, image).bases
    finally:
        memory.close()


@contextmanager
def meanwhile(work):
    """Run a function in a thread within a context; raise its error."""
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
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert not failures


def play_until_it_fails(env, action=0):
    """Step until an error of soulslab is raised and return it; reset after each episode."""
    for _ in range(FOREVER):
        try:
            if any(env.step(action)[2:4]):
                env.reset()
        except SoulslabError as error:
            return error
    pytest.fail("nothing failed")


def begins_anew(env, *, n_restarts):
    """Check that a reset recovers the game, and that it can be played."""
    observation, info = env.reset()
    assert observation["health"] == 100
    assert info["n_restarts"] == n_restarts
    before = observation["level_time"][0]
    assert env.step(0)[0]["level_time"][0] == before + 1


def await_deaths(pids):
    """Wait until all processes have ended."""
    wait_for(lambda: not living(pids))


@contextmanager
def program(*words, popen=subprocess.Popen):
    """A context with a Python process; waits for its first line of JSON, and yields the process and the line.

    ``popen`` is the class of the process.
    """
    process = popen([sys.executable, *words], env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        assert line, f"{words} ended with {process.wait()}"
        yield process, json.loads(line)
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
