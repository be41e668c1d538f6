"""20,000 mutated messages: always an answer or INVALID_ARGUMENT, and a service that is as good as before."""

import gc
import random
import threading
from pathlib import Path

import grpc
import pytest

from soulslab.siphon.rpc.public import siphon_service_pb2 as messages
from soulslab.siphon.rpc.public.service import SERVICE
from support.public_siphon import TYPES, public_server

N_IN_PROCESS = 19_500
N_OVER_THE_WIRE = 500
SERVICE_DESCRIPTOR = messages.DESCRIPTOR.services_by_name["SiphonService"]
CALLS = tuple(method.name for method in SERVICE_DESCRIPTOR.methods)
TEXTS = (
    "",
    "hp",
    "x",
    "name",
    "W",
    "LEFT",
    "toy",
    "Toy",
    "jpeg",
    "raw",
    "dll",
    "int",
    "array",
    "48 8B 05 ??",
    "/",
    "\0",
)
NUMBERS = (0, 1, -1, 2, 30, 100, 255, 2**31 - 1, -(2**31), 2**32 - 1, 2**63, 2**64 - 1)
STARTERS = ("StartRecording", "InitializeMemory", "InitializeInput", "InitializeCapture", "SetProcessConfig")


class RefusedError(Exception):
    pass


class Context:
    """A call whose client, unless it streams, has gone already, so that nothing waits."""

    code = None

    def __init__(self, is_stream):
        self._is_stream = is_stream

    def peer(self):
        return "ipv4:127.0.0.1:1"

    def add_callback(self, _):
        return self._is_stream

    def abort(self, code, details):
        self.code = code
        raise RefusedError(details)

    def cancel(self):
        return True


def request_of(call):
    return getattr(messages, SERVICE_DESCRIPTOR.methods_by_name[call].input_type.name)


def fill(message, rng, depth=0):
    """Fill a message with values that are extreme, or nearly right."""
    for field in message.DESCRIPTOR.fields:
        if rng.random() < 0.3:
            continue
        many = field.is_repeated
        for _ in range(rng.randrange(4) if many else 1):
            if field.message_type is not None:
                fill(getattr(message, field.name).add(), rng, depth + 1)
                continue
            value = value_for(field, rng)
            try:
                if many:
                    getattr(message, field.name).append(value)
                else:
                    setattr(message, field.name, value)
            except ValueError:  # out of the range of its type
                continue
    return message


def value_for(field, rng):
    if field.cpp_type == field.CPPTYPE_STRING:
        text = rng.choice(TEXTS) if rng.random() < 0.9 else "x" * rng.randrange(3000)
        return text.encode() if field.type == field.TYPE_BYTES else text
    if field.cpp_type == field.CPPTYPE_BOOL:
        return rng.random() < 0.5
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return rng.choice([0.0, 1.5, -1e30, float("nan"), float("inf")])
    return rng.choice(NUMBERS)


def mutated(data, rng):
    """Change some bytes."""
    data = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        place = rng.randrange(len(data) + 1)
        match rng.randrange(5):
            case 0:
                data[place:place] = rng.randbytes(rng.randrange(1, 5))
            case 1:
                del data[place : place + rng.randrange(1, 5)]
            case 2 if place < len(data):
                data[place] ^= 1 << rng.randrange(8)
            case 3:
                data[place:] = data[: rng.randrange(len(data) + 1)]
            case _:
                del data[place:]
    return bytes(data)


def malformed(n, seed):
    """Yield calls and requests: a third as filled, the rest with changed bytes too."""
    rng = random.Random(seed)  # noqa: S311  (no secret)
    for i in range(n):
        call = CALLS[i % len(CALLS)]
        # What opens something is dear; a few thousand of each are not needed.
        if call in STARTERS and rng.random() < 0.7:
            call = "GetAttribute"
        data = fill(request_of(call)(), rng).SerializeToString()
        yield call, data if rng.random() < 0.33 else mutated(data, rng)


def answer_in_process(handlers, call, data):
    """Return what a call comes to: answers, or the code that it was refused with."""

    class Details:
        method = f"/{SERVICE}/{call}"
        invocation_metadata = ()

    handler = handlers[0].service(Details)
    context = Context(handler.response_streaming)
    try:
        if handler.response_streaming:
            stream = handler.unary_stream(data, context)
            answers = [answer for answer, _ in zip(stream, range(2), strict=False)]
            stream.close()
        else:
            answers = [handler.unary_unary(data, context)]
    except RefusedError:
        return context.code
    for answer in answers:
        handler.response_serializer(answer)
    return answers


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def server(tmp_path):
    with public_server(tmp_path, stream_hz=1e6) as server:
        yield server


def test_in_process(server):
    with server.client() as client:
        client.initialise()
        gc.collect()
        threads, files = threading.active_count(), open_files()
        handlers = server.service.handlers()
        n_refused = n_answers = 0
        for i, (call, data) in enumerate(malformed(N_IN_PROCESS, seed=1)):
            if i % 500 == 0:  # or most calls would only learn that nothing is initialised
                client.initialise()
            came = answer_in_process(handlers, call, data)
            if isinstance(came, grpc.StatusCode):
                assert came in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION)
                n_refused += 1
            else:
                n_answers += len(came)
        assert n_refused > 1000
        assert n_answers > 1000
        # As good as before.
        client.initialise()
        for key in server.service._keys.down:
            assert client("InputKeyToggle", key=key, toggle=False).success
        server.service._recordings.close()
        assert client("GetAttribute", attributeName="level").int_value == 1
        assert client("CaptureFrame").success
        assert server.toys.toy.held == frozenset()
        for session in server.toys.sessions[:-1]:
            assert session._is_closed
        gc.collect()
        assert open_files() <= files + 2
        assert threading.active_count() <= threads + 2


def test_over_the_wire(server):
    with server.client() as client:
        client.initialise()
        for call, data in malformed(N_OVER_THE_WIRE, seed=2):
            try:
                if SERVICE_DESCRIPTOR.methods_by_name[call].server_streaming:
                    stream = client.start(call, data)
                    next(stream, None)
                    stream.cancel()
                elif call != "InputKeyTap":  # it may rightly take a minute
                    client(call, data)
            except grpc.RpcError as error:
                assert error.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION)
        assert client.configure({"hp": TYPES["hp"]}).success
        client.initialise()
        assert client("GetAttribute", attributeName="level").success


def test_unknown_calls_are_unimplemented(server):
    with server.client() as client:
        make = client._channel.unary_unary(f"/{SERVICE}/Nonsense")
        with pytest.raises(grpc.RpcError) as caught:
            make(b"", timeout=10)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
