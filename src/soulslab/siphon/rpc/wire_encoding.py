"""Encoding of attribute values and error fields as msgpack, without pickle or types chosen by the other side.

Numbers, bool, text and bytes are native msgpack types. Arrays are extension 1: number of the dtype, number of
dimensions, each dimension as 32 bits, elements; all little-endian. File names are extension 2, UTF-8.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

ARRAY = 1
PATH = 2
#: The number of a dtype is its index in this list; new dtypes are appended.
DTYPES = tuple(np.dtype(f"<{name}") for name in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8", "b1"))
MAX_DIMENSIONS = 4

T = TypeVar("T")


def array_to_bytes(array: NDArray[Any]) -> bytes:
    """Return an array as extension 1. Raises `TypeError` if its dtype or number of dimensions is not supported."""
    dtype = array.dtype.newbyteorder("<")
    if dtype not in DTYPES or array.ndim > MAX_DIMENSIONS:
        raise TypeError(f"an array of {array.dtype} with {array.ndim} dimensions cannot be sent")
    header = struct.pack(f"<BB{array.ndim}I", DTYPES.index(dtype), array.ndim, *array.shape)
    return header + array.astype(dtype).tobytes()


def array_from_bytes(data: bytes | memoryview) -> NDArray[Any]:
    """Return the array in extension 1, as a new array. Raises `ValueError` if it is malformed."""
    try:
        number, n_dimensions = struct.unpack_from("<BB", data)
        if number >= len(DTYPES) or n_dimensions > MAX_DIMENSIONS:
            raise ValueError(f"an array of type {number} with {n_dimensions} dimensions is not known here")
        shape = struct.unpack_from(f"<{n_dimensions}I", data, 2)
    except struct.error as error:
        raise ValueError("an array is cut short") from error
    elements = memoryview(data)[2 + 4 * n_dimensions :]
    dtype = DTYPES[number]
    if len(elements) != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"an array of shape {shape} and type {dtype} cannot have {len(elements)} bytes")
    return np.frombuffer(elements, dtype).reshape(shape).copy()


def _to_wire(value: object) -> object:
    """Convert a value that msgpack does not support."""
    match value:
        case np.ndarray():
            return msgspec.msgpack.Ext(ARRAY, array_to_bytes(value))
        case np.generic():
            return value.item()
        case Path():
            return msgspec.msgpack.Ext(PATH, str(value).encode())
        case _:
            raise TypeError(f"a {type(value).__name__} cannot be sent")


def _from_wire(code: int, data: memoryview) -> object:
    """Convert an extension to its value."""
    if code == ARRAY:
        return array_from_bytes(data)
    if code == PATH:
        return Path(bytes(data).decode())
    raise ValueError(f"extension {code} is not known here")


_encoder = msgspec.msgpack.Encoder(enc_hook=_to_wire)
#: Errors of the encoder for unsupported types, numbers beyond 64 bits, invalid Unicode and similar values.
UNSENDABLE = (TypeError, ValueError, OverflowError, RecursionError)


def encode(message: object) -> bytes:
    """Encode a message as msgpack. Raises the errors in `UNSENDABLE` for a value that cannot be encoded."""
    return _encoder.encode(message)


def make_decoder(kind: type[T]) -> msgspec.msgpack.Decoder[T]:
    """Return a decoder that validates messages by type; it raises `msgspec.MsgspecError` or a ValueError."""
    return msgspec.msgpack.Decoder(kind, ext_hook=_from_wire)
