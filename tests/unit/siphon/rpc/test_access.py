"""Access to a server: other users, slow and incomplete connections, token files, and profile paths."""

import logging
import os
import queue
import socket
import stat
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest

from soulslab.errors import AccessRefusedError, ConfigError, InvalidValueError, ReadOnlyError, WireError
from soulslab.siphon.attributes.pointer_chains import ChainNumber
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.pad import Pad
from soulslab.siphon.rpc import messages as m
from soulslab.siphon.rpc import server as server_module
from soulslab.siphon.rpc.access import read_or_make_token, read_token, user_of_peer
from soulslab.siphon.rpc.address import parse_address
from soulslab.siphon.rpc.client import ClientOptions, connect
from soulslab.siphon.rpc.connection import make_endpoint
from soulslab.siphon.rpc.server import MAX_CALLS, ServerOptions, serve
from soulslab.siphon.session import SessionOptions, Step
from soulslab.testing.fake_session import LAYOUT, OWNER_OFFSET, FakeSession
from support.other_user import NOBODY, relayed
from support.waiting import PATIENCE_S

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may start a process of another user")
N_SILENT = MAX_CALLS + 16


@pytest.fixture
def toys():
    with FakeSession() as session:
        yield session


def echo(_):
    """Create another service."""
    twice = grpc.unary_unary_rpc_method_handler(lambda request, _: request * 2)
    return [grpc.method_handlers_generic_handler("other.Service", {"Twice": twice})]


@pytest.fixture(params=["127.0.0.1:0", "localhost:0", "[::1]:0"])
def address(request):
    if request.param == "[::1]:0":
        with socket.socket(socket.AF_INET6) as probe:
            try:
                probe.bind(("::1", 0))
            except OSError:
                pytest.skip("this machine has no ::1")
    return request.param


# --- users --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_the_kernel_names_the_user_of_a_connection(family):
    host = "127.0.0.1" if family is socket.AF_INET else "::1"
    with socket.socket(family) as listener:
        try:
            listener.bind((host, 0))
        except OSError:
            pytest.skip(f"this machine has no {host}")
        listener.listen()
        server = parse_address(f"{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}")
        client = socket.create_connection((host, server.port))
        peer = f"{'ipv6:%5B' + host + '%5D' if ':' in host else 'ipv4:' + host}:{client.getsockname()[1]}"
        with client:
            assert user_of_peer(peer, server) == os.geteuid()
        assert user_of_peer(peer, server) is None  # the process has closed it


def test_the_same_user_needs_no_token_without_a_token(toys, address):
    with serve(toys, ServerOptions(address=address, needs_token=False, extra_handlers=echo)) as server:
        with connect(server.address) as remote:
            assert remote.read("hp") == 100
        with make_endpoint(server.address, "", None).open_channel() as channel:
            assert channel.unary_unary("/other.Service/Twice")(b"ab", timeout=PATIENCE_S) == b"abab"


@needs_root
def test_another_user_is_refused_without_the_token(toys):
    with serve(toys, ServerOptions(extra_handlers=echo)) as server, ExitStack() as stack:
        port = stack.enter_context(relayed(parse_address(server.address).port))
        channel = stack.enter_context(make_endpoint(f"127.0.0.1:{port}", "", None).open_channel())
        twice = channel.unary_unary("/other.Service/Twice")
        with pytest.raises(grpc.RpcError, match=f"of user {NOBODY}, and the server serves user 0 only") as caught:
            twice(b"ab", timeout=PATIENCE_S)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        token = ((m.TOKEN_KEY, f"Bearer {server.token.reveal()}"),)
        assert twice(b"ab", timeout=PATIENCE_S, metadata=token) == b"abab"
        with connect(f"127.0.0.1:{port}", token=server.token) as remote:
            assert remote.read("hp") == 100
    with serve(toys, ServerOptions(needs_token=False)) as server:
        with relayed(parse_address(server.address).port) as port, pytest.raises(AccessRefusedError, match="of user"):
            connect(f"127.0.0.1:{port}")
        connect(server.address).close()


# --- silent calls -------------------------------------------------------------------------------------------


def silent(channel, method, *, metadata=()):
    """Start a call that sends no message."""
    return channel.stream_stream(method)(iter(queue.SimpleQueue().get, None), metadata=metadata)


