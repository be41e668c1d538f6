"""Encoding and decoding of values in messages."""

from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from soulslab.siphon.rpc.wire_encoding import (
    ARRAY,
    DTYPES,
    UNSENDABLE,
    array_from_bytes,
    array_to_bytes,
    encode,
    make_decoder,
)

decoder = make_decoder(object)
arrays = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
)


@given(arrays)
def test_arrays_come_as_they_went(array):
    found = decoder.decode(encode(array))
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    assert found.tobytes() == array.tobytes()
    assert found.flags.owndata
    assert found.flags.writeable


@given(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary()
)
def test_plain_values_come_as_they_went(value):
    found = decoder.decode(encode(value))
    assert found == value
    assert type(found) is type(value)


def test_numpy_numbers_become_plain_and_paths_stay_paths():
    assert decoder.decode(encode(np.int16(-3))) == -3
    assert decoder.decode(encode(np.float32(0.5))) == 0.5
    assert decoder.decode(encode(np.bool_(True))) is True
    assert decoder.decode(encode(Path("a/ü"))) == Path("a/ü")


def test_other_byte_orders_and_layouts_are_turned():
    array = np.arange(6, dtype=">i4").reshape(2, 3).T
    assert array_from_bytes(array_to_bytes(array)).tolist() == array.tolist()


@pytest.mark.parametrize(
    "value",
    [object(), np.zeros(1, complex), np.array(["a"]), np.array([object()]), np.zeros((1,) * 5), 2**64, "\ud800"],
)
def test_values_that_cannot_be_encoded_are_refused(value):
    with pytest.raises(UNSENDABLE):
        encode(value)


@given(st.binary(max_size=40))
def test_invalid_bytes_give_no_array(data):
    try:
        array = array_from_bytes(data)
    except ValueError:
        return
    assert array_to_bytes(array) == data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        bytes([200, 0]),
        bytes([0, 9]),
        bytes([0, 1, 255, 255, 255, 255]),
        bytes([9, 4]) + b"\xff" * 16,
        array_to_bytes(np.arange(3)) + b"!",
        array_to_bytes(np.arange(3))[:-1],
    ],
)
def test_malformed_arrays_are_refused(data):
    with pytest.raises(ValueError, match="array"):
        array_from_bytes(data)
    with pytest.raises((ValueError, msgspec.MsgspecError)):
        decoder.decode(msgspec.msgpack.encode(msgspec.msgpack.Ext(ARRAY, data)))


def test_unknown_extensions_are_refused():
    with pytest.raises((ValueError, msgspec.MsgspecError)):
        decoder.decode(msgspec.msgpack.encode(msgspec.msgpack.Ext(77, b"x")))
