"""Handlers of the public service: decoding of requests, and conversion of errors and attribute values.

A failure is an answer with ``success=false`` and a message. Only streams, whose messages have no such field, end with a
gRPC status, and malformed bytes get INVALID_ARGUMENT.

Values are int32, float32, bool or bytes. A value that does not fit is an error, never another number. Text is sent as
UTF-8 bytes, vectors as little-endian float64.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar

import grpc
import numpy as np
from google.protobuf.message import DecodeError

from soulslab.errors import InvalidValueError, SoulslabError, WireError
from soulslab.siphon.profile import Attribute, Value
from soulslab.siphon.rpc.public import siphon_service_pb2 as pb2
from soulslab.siphon.rpc.public.siphon_service_pb2 import Message

Request = TypeVar("Request", bound=Message)


def handler_of(kind: Any, answer: Callable[[Any, Any], Any], note: Callable[[str], None]) -> grpc.RpcMethodHandler:
    """Return the gRPC handler of a call, a `google.protobuf.descriptor.MethodDescriptor`.

    `answer` creates the answer, or the stream of answers, from the request and the context of the call. `note` is
    called with the client of each call, and of each answer of a stream.
    """
    request_type: type[Message] = getattr(pb2, kind.input_type.name)
    response_type: Any = getattr(pb2, kind.output_type.name)

    def call(data: bytes, context: Any) -> Any:
        note(context.peer())
        request = _parsed(request_type, data, context)
        try:
            return answer(request, context)
        except (SoulslabError, OSError) as error:
            return response_type(success=False, message=text_of(str(error)))

    def stream(data: bytes, context: Any) -> Iterator[Any]:
        request = _parsed(request_type, data, context)
        try:
            for message in answer(request, context):
                note(context.peer())
                yield message
        except (SoulslabError, OSError) as error:
            _abort(context, grpc.StatusCode.FAILED_PRECONDITION, str(error))

    if kind.server_streaming:
        return grpc.unary_stream_rpc_method_handler(stream, response_serializer=response_type.SerializeToString)
    return grpc.unary_unary_rpc_method_handler(call, response_serializer=response_type.SerializeToString)


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


def _abort(context: Any, code: grpc.StatusCode, details: str) -> NoReturn:
    context.abort(code, text_of(details))
    raise AssertionError("abort raises")


INT32 = range(-(2**31), 2**31)
FLOAT32_MAX = float(np.finfo(np.float32).max)
_TRUTHS = ("bool", "flag")
_TEXTS = ("utf8", "utf16")


def response_of(name: str, value: Value, attribute: Attribute) -> pb2.GetSiphonResponse:
    """Return the answer with a value. Raises `WireError` if the value does not fit."""
    if attribute.type in _TRUTHS:
        return pb2.GetSiphonResponse(success=True, message="ok", bool_value=bool(value))
    if isinstance(value, bytes | str | np.ndarray):
        return pb2.GetSiphonResponse(success=True, message="ok", array_value=_bytes_of(value))
    if isinstance(value, float):
        return _float_response(name, value)
    if value not in INT32:
        raise WireError(
            f"attribute {name!r} is {value}, and the public protocol carries 32-bit integers only; "
            f"read it with soulslab's own client"
        )
    return pb2.GetSiphonResponse(success=True, message="ok", int_value=int(value))


def value_of(request: pb2.SetSiphonRequest, attribute: Attribute) -> Value:
    """Return the value in a request, as `Session.write` expects it. Raises `InvalidValueError`."""
    case = request.WhichOneof("value")
    if case is None:
        raise InvalidValueError(request.attributeName, None, "the request carries no value")
    value: Any = getattr(request, case)
    wanted = _cases_of(attribute)
    if case not in wanted:
        problem = f"it came as {case}, and its type needs {wanted[0]}".replace("_value", "")
        raise InvalidValueError(request.attributeName, value, problem)
    if attribute.type in _TRUTHS:
        if value not in (0, 1):
            raise InvalidValueError(request.attributeName, value, "a bool is 0 or 1")
        return bool(value)
    if attribute.type in _TEXTS:
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidValueError(request.attributeName, value, "text travels as UTF-8") from error
    if attribute.type != "bytes" and case == "array_value":
        if len(value) != 8 * attribute.length:
            raise InvalidValueError(
                request.attributeName, value, f"a vector of {attribute.length} travels as {8 * attribute.length} bytes"
            )
        return np.frombuffer(value, "<f8")
    return value


def _cases_of(attribute: Attribute) -> tuple[str, ...]:
    """Return the fields of a request that may contain a value for an attribute; the usual one first."""
    if attribute.type in _TRUTHS:
        return ("bool_value", "int_value")
    if attribute.type in (*_TEXTS, "bytes") or attribute.length > 1:
        return ("array_value",)
    if attribute.type in ("f32", "f64") or attribute.scale != 1.0:
        return ("float_value", "int_value")
    return ("int_value",)


def _bytes_of(value: Value) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    return np.asarray(value, "<f8").tobytes() if isinstance(value, np.ndarray) else bytes(value)


def _float_response(name: str, value: float) -> pb2.GetSiphonResponse:
    if abs(value) > FLOAT32_MAX and np.isfinite(value):
        raise WireError(
            f"attribute {name!r} is {value}, and the public protocol carries 32-bit floats only; "
            f"read it with soulslab's own client"
        )
    is_exact = float(np.float32(value)) == value or value != value  # noqa: PLR0124  (NaN)
    message = "ok" if is_exact else f"rounded to 32 bits from {value!r}"
    return pb2.GetSiphonResponse(success=True, message=message, float_value=value)
