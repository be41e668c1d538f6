"""No resources remain after any end of a game, its display or its player.

Two hundred resets are counted in tests/integration/envs/test_doom.py.
"""

import os
import signal
import subprocess
import tempfile
import time

import pytest

import soulslab.siphon.process.child_process
from soulslab.errors import DisplayError, ImplausibleValueError, ProcessExitedError, WindowGoneError
from soulslab.siphon.process.child_process import PrivateFolder
from support.counts import check_released, held, segments_of
from support.doom_faults import await_deaths, begins_anew, doom, memory_of, play_until_it_fails, program, window_of
from support.forked import ForkedPopen
from support.waiting import PATIENCE_S

#: Plays until it is ended; argument: how it is to end when its standard input does.
PLAYER = """
import json, os, signal, sys, threading
from soulslab.envs.tasks.process.doom import DoomEnv

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it in all processes of the suite

env = DoomEnv(observation="both", frame_skip=1)
env.reset()
env.step(1)
display, game = env.session._opener._display, env.session._game.process
facts = {"pids": [display.pid, game.pid]}
print(json.dumps(facts), flush=True)
is_over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), is_over.set()), daemon=True).start()
while not is_over.is_set():
    if any(env.step(1)[2:4]):
        env.reset()
if sys.argv[1] == "error":
    raise RuntimeError("an error of the player")
if sys.argv[1] == "forget":
    os._exit(0)
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A folder for temporary files of this test and its processes."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


# --- while we live ----------------------------------------------------------------------------------------------


def kill_game(env):
    os.kill(env.session.info.pid, signal.SIGKILL)


def kill_display(env):
    os.kill(env.session._opener._display.pid, signal.SIGKILL)


def take_the_window(env):
    with window_of(env) as window, window.x.using("take the window away", window.id):
        window.x.core.UnmapWindow(window.id, is_checked=True).check()


def spoil_a_value(env):
    with memory_of(env.session.info.pid) as (memory, bases):
        memory.write(bases["players"] + 0x2C, (9999).to_bytes(4, "little"))


FAULTS = {
    kill_game: ProcessExitedError,
    kill_display: DisplayError | ProcessExitedError,
    take_the_window: WindowGoneError,
    spoil_a_value: ImplausibleValueError,
}


def test_failures_and_restarts_leave_no_resources(temporary):
    """Cause each fault twice, and count descriptors, threads, children, shared memory, temporary files."""
    at_first = held()
    with doom(observation="both") as env:
        env.reset()
        inject_fault(env)
        before, files = held(), names(temporary)
        inject_fault(env)
        check_released(before)
        assert names(temporary) == files
    check_released(at_first)
    assert names(temporary) == []


def inject_fault(env):
    """Run every fault once."""
    for fault, kind in FAULTS.items():
        fault(env)
        error = play_until_it_fails(env, action=1)
        assert isinstance(error, kind)
        begins_anew(env, n_restarts=1)


def names(folder):
    """Return the names of the files in the folder, without random suffixes."""
    return sorted(path.name.rpartition("-")[0] for path in folder.iterdir())


# --- when we die ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["SIGKILL", "SIGTERM", "SIGHUP", "error", "forget"])
def test_a_killed_player_ends_its_game_and_display(temporary, monkeypatch, end):
    """The game and its display end too; the next start removes the files."""
    started_s = time.time()
    # The interpreter ends a process with an error; the others end at once, so that they can be forked.
    popen = subprocess.Popen if end == "error" else ForkedPopen
    with program("-c", PLAYER, end, popen=popen) as (player, facts):
        if end.startswith("SIG"):
            player.send_signal(signal.Signals[end])
        else:
            player.stdin.close()
        player.wait(PATIENCE_S)
        await_deaths(facts["pids"])
    assert segments_of([player.pid, *facts["pids"]], started_s) == []
    monkeypatch.setattr(soulslab.siphon.process.child_process, "MIN_AGE_S", 0.0)
    for kind in ("run", "display"):
        PrivateFolder(kind).close()
    assert list(temporary.iterdir()) == []
