"""Messages of games: what goes in comes out, and everything else is refused."""

import struct
import zlib

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soulslab.errors import ChunkRefusedError
from soulslab.fleet.chunk import MAX_CHUNK_BYTES, ChunkHeader, decode_chunk, encode_chunk, row_digest
from soulslab.fleet.weights_message import decode_weights, encode_weights
from soulslab.learn.replay.step_rows import StepShape, row_type
from support.long_form import examples
from support.steps import ROW, SHAPE, assert_of_one_version, result, some_weights, steps


def header(**changes):
    fields = {
        "worker": "pc1/0",
        "incarnation": "0123456789abcdef",
        "sequence": 1,
        "weights_version": 3,
        "row": row_digest(ROW),
        "n_envs": 2,
        "n_rows": 7,
        "results": (result(1),),
    }
    return ChunkHeader(**{**fields, **changes})


def packed(head, rows=b"", magic=b"SLFC", version=1, n_head=None):
    """Return a message with a correct checksum over whatever it contains."""
    length = struct.pack("<I", len(head) if n_head is None else n_head)
    return magic + struct.pack("<HHI", version, 0, zlib.crc32(length + head + rows)) + length + head + rows


def encoded(**changes):
    plain = msgspec.to_builtins(header())
    return msgspec.msgpack.encode({**plain, **changes})


def test_a_message_comes_out_as_it_went_in():
    rows = steps(0, 7)
    chunk = decode_chunk(encode_chunk(header(), rows), SHAPE, "game")
    assert chunk.header == header()
    assert (chunk.rows == rows).all()


def test_the_checksum_covers_what_the_helper_of_this_test_packs():
    rows = steps(0, 7)
    assert decode_chunk(packed(encoded(), rows.tobytes()), SHAPE, "game").header == header()


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "0 bytes"),
        (bytes(MAX_CHUNK_BYTES + 1), "bytes, not"),
        (packed(encoded(), magic=b"EVIL"), "format b'EVIL'"),
        (packed(encoded(), version=2), "version 2"),
        (packed(encoded())[:-1], "checksum"),
        (packed(encoded(), n_head=10_000), "longer than the message"),
        (packed(b"\xc1"), "malformed"),
        (packed(encoded(extra=1)), "extra"),
        (packed(encoded(kind="pickle")), "pickle"),
        (packed(encoded(sequence=0)), "sequence"),
        (packed(encoded(sequence=2**63)), "sequence"),
        (packed(encoded(n_envs=10**6)), "n_envs"),
        (packed(encoded(worker="\x1b[2J")), "worker"),
        (packed(encoded(incarnation="../../etc")), "incarnation"),
        (packed(encoded(row="other")), "other columns"),
        (packed(encoded(n_rows=8), steps(0, 7).tobytes()), "not 8 rows"),
        (packed(encoded(results=[{"total_reward": 1.0}])), "results"),
        (packed(b"\x81\xa7results\x91\x81\xa1x" + b"\x91" * 100_000), "recursion"),
    ],
)
def test_a_malformed_message_is_refused_and_the_game_is_named(data, problem):
    with pytest.raises(ChunkRefusedError, match=problem) as error:
        decode_chunk(data, SHAPE, "play-1/0123")
    assert error.value.place == "play-1/0123"


@pytest.mark.parametrize("column", ["features", "reward"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(column, value):
    rows = steps(0, 7)
    rows[column][3] = value
    with pytest.raises(ChunkRefusedError, match="not finite"):
        decode_chunk(encode_chunk(header(), rows), SHAPE, "game")


@pytest.mark.parametrize(("column", "value"), [("action", 4), ("action", -1), ("stream", 2), ("outcome", 9)])
def test_numbers_out_of_range_are_refused(column, value):
    rows = steps(0, 7)
    rows[column][3] = value
    with pytest.raises(ChunkRefusedError):
        decode_chunk(encode_chunk(header(), rows), SHAPE, "game")


@pytest.mark.parametrize(
    "changes",
    [
        {"total_reward": float("nan")},
        {"actions": (1, 2)},
        {"actions": (1, 2, 3, -4)},
        {"reward_terms": {"x" * 500: 1.0}},
        {"damage_by_attack": {str(i): 1.0 for i in range(600)}},
        {"damage_by_attack": {"bite": float("inf")}},
        {"killed_by": "x" * 500},
        {"start_pose": 2**40},
    ],
)
def test_results_that_are_not_plausible_are_refused(changes):
    wrong = msgspec.structs.replace(result(1), **changes)
    with pytest.raises(ChunkRefusedError):
        decode_chunk(encode_chunk(header(results=(wrong,)), steps(0, 7)), SHAPE, "game")


def test_rows_of_another_shape_are_refused():
    other = StepShape(n_features=5, n_actions=4)
    data = encode_chunk(header(row=row_digest(row_type(other)), n_rows=2), np.zeros(2, row_type(other)))
    with pytest.raises(ChunkRefusedError, match="other columns"):
        decode_chunk(data, SHAPE, "game")


@settings(max_examples=examples(300))
@given(st.data())
def test_any_damage_is_refused_or_changes_nothing(data):
    message = bytearray(encode_chunk(header(), steps(0, 7)))
    place = data.draw(st.integers(0, len(message) - 1))
    message[place] ^= data.draw(st.integers(1, 255))
    try:
        chunk = decode_chunk(bytes(message), SHAPE, "game")
    except ChunkRefusedError:
        return
    assert place in (6, 7)  # the reserved bytes
    assert chunk.header == header()


@settings(max_examples=examples(300))
@given(st.binary(max_size=300), st.binary(max_size=300))
def test_random_bytes_with_a_correct_checksum_are_refused(head, rows):
    with pytest.raises(ChunkRefusedError):
        decode_chunk(packed(head, rows), SHAPE, "game")


def test_weights_with_a_wrong_checksum_are_refused():
    message = encode_weights(some_weights(3), era=7)
    assert_of_one_version(decode_weights(message)[1])
    damaged = bytearray(message)
    damaged[len(damaged) // 2] ^= 1
    with pytest.raises(ValueError, match="the weights do not match their checksum"):
        decode_weights(bytes(damaged))
    with pytest.raises(msgspec.MsgspecError):
        decode_weights(b"\x81\xa1x" + b"\x91" * 100_000)
