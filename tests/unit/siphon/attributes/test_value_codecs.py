import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulslab.errors import ImplausibleValueError, InvalidValueError
from soulslab.siphon.attributes.value_codecs import Codec, size_of
from soulslab.siphon.profile import NUMBER_CODES, Attribute

LIMITS = {
    **{f"i{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"u{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
}


def codec(kind: str, **facts: object) -> Codec:
    return Codec("it", Attribute(base="b", offsets=(0,), type=kind, source="made up", **facts))


def stored(one: Codec, raw: bytes) -> object:
    """Unpack a value like the attribute table, which applies scale and range."""
    (value,) = struct.unpack(f"<{one.code}", raw)
    return value if one.is_number else one.decode(value)


@pytest.mark.parametrize("kind", sorted(LIMITS))
def test_whole_numbers_reach_their_limits_and_no_further(kind: str):
    one = codec(kind)
    for value in (*LIMITS[kind], 0, 1):
        assert stored(one, one.encode(value)) == value
        assert stored(one, one.encode(np.array(value)[()])) == value
    for value in (LIMITS[kind][0] - 1, LIMITS[kind][1] + 1):
        with pytest.raises(InvalidValueError, match=f"does not fit {kind}"):
            one.encode(value)


@pytest.mark.parametrize("kind", sorted(NUMBER_CODES))
@pytest.mark.parametrize("value", [True, "1", None, b"1", [1], math.nan, 1j])
def test_invalid_numbers_are_not_written(kind: str, value: object):
    with pytest.raises(InvalidValueError) as caught:
        codec(kind, range=(0, 10)).encode(value)
    assert caught.value.attribute == "it"


def test_whole_numbers_take_no_fractions():
    with pytest.raises(InvalidValueError, match="whole number"):
        codec("i32").encode(1.0)


@pytest.mark.parametrize("value", [-0.1, 10.1, math.inf])
def test_numbers_stay_in_their_range(value: float):
    with pytest.raises(InvalidValueError, match="between 0 and 10"):
        codec("f64", range=(0, 10)).encode(value)


def test_a_number_of_32_bits_at_the_edge_of_its_range_is_plausible():
    for high in (0.1, 0.7, 1e-3, 1 / 3):
        one = codec("f32", range=(-high, high))
        for value in (high, -high):
            assert one.low <= stored(one, one.encode(value)) <= one.high
    assert codec("f32", range=(0, 1e300)).high == 1e300


def test_too_great_for_32_bits():
    with pytest.raises(InvalidValueError, match="does not fit f32"):
        codec("f32", range=(0, 1e300)).encode(1e200)


@given(st.floats(-100, 100))
def test_fixed_point_is_written_as_the_nearest_number_that_reads_back_in_range(value: float):
    low, high = sorted((value, 50.0))
    one = codec("i32", scale=1 / 65536, range=(low, high + 1))
    raw = stored(one, one.encode(value))
    assert one.low <= raw * one.scale <= one.high
    assert raw * one.scale == pytest.approx(value, abs=1 / 65536)


@pytest.mark.parametrize(
    ("value", "scale", "bounds"), [(0.5, 10.0, (0.1, 0.9)), (1e300, 1e-300, (0, 1e301)), (1e9, 1e-3, (0, 1e10))]
)
def test_values_without_a_stored_number_are_not_written(value: float, scale: float, bounds: tuple[float, float]):
    with pytest.raises(InvalidValueError):
        codec("i32", scale=scale, range=bounds).encode(value)


def test_vectors_are_arrays():
    one = codec("f32", length=3, range=(-10, 10))
    values = stored(one, one.encode([1.5, -2, 3]))
    assert isinstance(values, np.ndarray)
    assert values.dtype == np.float64
    assert values.tolist() == [1.5, -2.0, 3.0]
    assert stored(one, one.encode(values)).tolist() == [1.5, -2.0, 3.0]


@pytest.mark.parametrize(
    ("kind", "dtype"), [("i8", np.int64), ("u32", np.int64), ("u64", np.uint64), ("i64", np.int64)]
)
def test_vectors_of_whole_numbers_stay_whole(kind: str, dtype: type):
    one = codec(kind, length=2)
    values = stored(one, one.encode([0, LIMITS[kind][1]]))
    assert values.dtype == dtype
    assert values.tolist() == [0, LIMITS[kind][1]]
    scaled = codec(kind, length=2, scale=0.5)
    assert stored(scaled, scaled.encode([0.5, 2])).tolist() == [0.5, 2.0]


@pytest.mark.parametrize("value", [[1.0], [1.0, 2.0, 3.0], 1.0, "12", b"12", [1.0, "2"], [1.0, 11.0], np.zeros((2, 2))])
def test_vectors_that_do_not_fit_are_not_written(value: object):
    with pytest.raises(InvalidValueError):
        codec("f64", length=2, range=(0, 10)).encode(value)


@pytest.mark.parametrize("raw", [(1.0, 11.0), (math.nan, 1.0), (1.0, math.nan), (-math.inf, 0.0)])
def test_vectors_outside_their_range_are_implausible(raw: tuple[float, float]):
    with pytest.raises(ImplausibleValueError) as caught:
        codec("f32", length=2, range=(0, 10)).decode(struct.pack("<2f", *raw))
    assert (caught.value.low, caught.value.high) == (0, 10)


@pytest.mark.parametrize("raw", [2, 3, 255])
def test_a_bool_is_0_or_1(raw: int):
    with pytest.raises(ImplausibleValueError) as caught:
        codec("bool").decode(bytes([raw]))
    assert caught.value.value == raw
    assert codec("bool").decode(b"\0") is False
    assert codec("bool").decode(b"\1") is True


@pytest.mark.parametrize("bit", range(8))
def test_a_flag_is_one_bit(bit: int):
    one = codec("flag", bit=bit)
    assert one.decode(bytes([1 << bit])) is True
    assert one.decode(bytes([255 - (1 << bit)])) is False
    assert one.encode(np.True_) == b"\1"
    with pytest.raises(InvalidValueError, match="true or false"):
        one.encode(1)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12))
