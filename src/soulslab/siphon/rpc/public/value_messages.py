"""Conversion of attribute values to the public protocol: int32, float32, bool or bytes.

A value that does not fit is an error, never another number. Text is sent as UTF-8 bytes, vectors as little-endian
float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from soulslab.errors import InvalidValueError, WireError
from soulslab.siphon.profile import Attribute, Value
from soulslab.siphon.rpc.public import siphon_service_pb2 as messages

INT32 = range(-(2**31), 2**31)
FLOAT32_MAX = float(np.finfo(np.float32).max)
_TRUTHS = ("bool", "flag")
_TEXTS = ("utf8", "utf16")


def response_of(name: str, value: Value, attribute: Attribute) -> messages.GetSiphonResponse:
    """Return the answer with a value.

    Raises:
        WireError: The value does not fit.
    """
    if attribute.type in _TRUTHS:
        return messages.GetSiphonResponse(success=True, message="ok", bool_value=bool(value))
    if isinstance(value, bytes | str | np.ndarray):
        return messages.GetSiphonResponse(success=True, message="ok", array_value=_bytes_of(value))
    if isinstance(value, float):
        return _float_response(name, value)
    if value not in INT32:
        raise WireError(
            f"attribute {name!r} is {value}, and the public protocol carries 32-bit integers only; "
            f"read it with soulslab's own client"
        )
    return messages.GetSiphonResponse(success=True, message="ok", int_value=int(value))


def value_of(request: messages.SetSiphonRequest, attribute: Attribute) -> Value:
    """Return the value in a request, as `Session.write` expects it.

    Raises:
        InvalidValueError: The request has no value, or a value of another type.
    """
    case = request.WhichOneof("value")
    if case is None:
        raise InvalidValueError(request.attributeName, None, "the request carries no value")
    value: Any = getattr(request, case)
    wanted = _cases_of(attribute)
    if case not in wanted:
        raise InvalidValueError(
            request.attributeName, value, f"it came as {_short(case)}, and its type needs {_short(wanted[0])}"
        )
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


def _float_response(name: str, value: float) -> messages.GetSiphonResponse:
    if abs(value) > FLOAT32_MAX and np.isfinite(value):
        raise WireError(
            f"attribute {name!r} is {value}, and the public protocol carries 32-bit floats only; "
            f"read it with soulslab's own client"
        )
    is_exact = float(np.float32(value)) == value or value != value  # noqa: PLR0124  (NaN)
    message = "ok" if is_exact else f"rounded to 32 bits from {value!r}"
    return messages.GetSiphonResponse(success=True, message=message, float_value=value)


def _short(case: str) -> str:
    return case.removesuffix("_value")