@pytest.mark.parametrize("method", [f"/{m.SERVICE}/Attach", f"/{m.SERVICE}/Read", f"/{m.SERVICE}/Watch", "/o.S/Twice"])
def test_silent_calls_do_not_block_other_calls(toys, method):
    def other(_):
        twice = grpc.unary_unary_rpc_method_handler(lambda request, _: request * 2)
        return [grpc.method_handlers_generic_handler("o.S", {"Twice": twice})]

    with (
        serve(toys, ServerOptions(needs_token=False, extra_handlers=other)) as server,
        make_endpoint(server.address, "", None).open_channel() as channel,
    ):
        calls = [silent(channel, method) for _ in range(N_SILENT)]
        with connect(server.address, deadline_s=PATIENCE_S) as remote:
            assert remote.read("hp") == 100
        for call in calls:
            call.cancel()


@pytest.mark.parametrize("method", ["Attach", "Read", "Watch"])
def test_a_call_without_the_token_is_refused_before_it_sends_anything(toys, method):
    with serve(toys) as server, make_endpoint(server.address, "", None).open_channel() as channel:
        for call in [silent(channel, f"/{m.SERVICE}/{method}") for _ in range(N_SILENT)]:
            with pytest.raises(grpc.RpcError) as caught:
                next(call)
            assert caught.value.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.RESOURCE_EXHAUSTED)
        with connect(server.address, token=server.token, deadline_s=PATIENCE_S) as remote:
            assert remote.read("hp") == 100


def test_a_call_that_ends_without_a_message_is_an_error(toys):
    with serve(toys) as server, make_endpoint(server.address, server.token, None).open_channel() as channel:
        metadata = ((m.TOKEN_KEY, f"Bearer {server.token.reveal()}"),)
        for method in ("Attach", "Read"):
            with pytest.raises(grpc.RpcError, match="ended before its first message") as caught:
                next(channel.stream_stream(f"/{m.SERVICE}/{method}")(iter(()), metadata=metadata, timeout=PATIENCE_S))
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_handshake_that_does_not_end_is_closed(toys, monkeypatch):
    monkeypatch.setattr(server_module, "HANDSHAKE_TIMEOUT_MS", 300)
    with serve(toys) as server:
        host, port = server.address.split(":")
        # Sooner than the time-out of gRPC itself, which is 120 s.
        with socket.create_connection((host, int(port)), timeout=60.0) as mute:
            while mute.recv(4096):  # the server's settings, then the end
                pass


# --- frames -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frame", [FrameFormat(16384, 16384), FrameFormat(16384, 16384, True), FrameFormat(8192, 4096)])
def test_a_frame_that_cannot_be_sent_is_refused_before_it_is_made(toys, frame):
    def grab(_):
        raise AssertionError("it was made")

    with serve(toys) as server, connect(server.address, token=server.token) as remote:
        toys._game.capture.grab = grab
        for ask in (
            lambda: remote.capture(frame),
            lambda: remote.step(Step(frame=frame)),
            lambda: next(remote.watch(10.0, (), frame)),
        ):
            with pytest.raises(WireError, match="can be sent"):
                ask()


# --- tokens, sockets, names ---------------------------------------------------------------------------------


def test_a_new_token_is_private_and_kept(tmp_path):
    file = tmp_path / "state" / "token"
    token = read_or_make_token(file)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file.parent, file)] == [0o700, 0o600]
    assert read_or_make_token(file) == token
    with pytest.raises(ConfigError, match="Not a directory"):
        read_or_make_token(file / "below")


def test_a_short_token_is_refused_at_every_address(toys, tmp_path):
    for address in ("127.0.0.1:0", f"unix:{tmp_path}/s"):
        with pytest.raises(ConfigError, match="has 15 characters and needs 16"):
            serve(toys, ServerOptions(address=address, token="t" * 15))


@pytest.fixture
def token_file(tmp_path):
    file = tmp_path / "token"
    file.write_text("a-token-of-some-length\n")
    file.chmod(0o600)
    return file


def test_a_token_file_is_read(token_file):
    assert read_token(token_file).reveal() == "a-token-of-some-length"


def test_a_byte_order_mark_is_not_part_of_the_token(token_file):
    token_file.write_text("a-token-of-some-length\n", encoding="utf-8-sig")
    assert read_token(token_file).reveal() == "a-token-of-some-length"


@pytest.mark.parametrize("mode", [0o602, 0o620, 0o666])
def test_a_token_file_that_others_may_write_is_refused(token_file, mode):
    token_file.chmod(mode)
    with pytest.raises(ConfigError, match=f"may be written by other users \\(mode {mode:o}\\)"):
        read_token(token_file)


