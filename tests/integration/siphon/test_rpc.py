"""Server and clients in separate processes: kill -9 of either, TLS, and cleanup."""

import gc
import os
import signal
import subprocess
import threading
import time
from operator import le
from pathlib import Path

import numpy as np
import pytest

from soulslab.errors import AccessRefusedError, ControlTakenError, ServerUnavailableError
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.rpc import server as rpc_server
from soulslab.siphon.rpc.client import ClientOptions, connect
from soulslab.siphon.rpc.frame_transfer import NAME
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.siphon.session import Step
from soulslab.testing.fake_session import FakeSession
from support.siphon_server import program, serving

TOKEN = "a-token-of-some-length"  # noqa: S105  (of a server that lives for one test)
LONG_S = 60.0
POOL = "soulslab-rpc"
STEP = Step(held=("W",), advance_s=1 / 60, attributes=("ticks",), frame=FrameFormat(84, 84, True))


def wait_until(condition, what):
    deadline = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {LONG_S} s for {what}"
        time.sleep(0.005)


@pytest.fixture(params=["127.0.0.1:0", "unix"])
def address(request, tmp_path):
    return f"unix:{tmp_path}/s" if request.param == "unix" else request.param


@pytest.fixture
def toys():
    with FakeSession() as session:
        yield session


# --- the server dies ----------------------------------------------------------------------------------------


def test_a_server_that_is_killed_and_started_again(address):
    with serving(address, TOKEN) as (process, first):
        remote = connect(first, token=TOKEN)
        assert remote.shares_memory
        for number in range(1, 21):
            result = remote.step(STEP)
            assert result.snapshot["ticks"] == number
            assert result.frame.pixels.shape == (84, 84)
        process.kill()
        process.wait()
        for _ in range(2):
            with pytest.raises(ServerUnavailableError):
                remote.step(STEP)
        with pytest.raises(ServerUnavailableError):
            remote.restart()
    with serving(first, TOKEN), remote:
        remote.restart()
        assert remote.shares_memory
        assert remote.step(STEP).snapshot["ticks"] == 1


def test_a_server_that_is_killed_during_a_call(address):
    killed = []
    with serving(address, TOKEN) as (process, place), connect(place, token=TOKEN) as remote:
        killer = threading.Timer(0.2, lambda: killed.append(process.kill()))
        killer.start()
        with pytest.raises(ServerUnavailableError):
            for _ in range(10**6):
                remote.step(STEP)
        killer.join()
        assert killed


def test_a_server_that_hangs_is_given_up(address):
    with serving(address, TOKEN) as (process, place), connect(place, token=TOKEN) as remote:
        remote._deadline_s = 0.3  # only now: to connect may take longer on a busy machine
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)  # all of its threads
        with pytest.raises(ServerUnavailableError, match=r"within 0\.3 s"):
            remote.read("hp")
        with pytest.raises(ServerUnavailableError, match=r"within 0\.3 s"):
            remote.read("hp")
        process.send_signal(signal.SIGCONT)
        wait_until(lambda: reads(remote), "the server to wake up")


def reads(remote):
    try:
        return remote.read("hp") == 100
    except ServerUnavailableError:
        return False


# --- the client dies ----------------------------------------------------------------------------------------


def test_the_keys_of_a_client_that_is_killed_are_released(toys, address):
    known = shared_by_us()
    with serve(toys, ServerOptions(address=address, token=TOKEN)) as server:
        with (
            program("support.siphon_client", server.address, TOKEN, "W", "SPACE") as (process, client),
            connect(server.address, token=TOKEN) as other,
        ):
            assert client["shares_memory"]
            assert toys.toy.held == {"W", "SPACE"}
            with pytest.raises(ControlTakenError, match=f"process {client['pid']} controls the game"):
                other.step(STEP)
            process.kill()
            wait_until(lambda: server.n_clients == 1, "the server to notice")
            assert toys.toy.held == frozenset()
            start = other.read("ticks")
            assert other.step(STEP).snapshot["ticks"] == start + 1
        wait_until(lambda: set(shared_by_us()) <= set(known), "the server to close the memory of both clients")


def test_an_idle_client_does_not_block_reading_clients(toys, address):
    with (
        serve(toys, ServerOptions(address=address, token=TOKEN)) as server,
        program("support.siphon_client", server.address, TOKEN, "W") as (process, _),
        connect(server.address, token=TOKEN) as other,
    ):
        process.send_signal(signal.SIGSTOP)
        for _ in range(50):
            assert other.snapshot()["hp"] == 100
        process.send_signal(signal.SIGCONT)


