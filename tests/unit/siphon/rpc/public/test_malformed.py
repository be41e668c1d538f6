"""Thousands of mutated messages: each gets an answer or INVALID_ARGUMENT, and the service keeps working."""

import gc
import threading
from pathlib import Path

import grpc
import pytest

from soulslab.siphon.rpc.public.service import SERVICE
from support.long_form import IS_LONG
from support.malformed_messages import SERVICE_DESCRIPTOR, malformed
from support.public_siphon import TYPES, public_server
from support.waiting import PATIENCE_S, wait_for

N_IN_PROCESS = 19_500 if IS_LONG else 6000
N_OVER_THE_WIRE = 500


class RefusedError(Exception):
    pass


class Context:
    """Context of a call whose client has disconnected, so that the service does not wait."""

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


def answer_in_process(handlers, call, data):
    """Return the answers of a call, or its error code."""

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
        handlers = server.service.handlers(server.served)
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
        wait_for(lambda: threading.active_count() <= threads + 2, "threads to end")


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
            make(b"", timeout=PATIENCE_S)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
