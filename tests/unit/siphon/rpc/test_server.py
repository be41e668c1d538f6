"""The server: addresses, access, opening and closing of games, and unary calls."""

import socket
import stat
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import msgspec
import pytest

from soulslab.errors import (
    AccessRefusedError,
    ConfigError,
    InputError,
    LaunchError,
    RemoteError,
    ServerUnavailableError,
    UnknownAttributeError,
    WireError,
)
from soulslab.siphon.attributes.pointer_chains import ChainNumber
from soulslab.siphon.pad import Pad
from soulslab.siphon.rpc import messages as m
from soulslab.siphon.rpc.client import connect
from soulslab.siphon.rpc.connection import make_endpoint
from soulslab.siphon.rpc.error_mapping import from_call
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.siphon.rpc.wire_encoding import encode, make_decoder
from soulslab.siphon.session import Step
from soulslab.testing.fake_session import TOY_PROFILE, FakeSession
from support.waiting import PATIENCE_S, wait_for

TOKEN = "a-token-of-some-length"  # noqa: S105  (of a server that lives for one test)


@pytest.fixture
def toys():
    with FakeSession() as session:
        yield session


@pytest.fixture
def server(toys, tmp_path):
    with serve(toys, ServerOptions(address=f"unix:{tmp_path}/s", token=TOKEN)) as server:
        yield server


@pytest.fixture
def channel(server):
    with make_endpoint(server.address, "", None).open_channel() as channel:
        yield channel


def metadata(token=TOKEN, client=""):
    found = [(m.TOKEN_KEY, f"Bearer {token}")] if token else []
    return [*found, (m.CLIENT_KEY, client)] if client else found


def ask(channel, request, **keys):
    """Send a unary call without soulslab's client."""
    return make_decoder(request.result_type()).decode(ask_raw(channel, type(request).__name__, encode(request), **keys))


def ask_raw(channel, name, data, **keys):
    """Send the bytes of a unary call and return those of the answer."""
    call = channel.unary_unary(f"/{m.SERVICE}/{name}")
    try:
        return call(data, timeout=PATIENCE_S, metadata=metadata(**keys))
    except grpc.RpcError as error:
        raise from_call(error, "the server") from error


# --- where it listens ---------------------------------------------------------------------------------------


@pytest.fixture
def pem(tmp_path):
    path = tmp_path / "some.pem"
    path.write_text("-----BEGIN NOTHING-----\n")
    return path


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.168.1.2:0", "somewhere:0"])
@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({}, "tls_certificate"),
        ({"token": TOKEN}, "tls_certificate"),
        ({"needs_token": False}, "needs_token"),
        ({"token": "short"}, "token"),
        ({"tls_key": "pem"}, "tls_certificate"),
        ({"tls_certificate": "pem"}, "tls_key"),
    ],
)
def test_a_public_address_needs_a_token_and_tls(toys, pem, address, options, place):
    options = {name: pem if value == "pem" else value for name, value in options.items()}
    with pytest.raises(ConfigError) as caught:
        serve(toys, ServerOptions(address=address, **options))
    assert caught.value.path == place


