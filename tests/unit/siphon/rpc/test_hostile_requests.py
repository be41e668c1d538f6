"""Malicious but well-formed requests: extreme numbers, null characters, metadata that is not UTF-8."""

import socket
import struct

import grpc
import msgspec
import pytest

from soulslab.errors import ConfigError
from soulslab.siphon.linux_game import LinuxGameOpener
from soulslab.siphon.rpc import messages as m
from soulslab.siphon.rpc.access import bearer
from soulslab.siphon.rpc.connection import make_endpoint
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.siphon.rpc.wire_encoding import encode, make_decoder
from soulslab.siphon.session import SessionOptions, Step
from soulslab.testing.fake_session import TOY_PROFILE, FakeSession
from support.waiting import PATIENCE_S

TOKEN = "0123456789abcdef"  # noqa: S105  (of this test)


@pytest.fixture
def toys():
    with FakeSession() as session:
        yield session


@pytest.fixture
def server(toys):
    with serve(toys, ServerOptions(token=TOKEN)) as server:
        yield server


@pytest.fixture
def stream(server):
    """Return a function that sends one request of an attached client and returns its failure."""
    with make_endpoint(server.address, TOKEN, None).open_channel() as channel:
        welcomes, answers = make_decoder(m.Welcome), make_decoder(m.Answer)

        def ask(request):
            calls = [encode(m.Hello(m.VERSION, "test")), encode(m.Call(1, 1.0, request))]
            attach = channel.stream_stream(f"/{m.SERVICE}/Attach")
            call = attach(iter(calls), timeout=PATIENCE_S, metadata=[(m.TOKEN_KEY, bearer(TOKEN))])
            welcomes.decode(next(call))
            return answers.decode(next(call)).failure

        yield ask


@pytest.mark.parametrize("rate_hz", [1e-300, 5e-324, 0.0, -1.0, 1e300, float("nan"), float("inf")])
def test_a_rate_of_looks_that_no_timer_can_wait_for_is_refused(server, rate_hz, caplog):
    with make_endpoint(server.address, TOKEN, None).open_channel() as channel:
        watch = channel.unary_stream(f"/{m.SERVICE}/Watch")
        looks = watch(encode(m.Watch(rate_hz)), timeout=PATIENCE_S, metadata=[(m.TOKEN_KEY, bearer(TOKEN))])
        with pytest.raises(grpc.RpcError) as raised:
            list(looks)
    assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("speed", [1e-300, 0.0, -1.0, 1e300, float("nan"), float("inf")])
@pytest.mark.parametrize(
    "request_of",
    [m.Run, lambda speed: m.DoAdvance(0.1, 1.0, speed), lambda speed: m.DoStep(Step(advance_s=0.1, speed=speed))],
)
def test_a_speed_that_no_game_has_is_refused(stream, toys, request_of, speed):
    failure = stream(request_of(speed))
    assert failure is not None
    assert failure.error == "WireError"
    assert toys.clock.game_time_s == 0.0


@pytest.mark.parametrize("options", [{"level": "1\0"}, {"level": "1" * 5000}, {"\0": "1"}, {"levle": "1"}])
def test_options_with_which_the_game_cannot_start_do_not_end_it(stream, toys, options):
    assert stream(m.Restart(options)) is not None
    with pytest.raises(ConfigError, match="option"):
        toys.restart(options)
    assert toys.read("hp") == 100
    assert toys.info.n_starts == 1
    toys.restart({"level": "7"})
    assert toys.read("level") == 7


def test_a_real_game_checks_its_options_before_it_is_closed():
    process = msgspec.structs.replace(TOY_PROFILE.process, command=("toy", "{level}"))
    profile = msgspec.structs.replace(TOY_PROFILE, process=process)
    with pytest.raises(ConfigError, match=r"options\.level: has a zero character"):
        LinuxGameOpener().check(profile, SessionOptions(options={"level": "1\0"}))


@pytest.mark.parametrize(
    ("name", "value"),
    [(b"authorization", b"Bearer \xff\xfe"), (b"soulslab-client", b"\xff\xfe"), (b"soulslab-client", b"a\x00b")],
)
def test_metadata_that_is_not_utf8_is_refused(server, caplog, name, value):
    token = [] if name == b"authorization" else [(b"authorization", bearer(TOKEN).encode())]
    reply = _call_raw(int(server.address.rpartition(":")[2]), [*token, (name, value)], encode(m.Info()))
    assert b"grpc-status\x0216" in reply  # UNAUTHENTICATED
    assert "Traceback" not in caplog.text
    assert all(len(record.getMessage()) < 300 for record in caplog.records)


def _call_raw(port, headers, body):
    """Call ``Info`` over HTTP/2 without a client library, which would validate the headers."""
    fixed = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", f"/{m.SERVICE}/Info".encode()),
        (b":authority", b"test"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
    ]
    block = b"".join(b"\0" + _text(name) + _text(value) for name, value in [*fixed, *headers])
    message = b"\0" + struct.pack(">I", len(body)) + body
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        connection.sendall(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + _frame(4, 0, 0, b"")
            + _frame(1, 4, 1, block)
            + _frame(0, 1, 1, message)
        )
        reply = b""
        while b"grpc-message" not in reply:
            data = connection.recv(1 << 16)
            assert data, reply
            reply += data
    return reply


def _text(value):
    """Return a literal of HPACK (RFC 7541, 5.2), shorter than 127 bytes."""
    assert len(value) < 127
    return bytes([len(value)]) + value


def _frame(kind, flags, stream, data):
    """Return a frame of HTTP/2 (RFC 9113, 4.1)."""
    return struct.pack(">I", len(data))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + data
