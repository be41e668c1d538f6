"""The messages with which a game sends steps and results: a MessagePack header and raw rows, with a checksum.

Layout: magic ``SLFC``, version u16, reserved u16, CRC-32 of everything after it u32, length of the header u32, header,
rows. All numbers are little-endian. The kind in the header leaves room for other contents, such as recurrent states;
the row type includes pixels, each frame once. The learner treats messages as hostile input: `decode_chunk` bounds each
size and checks each number before anything is used.
"""

from __future__ import annotations

import hashlib
import math
import struct
import zlib
from functools import cache
from itertools import chain
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from soulslab.errors import ChunkRefusedError, NonFiniteError, ReplayError
from soulslab.fleet.messages import MAX_ENVS, Incarnation, Name
from soulslab.learn.actors.transport import EpisodeResult
from soulslab.learn.replay.replay_buffer import check_rows
from soulslab.learn.replay.step_rows import StepShape, row_type

MAX_CHUNK_BYTES: Final = 4 << 20
"""Largest message (bytes); a game splits more rows than this."""

MAX_RESULTS: Final = 256
"""Largest number of results of episodes in a message."""

MAGIC: Final = b"SLFC"
VERSION: Final = 1

_PREFIX: Final = struct.Struct("<4sHHII")
_CHECKED_FROM: Final = 12
"""Start of the bytes that the checksum covers."""

_MAX_NAMES: Final = 512
_MAX_NAME: Final = 200


class ChunkHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Header of a message.

    ``sequence`` counts the messages of an incarnation from 1. ``row`` is `row_digest` of the rows, and ``taken_at_s``
    the time at which the oldest of them was taken, on the clock of the Redis server (s); 0 if that clock is unknown.
    """

    kind: Literal["steps"] = "steps"
    worker: Name
    incarnation: Incarnation
    sequence: Annotated[int, Meta(ge=1, lt=2**62)]
    weights_version: Annotated[int, Meta(ge=-1, lt=2**62)]
    row: Annotated[str, Meta(max_length=64)]
    n_envs: Annotated[int, Meta(ge=1, le=MAX_ENVS)]
    n_rows: Annotated[int, Meta(ge=0, le=MAX_CHUNK_BYTES)]
    taken_at_s: Annotated[float, Meta(ge=0.0)] = 0.0
    results: Annotated[tuple[EpisodeResult, ...], Meta(max_length=MAX_RESULTS)] = ()


class Chunk(msgspec.Struct, frozen=True):
    """A message that was checked: its header and its rows, (n,)."""

    header: ChunkHeader
    rows: NDArray[Any]


_decoder: Final = msgspec.msgpack.Decoder(ChunkHeader)


@cache
def row_digest(dtype: np.dtype[Any]) -> str:
    """Return a short digest of a row type, which is equal only for the same columns."""
    return hashlib.sha256(str(dtype.descr).encode()).hexdigest()[:32]


def encode_chunk(header: ChunkHeader, rows: NDArray[Any]) -> bytes:
    """Return a message with contiguous rows (n,)."""
    head = msgspec.msgpack.encode(header)
    body = b"".join((len(head).to_bytes(4, "little"), head, rows.tobytes()))
    return _PREFIX.pack(MAGIC, VERSION, 0, zlib.crc32(body), len(head)) + body[4:]


def decode_chunk(data: bytes, shape: StepShape, game: str) -> Chunk:
    """Check a message of a game and return it; raises ChunkRefusedError, which names the game, for a malformed one."""
    try:
        header, rows = _split(data, shape)
        checked = check_rows(rows, shape, header.n_envs)
        _check_results(header.results, shape.n_actions)
    except (ValueError, msgspec.MsgspecError, RecursionError, ReplayError, NonFiniteError) as error:
        raise ChunkRefusedError(game, f"sent a malformed message: {error}") from error
    return Chunk(header, checked)


def _split(data: bytes, shape: StepShape) -> tuple[ChunkHeader, NDArray[Any]]:
    """Return the header and the unchecked rows; raises ValueError or MsgspecError."""
    if not _PREFIX.size <= len(data) <= MAX_CHUNK_BYTES:
        raise ValueError(f"it has {len(data)} bytes, not {_PREFIX.size} to {MAX_CHUNK_BYTES}")
    magic, version, _, checksum, n_head = _PREFIX.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise ValueError(f"it has format {magic!r} version {version}; this soulslab reads {MAGIC!r} version {VERSION}")
    if zlib.crc32(memoryview(data)[_CHECKED_FROM:]) != checksum:
        raise ValueError("its checksum does not match its contents")
    start = _PREFIX.size + n_head
    if start > len(data):
        raise ValueError(f"its header of {n_head} bytes is longer than the message")
    header = _decoder.decode(memoryview(data)[_PREFIX.size : start])
    dtype = row_type(shape)
    if header.row != row_digest(dtype):
        raise ValueError("its rows have other columns than those of the learner; start the game again")
    if len(data) - start != header.n_rows * dtype.itemsize:
        raise ValueError(f"it holds {len(data) - start} bytes of rows, not {header.n_rows} rows of {dtype.itemsize}")
    return header, np.frombuffer(data, dtype, offset=start)


def _check_results(results: tuple[EpisodeResult, ...], n_actions: int) -> None:
    """Raise ValueError unless all numbers are finite, and all tables have a bounded size."""
    for result in results:
        *by_name, situations = msgspec.structs.astuple(result.fight)
        tables = (result.reward_terms, result.damage_by_attack, *by_name)
        if len(result.actions) != n_actions or min(result.actions, default=0) < 0:
            raise ValueError(f"a result has the counts of {len(result.actions)} actions, not of {n_actions}")
        if any(
            len(table) > _MAX_NAMES or max(map(len, table), default=0) > _MAX_NAME for table in (*tables, situations)
        ):
            raise ValueError(f"a result has more than {_MAX_NAMES} names, or a name of more than {_MAX_NAME} letters")
        if len(result.killed_by) > _MAX_NAME or not -1 <= result.start_pose < 2**31:
            raise ValueError(f"a result has a name of more than {_MAX_NAME} letters, or an unknown start pose")
        if any(len(chosen) != n_actions for chosen in situations.values()):
            raise ValueError(f"a result has the counts of other actions than {n_actions} in a situation")
        numbers = [result.total_reward, *(number for table in tables for number in table.values())]
        counts = (result.n_decisions, result.n_steps, *result.actions, *chain.from_iterable(situations.values()))
        if not all(map(math.isfinite, numbers)) or not all(0 <= count < 2**62 for count in counts):
            raise ValueError("a result holds NaN, infinity, or a count out of range")