def test_invalid_tls_files_are_errors(toys, pem, tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        serve(toys, ServerOptions(tls_certificate=tmp_path / "none", tls_key=pem))
    (tmp_path / "other").write_text("no PEM")
    with pytest.raises(ConfigError, match="is not a PEM file"):
        serve(toys, ServerOptions(tls_certificate=tmp_path / "other", tls_key=pem))
    with pytest.raises(ConfigError, match=r"cannot listen.*or the TLS key does not belong to the certificate"):
        serve(toys, ServerOptions(tls_certificate=pem, tls_key=pem))


@pytest.mark.parametrize("token", ["a b", "ü", "line\n"])
def test_a_token_has_to_fit_into_metadata(toys, token):
    with pytest.raises(ConfigError, match="printable ASCII"):
        serve(toys, ServerOptions(token=token))


def test_an_address_in_use_is_refused(toys, server):
    with pytest.raises(ConfigError, match="another server listens"):
        serve(toys, ServerOptions(address=server.address))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(
            ConfigError, match=r"cannot listen.*does not have it; choose another port, or 0 for a free one"
        ):
            serve(toys, ServerOptions(address=f"127.0.0.1:{taken.getsockname()[1]}"))


def test_a_file_is_not_replaced_by_a_socket(toys, tmp_path):
    path = tmp_path / "file"
    path.write_text("precious")
    with pytest.raises(ConfigError, match="is not a socket"):
        serve(toys, ServerOptions(address=f"unix:{path}"))
    assert path.read_text() == "precious"


def test_a_socket_that_was_left_behind_is_replaced(toys, tmp_path):
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(str(path))
    with serve(toys, ServerOptions(address=f"unix:{path}")) as server:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with connect(server.address, token=server.token) as remote:
            assert remote.read("hp") == 100
    assert not path.exists()


# --- whom it lets in ----------------------------------------------------------------------------------------


def test_a_token_is_created_by_default(toys):
    with serve(toys) as first, serve(toys) as second:
        assert len(first.token.reveal()) >= 32
        assert first.token != second.token
        for token in ("", "wrong", second.token, f"{first.token}x"):
            with pytest.raises(AccessRefusedError, match="the token is"):
                connect(first.address, token=token)
        connect(first.address, token=first.token).close()
    with serve(toys, ServerOptions(needs_token=False)) as server:
        assert not server.token
        connect(server.address).close()


@pytest.mark.parametrize("token", ["", "wrong"])
def test_every_method_wants_the_token(channel, token):
    for name in m.REQUESTS:
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(f"/{m.SERVICE}/{name}")(b"", metadata=metadata(token))
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    for stream in (
        channel.unary_stream(f"/{m.SERVICE}/Watch")(encode(m.Watch(1.0)), metadata=metadata(token)),
        channel.stream_stream(f"/{m.SERVICE}/Attach")(iter([encode(m.Hello(1, ""))]), metadata=metadata(token)),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            next(stream)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_no_more_clients_than_allowed(toys, tmp_path):
    options = ServerOptions(address=f"unix:{tmp_path}/s", needs_token=False, max_clients=2)
    with serve(toys, options) as server:
        first, second = connect(server.address), connect(server.address)
        with pytest.raises(AccessRefusedError, match="2 clients"):
            connect(server.address)
        first.close()
        connect(server.address).close()
        second.close()


@pytest.mark.parametrize(
    ("version", "who"), [(m.VERSION - 1, "update the client"), (m.VERSION + 1, "update this server")]
)
def test_another_version_is_refused_with_both(channel, version, who):
    hello = encode([version, "a client of another time", {"whatever": 1}])
    stream = channel.stream_stream(f"/{m.SERVICE}/Attach")(iter([hello]), metadata=metadata())
    with pytest.raises(grpc.RpcError) as caught:
        next(stream)
    error = from_call(caught.value, "the server")
    assert isinstance(error, WireError)
    assert f"version {version}" in str(error)
    assert f"it is {m.VERSION}" in str(error)
    assert who in str(error)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_another_server_is_an_error(toys, tmp_path):
    other = grpc.server(ThreadPoolExecutor(1))
    port = other.add_insecure_port("127.0.0.1:0")
    other.start()
    try:
        with pytest.raises(WireError, match="not a soulslab server"):
            connect(f"127.0.0.1:{port}")
    finally:
        other.stop(None).wait()
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        with pytest.raises(ServerUnavailableError, match=r"did not answer within 0\.2 s"):
            connect(f"127.0.0.1:{mute.getsockname()[1]}", deadline_s=0.2)


# --- unary calls --------------------------------------------------------------------------------------------


def test_unary_calls_can_read_without_attaching(channel):
    assert ask(channel, m.Describe()) == TOY_PROFILE
    assert ask(channel, m.Info()).executable == "/toy"
    assert ask(channel, m.Read("hp")) == 100
    assert ask(channel, m.Snap(("x", "y"))).values == {"x": 0.0, "y": 0.0}
    assert ask(channel, m.Grab()).shape == (48, 64, 3)
    assert ask(channel, m.Held()) == frozenset()
    assert ask(channel, m.Time()).speed == 1.0
    assert ask(channel, m.DoStep(Step(attributes=("hp",)))).values.values == {"hp": 100}
    with pytest.raises(UnknownAttributeError, match="did you mean 'hp'"):
        ask(channel, m.Read("hpp"))


CHANGES = [
    m.Write({"hp": 3}),
    m.WriteNumber(ChainNumber(base="toy", offsets=(16, 0), type="i32"), 3),
    m.Hold(("W",)),
    m.Type(("W",)),
    m.MoveMouse(1, 1),
    m.SetPad(Pad(buttons=("A",))),
    m.Run(2.0),
    m.Pause(),
    m.DoAdvance(0.1, 1.0),
    m.DoStep(Step(held=("W",))),
    m.DoStep(Step(advance_s=0.1)),
    m.DoStep(Step(mouse_px=(1, 0))),
    m.DoStep(Step(pad=Pad(buttons=("A",)))),
    m.Restart(None),
]


def test_unary_calls_without_a_client_id_cannot_change_the_game(toys, channel):
    for request in CHANGES:
        for client in ("", "0" * 32):
            with pytest.raises(AccessRefusedError):
                ask(channel, request, client=client)
    assert toys.toy.held == frozenset()
    assert toys.info.n_starts == 1


def test_unary_calls_with_a_client_id_belong_to_its_stream(toys, server, channel):
    assert set(m.REQUESTS) == {type(request).__name__ for request in CHANGES} | {
        "Info", "Describe", "Read", "Snap", "Examine", "ReadNumber", "Grab", "Held", "Time"
    }  # fmt: skip
    with connect(server.address, token=TOKEN) as remote:
        client = remote._connection.welcome.client_id
        for request in CHANGES:
            ask(channel, request, client=client)
        ask(channel, m.Hold(("W", "D")), client=client)
        assert remote.input.held == {"W", "D"}
    assert toys.toy.held == frozenset()
    with pytest.raises(AccessRefusedError):
        ask(channel, m.Hold(("W",)), client=client)


@pytest.mark.parametrize("is_step", [True, False])
@pytest.mark.parametrize("leaves", [True, False])
def test_the_pad_of_a_client_is_set_and_released_with_it(toys, server, is_step, leaves):
    pad = Pad(buttons=("B",), left_stick=(0.25, -1.0), right_trigger=0.5)
    remote = connect(server.address, token=TOKEN)
    if is_step:
        remote.step(Step(pad=pad))
    else:
        remote.input.set_pad(pad)
    assert toys.toy.input.pad == pad
    if leaves:
        remote.close()
    else:
        remote._connection.close()  # as when the client dies: the stream ends without a Leave
        wait_for(lambda: toys.toy.input.pad.is_at_rest)
        remote.close()
    assert toys.toy.input.pad.is_at_rest


@pytest.mark.parametrize(
    "pad", [{"buttons": ["Q"]}, {"left_stick": [0.0, 1.5]}, {"left_trigger": -0.5}, {"right_stick": [0.0]}, {"a": 1}]
)
def test_an_impossible_pad_is_refused(toys, server, channel, pad):
    with connect(server.address, token=TOKEN) as remote:
        client = remote._connection.welcome.client_id
        with pytest.raises((WireError, InputError)):
            ask_raw(channel, "SetPad", msgspec.msgpack.encode(["pad", pad]), client=client)
    assert toys.toy.input.pad.is_at_rest


# --- the life of games --------------------------------------------------------------------------------------


class Opener:
    def __init__(self):
        self.sessions = []

    def __call__(self):
        self.sessions.append(FakeSession())
        return self.sessions[-1]

    @property
    def closed(self):
        return [session._is_closed for session in self.sessions]


def test_a_session_of_another_owner_stays_open(toys):
    with serve(toys) as server, connect(server.address, token=server.token) as remote:
        remote.input.set_held(["W"])
    assert toys.toy.held == frozenset()
    assert toys.read("hp") == 100


def test_a_game_is_opened_for_the_first_client_and_closed_with_the_server():
    opener = Opener()
    with serve(opener) as server:
        assert opener.closed == []
        for _ in range(2):
            connect(server.address, token=server.token).close()
        assert opener.closed == [False]
    assert opener.closed == [True]


def test_a_game_is_closed_with_the_last_client_on_request():
    opener = Opener()
    with serve(opener, ServerOptions(closes_with_clients=True)) as server:
        first = connect(server.address, token=server.token)
        second = connect(server.address, token=server.token)
        first.close()
        assert opener.closed == [False]
        second.close()
        assert opener.closed == [True]
        with connect(server.address, token=server.token) as third:
            assert third.read("hp") == 100
            assert opener.closed == [True, False]
    assert opener.closed == [True, True]
    with pytest.raises(ConfigError):
        serve(FakeSession(), ServerOptions(closes_with_clients=True))


def test_each_client_gets_the_error_of_a_game_that_cannot_be_opened():
    def fail():
        raise LaunchError("the toy is broken", pid=None)

    with serve(fail) as server:
        for _ in range(2):
            with pytest.raises(LaunchError, match="the toy is broken"):
                connect(server.address, token=server.token)
        assert server.n_clients == 0


def test_a_bug_is_reported_and_the_server_continues(toys, server, caplog):
    with connect(server.address, token=TOKEN) as remote:
        remote.input.set_held(["W"])
        toys.read = lambda _: 1 / 0
        with pytest.raises(RemoteError, match="ZeroDivisionError"):
            remote.read("hp")
        assert "ZeroDivisionError" in caplog.text
        assert remote.input.held == {"W"}
        toys.read = lambda _: object()
        with pytest.raises(RemoteError, match="cannot be sent"):
            remote.read("hp")
        toys.read = lambda _: bytes(m.MAX_ANSWER_BYTES)
        with pytest.raises(WireError, match="ask for less"):
            remote.read("hp")
        assert remote.input.held == {"W"}


def test_other_services_share_the_server(toys, tmp_path):
    seen = []

    def extra(session):
        seen.append(session)
        hello = grpc.unary_unary_rpc_method_handler(lambda request, _: request * 2)
        return [grpc.method_handlers_generic_handler("other.Service", {"Twice": hello})]

    options = ServerOptions(address=f"unix:{tmp_path}/s", token=TOKEN, extra_handlers=extra)
    with serve(toys, options) as server, make_endpoint(server.address, "", None).open_channel() as channel:
        assert seen == [toys]
        assert channel.unary_unary("/other.Service/Twice")(b"ab") == b"abab"
        with pytest.raises(AccessRefusedError):
            ask(channel, m.Read("hp"), token="")


def test_stopping_ends_everything(toys, tmp_path):
    before = threading.active_count()
    server = serve(toys, ServerOptions(address=f"unix:{tmp_path}/s", token=TOKEN))
    remotes = [connect(server.address, token=TOKEN) for _ in range(3)]
    remotes[0].step(Step(held=("W",)))
    assert server.n_clients == 3
    server.stop()
    assert server.n_clients == 0
    assert toys.toy.held == frozenset()
    for remote in remotes:
        remote.close()
    assert server.wait(0.0) is False
    wait_for(lambda: threading.active_count() <= before + 1, "gRPC to end its threads")
