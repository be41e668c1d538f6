"""A real Doom on a server: killed server, killed clients, and two clients."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from soulslab.config import Secret
from soulslab.errors import (
    ControlTakenError,
    ProcessExitedError,
    ServerUnavailableError,
    SoulslabError,
    WaitTimeoutError,
)
from soulslab.siphon.rpc.client import connect
from soulslab.siphon.session import Step
from support.doom_faults import await_deaths, begins_anew, doom, meanwhile, play_until_it_fails, program
from support.forked import ForkedPopen
from support.waiting import PATIENCE_S, wait_for

TOKEN = "a-token-of-some-length"  # noqa: S105  (of a server that lives for one test)
TIC = Step(advance_s=1 / 35, attributes=("x", "y", "speed_x", "speed_y"))
#: Runs forward until it is killed.
RUNNER = """
import json, os, sys
from soulslab.config import Secret
from soulslab.envs.tasks.process.doom import DoomEnv

env = DoomEnv(server=sys.argv[1], token=Secret(sys.argv[2]), observation="state", frame_skip=1)
start, _ = env.reset()
for _ in range(20):
    now = env.step(env.action_names.index("forward"))[0]
moved = abs(float(now["x"][0] - start["x"][0])) + abs(float(now["y"][0] - start["y"][0]))
print(json.dumps({"pid": os.getpid(), "moved": moved}), flush=True)
sys.stdin.readline()
"""


@contextlib.contextmanager
def server_of_doom(folder):
    """Start ``soulslab siphon serve doom``; return its process and its address."""
    address, token_file = f"unix:{folder}/doom.sock", folder / "token"
    token_file.write_text(TOKEN)
    token_file.chmod(0o600)
    words = ["siphon", "serve", "doom", "--start", "--private", "--address", address, "--token-file", str(token_file)]
    # `test_cli_siphon.py` starts the real command.
    command = [sys.executable, "-m", "soulslab", *words]
    process = ForkedPopen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: answers(address) or process.poll() is not None)
        assert process.poll() is None
        yield process, address
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(PATIENCE_S)
        finally:
            process.kill()
            process.wait()


def answers(address):
    try:
        with connect(address, token=TOKEN, deadline_s=2.0) as remote:
            return remote.info.pid
    except SoulslabError:
        return 0


def children_of(pid):
    """Return the game and the display of a server."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server for well-behaved clients."""
    with server_of_doom(tmp_path_factory.mktemp("server")) as (_, address):
        yield address


# --- the server -------------------------------------------------------------------------------------------------


def test_an_environment_survives_a_restart_of_the_server(tmp_path, monkeypatch):
    """The game and the display end with the server; a reset waits for the next server, and not for ever."""
    is_over = threading.Event()
    with server_of_doom(tmp_path) as (process, address), doom(server=address, token=Secret(TOKEN)) as env:
        env.reset()
        env.step(1)
        started = children_of(process.pid)
        assert env.session.info.pid in started
        process.kill()
        assert isinstance(play_until_it_fails(env), ServerUnavailableError)
        await_deaths(started)
        with monkeypatch.context() as patch:
            patch.setattr(env, "_settings", msgspec.structs.replace(env._settings, reset_deadline_s=0.5))
            with pytest.raises(WaitTimeoutError, match=r"for the server to come back; .*no server answers at unix:"):
                env.reset()

        def come_back():
            with server_of_doom(tmp_path):
                is_over.wait(PATIENCE_S)

        with meanwhile(come_back):
            try:
                begins_anew(env, n_restarts=1)
                assert env.session.info.pid not in started
                env.close()
            finally:
                is_over.set()


def test_the_game_of_a_server_is_killed(server):
    with doom(server=server, token=Secret(TOKEN)) as env:
        env.reset()
        pid = env.session.info.pid
        os.kill(pid, signal.SIGKILL)
        error = play_until_it_fails(env)
        assert isinstance(error, ProcessExitedError)
        assert (error.pid, error.status) == (pid, -signal.SIGKILL)
        assert "I_Init" in str(error)
        begins_anew(env, n_restarts=1)


# --- the clients ------------------------------------------------------------------------------------------------


def test_a_client_is_killed_while_it_runs_forward(server):
    """Its keys are released, and another client observes that the player stops."""
    runner = program("-c", RUNNER, server, TOKEN, popen=ForkedPopen)
    with runner as (client, line), connect(server, token=TOKEN) as other:
        assert line["moved"] > 50
        with pytest.raises(ControlTakenError, match=f"process {line['pid']} controls the game"):
            other.step(TIC)
        before = other.snapshot(("speed_x", "speed_y"))
        assert abs(before["speed_x"]) + abs(before["speed_y"]) > 1
        client.kill()
        wait_for(lambda: is_ours(other))
        for _ in range(70):
            rest = dict(other.step(TIC).snapshot)
        assert (rest["speed_x"], rest["speed_y"]) == (0, 0)
        for _ in range(10):
            assert dict(other.step(TIC).snapshot) == rest
        assert other.input.held == frozenset()


def is_ours(remote):
    try:
        return remote.step(TIC)
    except ControlTakenError:
        return None


def test_of_two_environments_one_plays_and_the_other_looks_on(server):
    with doom(server=server, token=Secret(TOKEN)) as one, doom(server=server, token=Secret(TOKEN)) as other:
        first = [one.reset()[0], *(one.step(1)[0] for _ in range(20))]
        n_starts = one.session.info.n_starts
        with pytest.raises(ControlTakenError, match=f"process {os.getpid()} controls the game"):
            other.reset()
        with connect(server, token=TOKEN) as onlooker:
            assert onlooker.read("x") == first[-1]["x"]
            assert onlooker.capture().pixels.std() > 10
        second = [one.reset()[0], *(one.step(1)[0] for _ in range(20))]
        assert second == first
        assert one.session.info.n_starts == n_starts
        one.close()
        begins_anew(other, n_restarts=0)