def test_a_client_that_hangs_loses_its_keys(toys, address, monkeypatch):
    """Client whose machine disappears; long timeouts are not tested."""
    monkeypatch.setattr(rpc_server, "KEEPALIVE_MS", 1000)
    monkeypatch.setattr(rpc_server, "KEEPALIVE_TIMEOUT_MS", 500)
    with (
        serve(toys, ServerOptions(address=address, token=TOKEN)) as server,
        program("support.siphon_client", server.address, TOKEN, "W") as (process, _),
    ):
        assert toys.toy.held == {"W"}
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: server.n_clients == 0, "the server to notice")
        assert toys.toy.held == frozenset()


def test_no_resources_remain_after_many_clients(toys, address):
    """Resources are counted before and after: descriptors, threads, shared memory."""
    options = ServerOptions(address=address, token=TOKEN)
    with serve(toys, options) as server:  # what gRPC makes once, and keeps
        play(server)
    before = count()
    with serve(toys, options) as server:
        for _ in range(3):
            play(server)
        during = count()
        for _ in range(40):
            play(server)
        wait_until(lambda: all(map(le, count(), during)), f"{count()} to go back to {during}")
        assert toys.toy.held == frozenset()
    wait_until(lambda: all(map(le, count(), before)), f"{count()} to go back to {before}")
    assert not [thread for thread in threading.enumerate() if thread.name.startswith(POOL)]


def play(server):
    """Attach, step, observe, and disconnect in one of several ways."""
    remote = connect(server.address, token=TOKEN)
    remote.step(STEP)
    looks = remote.watch(1000.0, ["ticks"])
    next(looks)
    if remote.read("ticks") % 2:
        remote._connection._call.cancel()  # without a good-bye
    remote.close()
    looks.close()
    wait_until(lambda: server.n_clients == 0, "the server to notice")


def count():
    """Return the numbers of descriptors, threads and shared memories of this process.

    Threads that wait for the next call, of the pool of a server that runs, are not counted: how many there are depends
    on how many calls happened to overlap.
    """
    gc.collect()
    threads = [thread for thread in threading.enumerate() if not thread.name.startswith(POOL)]
    return len(list(Path("/proc/self/fd").iterdir())), len(threads), len(shared_by_us())


def shared_by_us():
    """Return the shared memories among the descriptors of this process."""
    found = []
    for path in Path("/proc/self/fd").iterdir():
        try:
            found += [path] if NAME in str(path.readlink()) else []
        except FileNotFoundError:  # of the listing itself
            continue
    return found


# --- over a real line ---------------------------------------------------------------------------------------


def test_other_machines_come_with_tls_and_token(toys, certificate):
    options = ServerOptions(
        address="0.0.0.0:0",
        token=TOKEN,
        tls_certificate=certificate[0],
        tls_key=certificate[1],
    )
    with serve(toys, options) as server:
        place = f"127.0.0.1:{server.address.rpartition(':')[2]}"
        with connect(place, token=TOKEN, tls=certificate[0], options=ClientOptions(frames="raw")) as remote:
            assert np.array_equal(remote.capture().pixels, toys.capture().pixels)
        with pytest.raises(AccessRefusedError, match="token is wrong"):
            connect(place, token="another", tls=certificate[0])  # noqa: S106  (a wrong one)
        with pytest.raises(ServerUnavailableError, match="wants TLS"):
            connect(place, token=TOKEN)
        with pytest.raises(ServerUnavailableError, match="is for another name"):
            connect(place.replace("127.0.0.1", "localhost"), token=TOKEN, tls=certificate[0])
        with pytest.raises(AccessRefusedError, match="TLS is needed"):
            connect(server.address, token=TOKEN)


def test_a_foreign_certificate_is_refused(toys, certificate, tmp_path):
    options = ServerOptions(tls_certificate=certificate[0], tls_key=certificate[1])
    other = tmp_path / "other.pem"
    words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=other"
    subprocess.run([*words.split(), "-out", other, "-keyout", tmp_path / "k"], check=True, capture_output=True)
    with serve(toys, options) as server, pytest.raises(ServerUnavailableError):
        connect(server.address, token=server.token, tls=other)
