"""Arbitrary bytes: each request is answered with little time and memory; the game and other clients are unaffected."""

# ruff: noqa: S311  (seeds are what these are about)

import queue
import random
import threading

import grpc
import msgspec
import pytest

from soulslab.siphon.attributes.pointer_chains import ChainNumber
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.pad import Pad
from soulslab.siphon.rpc import messages as m
from soulslab.siphon.rpc.client import connect
from soulslab.siphon.rpc.connection import make_endpoint
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.siphon.rpc.wire_encoding import encode, make_decoder
from soulslab.siphon.session import Step
from soulslab.testing.fake_session import FakeSession
from support.input_costs import InputCosts
from support.waiting import PATIENCE_S

N_UNARY = 1500
N_STREAM = 3000
N_HELLO = 150
PLACE = ChainNumber(base="toy", offsets=(16, 0), type="i32")
REQUESTS = [
    m.Info(),
    m.Describe(),
    m.Read("hp"),
    m.Snap(("x", "velocity")),
    m.Examine(("x", "name")),
    m.Write({"hp": 3, "name": "a", "x": 1.0}),
    m.ReadNumber(PLACE),
    m.WriteNumber(PLACE, 3),
    m.Grab(FrameFormat(8, 8, True)),
    m.DoStep(Step(held=("W",), mouse_px=(1, 2), advance_s=0.1, attributes=("hp",), frame=FrameFormat(8, 8))),
    m.DoStep(Step(pad=Pad(buttons=("B",), right_stick=(0.0, 1.0)), attributes=())),
    m.Held(),
    m.Hold(("W", "SPACE")),
    m.Type(("A",)),
    m.MoveMouse(3, -3),
    m.SetPad(Pad(buttons=("A", "START"), left_stick=(0.5, -1.0), right_trigger=1.0)),
    m.Time(),
    m.Run(2.0),
    m.Pause(),
    m.DoAdvance(0.1, 1.0),
    m.Restart({"colour": "3"}),
]
#: What a careless or hostile sender puts in the place of something sensible.
ODD = [None, True, -1, 0, 2**64 - 1, -(2**63), 1e308, float("nan"), float("-inf"), "", "hp", "x" * 300, b"\xff", [], {}]
#: Statuses that say that something is wrong on our side; none is an answer to bytes.
CODES = grpc.StatusCode
OURS = {CODES.INTERNAL, CODES.UNKNOWN, CODES.UNAVAILABLE, CODES.DEADLINE_EXCEEDED}


def mutate(rng, data):
    """Return a message with small changes."""
    kind = rng.randrange(4)
    if kind == 0:
        return rng.randbytes(rng.randrange(40))
    if kind == 1:
        mutable = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            mutable[rng.randrange(len(mutable))] = rng.randrange(256)
        return bytes(mutable)
    if kind == 2:
        return data[: rng.randrange(len(data))] + rng.randbytes(rng.randrange(3))
    return msgspec.msgpack.encode(replace_one(rng, msgspec.msgpack.decode(data)))


def replace_one(rng, value):
    """Replace one part of plain data by an unexpected value."""
    if rng.random() < 0.3 or not isinstance(value, list | dict) or not value:
        return rng.choice(ODD)
    key = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
    value[key] = replace_one(rng, value[key])
    return value


@pytest.fixture
def toys():
    with FakeSession() as session:
        yield session


@pytest.fixture
def server(toys, tmp_path):
    with serve(toys, ServerOptions(address=f"unix:{tmp_path}/s", needs_token=False)) as server:
        yield server


@pytest.fixture
def channel(server):
    with make_endpoint(server.address, "", None).open_channel() as channel:
        yield channel


@pytest.fixture(autouse=True)
def _all_is_well_afterwards(toys, server, channel, caplog):
    yield
    with connect(server.address) as remote:
        remote.restart({})
        assert remote.step(Step(held=("W",), advance_s=0.1)).snapshot["y"] == 6.0
    assert toys.toy.held == frozenset()
    assert server.n_clients == 0
    assert "should not" not in caplog.text  # no mistake of ours was found


def test_unary_calls(server, channel):
    rng = random.Random(1)
    with connect(server.address) as remote:
        metadata = [(m.CLIENT_KEY, remote._connection.welcome.client_id)]
        assert {type(request).__name__ for request in REQUESTS} == set(m.REQUESTS)
        calls = {name: channel.unary_unary(f"/{m.SERVICE}/{name}") for name in m.REQUESTS}
        codes, costs = set(), InputCosts()
        for number in range(N_UNARY):
            request = REQUESTS[number % len(REQUESTS)]
            data = mutate(rng, encode(request))
            with costs.limited(number):
                try:
                    calls[type(request).__name__](data, timeout=PATIENCE_S, metadata=metadata)
                except grpc.RpcError as error:
                    assert error.code() not in OURS, error
                    codes.add(error.code())
        assert grpc.StatusCode.INVALID_ARGUMENT in codes


def test_the_stream(channel):
    """Malformed messages are answered, and the stream continues."""
    rng = random.Random(2)
    answers = make_decoder(m.Answer)
    outbox = queue.SimpleQueue()
    call = channel.stream_stream(f"/{m.SERVICE}/Attach")(iter(outbox.get, None), timeout=PATIENCE_S)
    outbox.put(encode(m.Hello(m.VERSION, "fuzz")))
    next(call)
    n_failures, costs = 0, InputCosts()
    for number in range(N_STREAM):
        data = mutate(rng, encode(m.Call(number, 1.0, rng.choice(REQUESTS))))
        with costs.limited(number):
            outbox.put(data)
            answer = answers.decode(next(call))
        n_failures += answer.failure is not None
        if answer.failure is not None:
            assert answer.failure.error != "RemoteError", answer
    outbox.put(None)
    assert list(call) == []
    assert n_failures > N_STREAM / 3


def test_hellos(channel):
    rng = random.Random(3)
    hello = encode(m.Hello(m.VERSION, "fuzz", "raw", 90, m.SharedMemory(1, 1, 64, b"n" * 16)))
    attach, costs = channel.stream_stream(f"/{m.SERVICE}/Attach"), InputCosts()
    for number in range(N_HELLO):
        data = mutate(rng, hello)
        with costs.limited(number):
            try:
                list(attach(iter([data]), timeout=PATIENCE_S))
            except grpc.RpcError as error:
                assert error.code() not in OURS, error


def test_watches(channel):
    rng = random.Random(4)
    watch = encode(m.Watch(1000.0, ("hp",), FrameFormat(8, 8), "raw", 90))
    costs = InputCosts()
    for number in range(N_HELLO):
        data = mutate(rng, watch)
        with costs.limited(number):
            call = channel.unary_stream(f"/{m.SERVICE}/Watch")(data, timeout=PATIENCE_S)
            try:
                next(call)
            except grpc.RpcError as error:
                assert error.code() not in OURS, error
            call.cancel()


def test_many_at_once(server, channel):
    """Clients with malformed messages do not affect the controlling client."""
    is_over = threading.Event()

    def send(seed):
        rng = random.Random(seed)
        read = channel.unary_unary(f"/{m.SERVICE}/Read")
        while not is_over.is_set():
            with pytest.raises(grpc.RpcError):
                read(b"\xc1" + rng.randbytes(5), timeout=PATIENCE_S)

    threads = [threading.Thread(target=send, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    try:
        with connect(server.address) as remote:
            for number in range(1, 51):
                assert remote.step(Step(advance_s=1 / 60)).snapshot["ticks"] == number
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