def test_text_is_read_as_it_was_written(text: str):
    for kind, encoding, end in (("utf8", "utf-8", 1), ("utf16", "utf-16-le", 2)):
        size = len(text.encode(encoding)) + end
        one = codec(kind, length=size)
        raw = one.encode(text)
        assert stored(codec(kind, length=size + 6), raw + b"\xdc\xff\xdc\xdc\xff\xdc") == text
        if size > 2:
            with pytest.raises(InvalidValueError, match="with its end"):
                codec(kind, length=size - 1).encode(text)


def test_text_may_fill_its_place():
    assert codec("utf8", length=3).decode(b"abc") == "abc"
    assert codec("utf16", length=4).decode("ab".encode("utf-16-le")) == "ab"
    assert codec("utf16", length=5).decode(b"a\0b\0c") == "ab"


@pytest.mark.parametrize(("kind", "raw"), [("utf8", b"\xff\0"), ("utf8", b"\xc3\0a"), ("utf16", b"\0\xdca\0\0\0")])
def test_malformed_text_is_implausible(kind: str, raw: bytes):
    with pytest.raises(ImplausibleValueError, match=f"not {kind} text") as caught:
        codec(kind, length=len(raw)).decode(raw)
    assert math.isnan(caught.value.low)


@pytest.mark.parametrize("value", [5, b"a", "a\0b", "\ud800"])
def test_invalid_text_is_not_written(value: object):
    for kind in ("utf8", "utf16"):
        with pytest.raises(InvalidValueError):
            codec(kind, length=40).encode(value)


def test_bytes_are_all_of_them():
    one = codec("bytes", length=3)
    assert stored(one, one.encode(bytearray(b"a\0b"))) == b"a\0b"
    for value in (b"ab", b"abcd", "abc", [1, 2, 3]):
        with pytest.raises(InvalidValueError, match="3 bytes"):
            one.encode(value)


def test_sizes():
    sizes = {kind: size_of(Attribute(base="b", offsets=(0,), type=kind, source="x")) for kind in NUMBER_CODES}
    assert sizes == {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "u8": 1, "u16": 2, "u32": 4, "u64": 8, "f32": 4, "f64": 8}
    assert codec("f32", length=3).size == 12
    assert codec("flag").size == codec("bool").size == 1
    assert codec("utf16", length=20).size == 20
