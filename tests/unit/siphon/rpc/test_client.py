"""The remote session passes the contract suite, for each kind of address and frame transfer."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from soulslab.errors import (
    ConfigError,
    ControlTakenError,
    ImplausibleValueError,
    InvalidValueError,
    PointerError,
    ProcessExitedError,
    ServerUnavailableError,
    SessionStateError,
    WaitTimeoutError,
    WindowGoneError,
    WindowNotFoundError,
    WireError,
)
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.rpc import client
from soulslab.siphon.rpc.client import ClientOptions, connect
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.siphon.session import SessionOptions, Step
from soulslab.testing.fake_session import FakeSession
from soulslab.testing.session_contract import SessionContract
from support.toy_contract import TOY_GAME
from support.waiting import PATIENCE_S

TOKEN = "open-sesame-open-sesame"  # noqa: S105  (of a server that lives for one test)
WAYS = {
    "shared memory over a Unix socket": ("unix", "auto"),
    "raw over TCP": ("tcp", "raw"),
    "jpeg over a Unix socket": ("unix", "jpeg"),
}


@pytest.fixture
def toys():
    with FakeSession() as session:
        yield session


@pytest.fixture
def server(toys, tmp_path):
    with serve(toys, ServerOptions(address=f"unix:{tmp_path}/s", token=TOKEN)) as server:
        yield server


@pytest.fixture
def remote(server):
    with connect(server.address, token=TOKEN) as remote:
        yield remote


class TestRemoteSession(SessionContract):
    @pytest.fixture(params=WAYS.values(), ids=WAYS)
    def session(self, request, toys, tmp_path):
        kind, frames = request.param
        options = ServerOptions(address=f"unix:{tmp_path}/s" if kind == "unix" else "127.0.0.1:0")
        with (
            serve(toys, options) as server,
            connect(server.address, token=server.token, options=ClientOptions(frames=frames)) as session,
        ):
            assert session.shares_memory == (frames == "auto")
            yield session

    @pytest.fixture
    def game(self):
        return TOY_GAME


class TestThroughTwoServers(SessionContract):
    """A server can serve a remote session."""

    @pytest.fixture
    def session(self, remote, tmp_path):
        with (
            serve(remote, ServerOptions(address=f"unix:{tmp_path}/t")) as server,
            connect(server.address, token=server.token) as session,
        ):
            yield session

    @pytest.fixture
    def game(self):
        return TOY_GAME


# --- what travels -------------------------------------------------------------------------------------------


def test_profile_and_info_equal_those_of_the_server(toys, remote):
    assert remote.profile == toys.profile
    assert remote.info == toys.info


@pytest.mark.parametrize("frames", ["auto", "raw"])
@pytest.mark.parametrize("frame_format", [FrameFormat(), FrameFormat(84, 84, True), FrameFormat(200, 100)])
def test_pictures_come_without_loss(toys, server, frames, frame_format):
    toys.write({"hp": 77})
    with connect(server.address, token=TOKEN, options=ClientOptions(frames=frames)) as remote:
        expected = toys.capture(frame_format)
        found = remote.capture(frame_format)
        assert np.array_equal(found.pixels, expected.pixels)
        assert found.game_time_s == expected.game_time_s


def test_a_jpeg_is_close(toys, server):
    with connect(server.address, token=TOKEN, options=ClientOptions(frames="jpeg", jpeg_quality=95)) as remote:
        for frame_format in (FrameFormat(), FrameFormat(84, 84, True)):
            found = remote.capture(frame_format).pixels.astype(int)
            assert np.abs(found - toys.capture(frame_format).pixels).max() < 12


def test_values_of_all_kinds_come_as_they_are(toys, remote):
    toys.write({"name": "Ornstein ⚔", "velocity": np.array([1.5, -2.0])})
    assert remote.read("name") == "Ornstein ⚔"
    assert remote.read("is_hurt") is False
    velocity = remote.read("velocity")
    assert velocity.dtype == np.float64
    velocity += 1.0  # a new array
    assert remote.read("velocity").tolist() == [1.5, -2.0]
    remote.write({"velocity": np.array([3.0, 4.0], np.float32)})
    assert toys.read("velocity").tolist() == [3.0, 4.0]


def test_the_errors_of_the_game_are_raised_here(toys, remote):
    toys.toy.values["hp"] = 5000
    with pytest.raises(ImplausibleValueError) as caught:
        remote.step(Step())
    with pytest.raises(ImplausibleValueError) as local:
        toys.step(Step())
    assert str(caught.value) == str(local.value)
    assert vars(caught.value) == vars(local.value)
    toys.toy.is_loading = True
    with pytest.raises(PointerError, match="null pointer"):
        remote.snapshot()
    toys.toy.has_window = False
    with pytest.raises(WindowGoneError):
        remote.capture()
    toys.toy.is_alive = False
    with pytest.raises(ProcessExitedError) as caught:
        remote.read("hp")
    assert caught.value.pid == 4242
    remote.restart()
    assert remote.read("hp") == 100


def test_a_game_without_a_window_has_no_keys_and_no_pictures(tmp_path):
    with (
        FakeSession(SessionOptions(with_window=False)) as toys,
        serve(toys, ServerOptions(address=f"unix:{tmp_path}/s")) as server,
        connect(server.address, token=server.token) as remote,
    ):
        with pytest.raises(WindowNotFoundError):
            _ = remote.input
        with pytest.raises(WindowNotFoundError):
            remote.capture()
        with pytest.raises(WindowNotFoundError):
            remote.step(Step(held=("W",)))
        assert remote.read("hp") == 100


def test_values_that_cannot_be_encoded_are_refused_before_sending(toys, remote):
    with pytest.raises(InvalidValueError, match=r"'name'.*cannot be sent") as caught:
        remote.write({"hp": 3, "name": object})
    assert caught.value.attribute == "name"
    with pytest.raises(InvalidValueError, match="'name'"):
        remote.write({"name": "\ud800"})
    with pytest.raises(WireError, match="bytes"):
        remote.write({"name": "x" * (2 << 20)})
    with pytest.raises(WireError, match="cannot be sent"):
        remote.read("\ud800")
    assert remote.read("hp") == 100


@pytest.mark.parametrize(
    "step",
    [
        Step(advance_s=-1.0),
        Step(advance_s=float("nan")),
        Step(advance_s=1e9),
        Step(deadline_s=1e9),
        Step(frame=FrameFormat(100_000, 100_000)),
        Step(frame=FrameFormat(84, 0)),
        Step(frame=FrameFormat(-84, -84)),
        Step(mouse_px=(10**6, 0)),
    ],
)
def test_a_step_that_cannot_be_is_refused(toys, remote, step):
    with pytest.raises(WireError):
        remote.step(step)
    assert toys.toy.values["ticks"] == 0
    assert remote.read("ticks") == 0


def test_keys_are_pressed_again_through_a_step_and_by_themselves(toys, remote):
    remote.step(Step(held=("W", "SPACE")))
    seen = len(toys.toy.input.events)
    remote.step(Step(held=("W", "SPACE"), again=("SPACE",)))
    remote.input.set_held(("W",), again=("W",))
    assert toys.toy.input.events[seen:] == [
        *[("SPACE", False), ("SPACE", True)],
        *[("SPACE", False), ("W", False), ("W", True)],
    ]


# --- several clients ----------------------------------------------------------------------------------------


def test_one_client_controls_and_others_observe(toys, server, remote):
    remote.step(Step(held=("W",), advance_s=0.1))
    with connect(server.address, token=TOKEN, options=ClientOptions(name="the second")) as second:
        assert second.read("hp") == 100
        assert second.capture().pixels.shape == (48, 64, 3)
        assert second.step(Step(attributes=("y",))).snapshot["y"] == 6.0
        assert second.input.held == {"W"}
        for change in (
            lambda: second.step(Step(held=())),
            lambda: second.step(Step(advance_s=0.1)),
            lambda: second.write({"hp": 1}),
            lambda: second.input.set_held(()),
            lambda: second.input.type(["W"]),
            lambda: second.input.move_mouse(1, 1),
            second.clock.run,
            second.clock.pause,
            lambda: second.clock.advance(0.1),
            second.restart,
        ):
            with pytest.raises(ControlTakenError, match="process") as caught:
                change()
            assert f"process {os.getpid()}" in caught.value.holder
        remote.close()
        assert toys.toy.held == frozenset()
        second.step(Step(held=("A",), advance_s=0.1))
        assert toys.toy.held == {"A"}
    assert toys.toy.held == frozenset()


def test_control_lapses_when_its_holder_is_still(toys, tmp_path):
    options = ServerOptions(address=f"unix:{tmp_path}/s", token=TOKEN, lease_s=0.0)
    with (
        serve(toys, options) as server,
        connect(server.address, token=TOKEN) as first,
        connect(server.address, token=TOKEN) as second,
    ):
        first.step(Step(held=("W", "D"), advance_s=0.1))
        second.step(Step(held=("A",), advance_s=0.1))
        assert toys.toy.held == {"A"}
        first.input.set_held(["S"])
        assert toys.toy.held == {"S"}


class SlowSession(FakeSession):
    """Reader that reads on request."""

    def __init__(self):
        super().__init__()
        self.is_reading = threading.Event()
        self.may_read = threading.Event()

    def read(self, name):
        self.is_reading.set()
        assert self.may_read.wait(PATIENCE_S)
        return super().read(name)


@pytest.fixture
def slow(tmp_path):
    options = ServerOptions(address=f"unix:{tmp_path}/s", token=TOKEN)
    with SlowSession() as session, ThreadPoolExecutor(1) as pool, serve(session, options) as server:
        yield session, server, pool
        session.may_read.set()


def test_a_long_wait_for_other_clients_is_an_error(slow, monkeypatch):
    session, server, pool = slow
    with connect(server.address, token=TOKEN) as first, connect(server.address, token=TOKEN) as second:
        reading = pool.submit(first.read, "hp")
        monkeypatch.setattr(client, "WAIT_SHARE", 0.01)
        assert session.is_reading.wait(PATIENCE_S)
        with pytest.raises(WaitTimeoutError, match="other calls"):
            second.snapshot()
        session.may_read.set()
        assert reading.result() == 100
        assert second.snapshot()["hp"] == 100


def test_an_answer_that_does_not_come_is_given_up(slow):
    session, server, _ = slow
    with connect(server.address, token=TOKEN) as remote:
        remote.input.set_held(["W"])
        remote._deadline_s = 0.2
        with pytest.raises(ServerUnavailableError, match=r"did not answer within 0\.2 s"):
            remote.read("hp")
        remote._deadline_s = 30.0
        session.may_read.set()
        assert remote.snapshot()["hp"] == 100
        assert remote.input.held == frozenset()  # it was another connection


def test_the_answer_to_an_interrupted_call_is_not_that_of_the_next(slow):
    session, server, pool = slow
    main = threading.get_ident()
    with connect(server.address, token=TOKEN) as remote:

        def interrupt():
            assert session.is_reading.wait(PATIENCE_S)
            signal.pthread_kill(main, signal.SIGINT)

        done = pool.submit(interrupt)
        with pytest.raises(KeyboardInterrupt):
            remote.read("hp")
        done.result()
        session.may_read.set()
        with pytest.raises(ServerUnavailableError, match="was lost"):
            remote.snapshot(["x"])
        assert dict(remote.snapshot(["x"])) == {"x": 0.0}


def test_keys_of_a_leaving_client_are_released_and_the_game_continues(toys, server):
    remote = connect(server.address, token=TOKEN)
    remote.input.set_held(["W", "SPACE"])
    remote.close()
    assert toys.toy.held == frozenset()
    assert server.n_clients == 0
    assert toys.read("hp") == 100


# --- watching -----------------------------------------------------------------------------------------------


def test_an_observer_sees_changes(toys, server, remote):
    with connect(server.address, token=TOKEN) as other:
        looks = other.watch(500.0, ["ticks"], FrameFormat(20, 10))
        for _ in range(20):
            done = remote.step(Step(advance_s=1 / 60)).snapshot["ticks"]
            for look in looks:
                if look.snapshot["ticks"] == done:
                    break
            assert look.frame.pixels.shape == (10, 20, 3)
        looks.close()
        assert other.read("ticks") == 20


def test_an_error_ends_a_watch(toys, remote):
    looks = remote.watch(500.0)
    next(looks)
    toys.toy.is_loading = True
    with pytest.raises(PointerError):
        for _ in looks:
            pass
    with pytest.raises(WireError):
        next(remote.watch(500.0, frame=FrameFormat(1, 0)))


# --- loss ---------------------------------------------------------------------------------------------------


def test_no_server_listens(tmp_path):
    for address in (f"unix:{tmp_path}/none", "127.0.0.1:1"):
        with pytest.raises(ServerUnavailableError, match="no server answers at"):
            connect(address)


def test_an_address_has_to_be_one():
    for address in ("", "nowhere", "host:port", "1.2.3.4:99999", "unix:", "http://x:1", "[zz]:1"):
        with pytest.raises(ConfigError):
            connect(address)


def test_a_lost_server_is_reported_once_and_found_again(toys, tmp_path):
    options = ServerOptions(address=f"unix:{tmp_path}/s", token=TOKEN)
    first = serve(toys, options)
    with connect(first.address, token=TOKEN) as remote:
        remote.step(Step(held=("W",), advance_s=0.1))
        first.stop()
        assert toys.toy.held == frozenset()
        for _ in range(3):
            with pytest.raises(ServerUnavailableError):
                remote.read("hp")
        with serve(toys, options):
            assert remote.read("hp") == 100
            assert remote.input.held == frozenset()
            remote.step(Step(held=("W",), advance_s=0.1))


def test_an_unnoticed_loss_is_reported(toys, tmp_path):
    options = ServerOptions(address=f"unix:{tmp_path}/s", token=TOKEN)
    first = serve(toys, options)
    with connect(first.address, token=TOKEN) as remote, connect(first.address, token=TOKEN) as other:
        first.stop()
        with serve(toys, options):
            with pytest.raises(ServerUnavailableError):
                remote.step(Step(advance_s=0.1))
            assert toys.read("ticks") == 0
            remote.step(Step(advance_s=0.1))
            remote.close()
            other.restart()  # at once
            assert other.info.n_starts == 2


def test_a_connection_lost_after_an_answer_is_reported_by_the_next_call(toys, remote):
    for failure in (None, PointerError):
        toys.toy.is_loading = failure is not None
        connection = remote._connection
        within = connection._within

        def answer_and_die(deadline_s, wait, within=within, connection=connection):
            answer = within(deadline_s, wait)
            connection._call.cancel()
            return answer

        connection._within = answer_and_die
        if failure is None:
            assert remote.step(Step(held=("W",), frame=FrameFormat(84, 84))).frame.pixels.shape == (84, 84, 3)
        else:
            with pytest.raises(failure):
                remote.snapshot()
            toys.toy.is_loading = False
        with pytest.raises(ServerUnavailableError, match="was lost"):
            remote.read("hp")
        assert remote.read("hp") == 100


def test_a_game_that_has_exited_can_be_restarted_by_a_later_client(toys, server):
    toys.toy.is_alive = False
    toys.toy.has_window = False
    with connect(server.address, token=TOKEN) as remote:
        with pytest.raises(ProcessExitedError):
            remote.read("hp")
        remote.restart()
        assert remote.input.backend == "fake"
        assert remote.clock.grade == "lockstep"


def test_close_twice_and_after_the_server_has_exited(toys, tmp_path):
    server = serve(toys, ServerOptions(address=f"unix:{tmp_path}/s", token=TOKEN))
    remote = connect(server.address, token=TOKEN)
    server.stop()
    server.stop()
    remote.close()
    remote.close()
    with pytest.raises(SessionStateError):
        next(remote.watch(1.0))
