"""Handlers of the public service: decoding of requests and conversion of errors.

A failure is an answer with ``success=false`` and a message. Only streams, whose messages have no such field, end with a
gRPC status, and malformed bytes get INVALID_ARGUMENT.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar

import grpc
from google.protobuf.message import DecodeError

from soulslab.errors import SoulslabError
from soulslab.siphon.rpc.public.siphon_service_pb2 import Message

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


def unary_handler(
    request_type: type[Request],
    response_type: Callable[..., Response],
    answer: Callable[[Request, Any], Response],
    note: Callable[[str], None],
) -> grpc.RpcMethodHandler:
    """Return the gRPC handler of a call with one answer.

    Args:
        request_type: Message type of the request.
        response_type: Creates the answer for a failure.
        answer: Creates the answer from the request and the context of the call.
        note: Called with the client of each call.
    """

    def call(data: bytes, context: Any) -> Response:
        note(context.peer())
        request = _parsed(request_type, data, context)
        try:
            return answer(request, context)
        except (SoulslabError, OSError) as error:
            return response_type(success=False, message=text_of(str(error)))

    return grpc.unary_unary_rpc_method_handler(call, response_serializer=_serialized)


def stream_handler(
    request_type: type[Request],
    answer: Callable[[Request, Any], Iterator[Response]],
    note: Callable[[str], None],
) -> grpc.RpcMethodHandler:
    """Return the gRPC handler of a call with a stream of answers; see `unary_handler`."""

    def call(data: bytes, context: Any) -> Iterator[Response]:
        request = _parsed(request_type, data, context)
        try:
            for message in answer(request, context):
                note(context.peer())
                yield message
        except (SoulslabError, OSError) as error:
            _abort(context, grpc.StatusCode.FAILED_PRECONDITION, str(error))

    return grpc.unary_stream_rpc_method_handler(call, response_serializer=_serialized)


def gone_event(context: Any) -> threading.Event:
    """Return an event that is set when a call ends for any reason."""
    gone = threading.Event()
    if not context.add_callback(gone.set):
        gone.set()
    return gone


def text_of(text: str) -> str:
    """Return valid text for protobuf: file names may contain invalid Unicode."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _parsed(request_type: type[Request], data: bytes, context: Any) -> Request:
    try:
        return request_type.FromString(data)
    except DecodeError as error:
        _abort(context, grpc.StatusCode.INVALID_ARGUMENT, f"malformed message: {error}")


def _serialized(message: Message) -> bytes:
    return message.SerializeToString()


def _abort(context: Any, code: grpc.StatusCode, details: str) -> NoReturn:
    context.abort(code, text_of(details))
    raise AssertionError("abort raises")