@needs_root
def test_a_token_file_of_another_user_is_refused(token_file):
    os.chown(token_file, NOBODY, NOBODY)
    with pytest.raises(ConfigError, match=f"belongs to user {NOBODY}"):
        read_token(token_file)


@pytest.mark.parametrize("content", ["", "short", "\n" * 100])
def test_a_token_file_without_a_good_token_is_refused(token_file, content):
    token_file.write_text(content)
    with pytest.raises(ConfigError, match="16 are needed"):
        read_token(token_file)


def test_a_token_file_has_to_be_a_file(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot be read|no regular file"):
        read_token(tmp_path)
    with pytest.raises(ConfigError, match=r"none: cannot be read: No such file or directory; give the token file"):
        read_token(tmp_path / "none")
    with pytest.raises(ConfigError, match="not a regular file"):
        read_token(Path(os.devnull))


def test_a_socket_is_private_from_the_moment_at_which_it_exists(toys, tmp_path, monkeypatch):
    def never(*_, **__):
        raise AssertionError("the mode was changed later")

    monkeypatch.setattr(os, "chmod", never)
    before = os.umask(0)
    try:
        with serve(toys, ServerOptions(address=f"unix:{tmp_path}/s")):
            assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o600
    finally:
        assert os.umask(before) == 0


def test_the_name_of_a_client_cannot_forge_a_line_of_the_log(toys, caplog):
    caplog.set_level(logging.INFO)
    with serve(toys) as server:
        options = ClientOptions(name="müller\nERROR forged\x1b[2J")
        connect(server.address, token=server.token, options=options).close()
    assert r"müller\nERROR forged\x1b[2J is attached" in caplog.text
    assert "\x1b" not in caplog.text


# --- writes beside the profile ------------------------------------------------------------------------------


def at(name, kind, **more):
    return ChainNumber(base="toy", offsets=(OWNER_OFFSET, LAYOUT[name][1]), type=kind, **more)


def test_a_number_is_written_only_where_the_profile_permits_it(toys):
    with serve(toys) as server, connect(server.address, token=server.token) as remote:
        remote.write_number(at("hp", "i32"), 33)
        assert toys.read("hp") == 33
        with pytest.raises(InvalidValueError, match="between 0 and 100"):
            remote.write_number(at("hp", "i32"), 1000)
        for where in (at("ticks", "u32"), at("hp", "u8"), ChainNumber(base="toy", offsets=(0, 0), type="u64")):
            with pytest.raises(ReadOnlyError, match=r"no writable attribute there.*--allow-raw-writes"):
                remote.write_number(where, 7)
        assert toys.read("hp") == 33


def test_a_server_may_permit_writes_at_any_address(toys):
    options = ServerOptions(allow_raw_writes=True)
    with serve(toys, options) as server, connect(server.address, token=server.token) as remote:
        remote.write_number(at("ticks", "u32"), 7)
        assert toys.read("ticks") == 7


# --- read-only servers --------------------------------------------------------------------------------------


def test_a_read_only_server_refuses_every_change():
    with FakeSession(SessionOptions(is_read_only=True)) as toys, serve(toys) as server:
        options = {"token": server.token, "deadline_s": PATIENCE_S}
        with connect(server.address, **options) as remote, connect(server.address, **options) as other:
            assert remote.info.is_read_only
            for request in (
                m.Write({"hp": 3}),
                m.WriteNumber(at("hp", "i32"), 3),
                m.Hold(("W",)),
                m.Hold(()),
                m.Type(("W",)),
                m.MoveMouse(1, 1),
                m.SetPad(Pad(buttons=("A",))),
                m.SetPad(Pad()),
                m.Run(2.0),
                m.Pause(),
                m.DoAdvance(0.1, 1.0),
                m.DoStep(Step(held=())),
                m.DoStep(Step(advance_s=0.1)),
                m.DoStep(Step(mouse_px=(1, 0))),
                m.DoStep(Step(pad=Pad(left_trigger=1.0))),
                m.Restart(None),
                m.Restart({"level": "3"}, 7),
            ):
                for client in (remote, other):  # none of them gets control by a request that is refused
                    with pytest.raises(ReadOnlyError, match="the session is read-only"):
                        client.ask(request)
            assert remote.step(Step(attributes=("hp",))).snapshot["hp"] == 100
        assert toys.info.n_starts == 1
        assert toys.toy.held == frozenset()
        assert toys.toy.input.pad.is_at_rest
