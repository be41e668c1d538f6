"""The file of a recording, in the layout of the public Siphon recorder, and its conversion of values.

For N samples: ``frames`` [N,H,W,4] uint8 BGRA; ``timestamps`` [N] int64, ms since 1970; ``memory_data`` [N,A] float32
with the attribute ``attribute_names``; ``inputs`` [N,300] uint8 with the attribute ``key_mapping``; ``latencies`` [N,5]
float32, ms (capture, memory, keys, queue, total). soulslab adds ``game_time_s`` [N] float64, ``unreadable`` [N,names]
uint8, and ``values/...``.

float32 represents whole numbers exactly only up to 2**24. Numbers of types that do not fit also get a separate data set
under ``values``; text, bytes and vectors have only that data set.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import cv2
import h5py
import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.siphon.keys import KEYS
from soulslab.siphon.profile import Attribute, Value
from soulslab.siphon.recording.committed_file import CommittedFile

N_KEYS = 300
#: The wheel has no key code in evdev; its two directions use the last columns.
_WHEEL_COLUMNS = {"MOUSE_WHEEL_UP": N_KEYS - 2, "MOUSE_WHEEL_DOWN": N_KEYS - 1}
KEY_COLUMNS: dict[str, int] = {name: _WHEEL_COLUMNS.get(name, key.evdev_code) for name, key in KEYS.items()}
"""The column of each key in ``inputs``: its evdev code."""

_IN_FLOAT32 = {"i8", "i16", "u8", "u16", "f32"}
_DTYPES = {"i32": "<i4", "i64": "<i8", "u32": "<u4", "u64": "<u8", "f64": "<f8"}
_TRUTHS = {"bool", "flag"}
_TEXTS = {"utf8", "utf16"}
# A UTF-16 unit of 2 bytes becomes at most 3 bytes of UTF-8.
_UTF8_PER_UTF16_BYTES = 1.5


class OwnColumn(msgspec.Struct, frozen=True):
    """A separate data set under ``values``: type of its elements (``text`` for UTF-8), and shape of a sample."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    def stored(self, value: Value | None) -> Any:
        """Return the stored form of a value; None (unreadable) becomes 0, empty, or NaN."""
        if self.dtype == "text":
            return value.encode("utf-8", "replace") if value is not None else b""
        if value is None:
            return np.full(self.shape, np.nan) if self.dtype == "<f8" else np.zeros(self.shape, self.dtype)
        if self.dtype == "|u1":
            return np.frombuffer(value, np.uint8)
        return value


class Columns:
    """Storage of some known attributes in a recording.

    Attributes:
        names: Names of the attributes: the columns of ``unreadable``.
        numbers: Attributes that are columns of ``memory_data``.
        own: Attributes with a separate data set.
    """

    def __init__(self, names: Sequence[str], attributes: dict[str, Attribute]) -> None:
        self.names = tuple(names)
        self.numbers = tuple(name for name in names if _is_number(attributes[name]))
        self.own = tuple(column for name in names if (column := _own_column(name, attributes[name])) is not None)


def key_row(held: Collection[str]) -> NDArray[np.uint8]:
    """Return a row of ``inputs``: 1 for each held key. (300,) uint8."""
    row = np.zeros(N_KEYS, np.uint8)
    row[[KEY_COLUMNS[key] for key in held]] = 1
    return row


def key_mapping() -> list[str]:
    """Return the key name of each column of ``inputs``; "" for columns without a key."""
    names = [""] * N_KEYS
    for name, column in KEY_COLUMNS.items():
        names[column] = name
    return names


def _is_number(attribute: Attribute) -> bool:
    return attribute.type in _TRUTHS or (attribute.type not in _TEXTS | {"bytes"} and attribute.length == 1)


def _own_column(name: str, attribute: Attribute) -> OwnColumn | None:
    """Return the separate data set of an attribute; None if it has none."""
    kind, length = attribute.type, attribute.length
    if kind == "bytes":
        return OwnColumn(name, "|u1", (length,))
    if kind in _TEXTS:
        return OwnColumn(name, "text", (int(length * (_UTF8_PER_UTF16_BYTES if kind == "utf16" else 1)) + 1,))
    if kind not in _TRUTHS and length > 1:
        return OwnColumn(name, "<f8", (length,))
    if attribute.scale != 1.0 and kind not in _TRUTHS:
        return OwnColumn(name, "<f8", ())
    return None if kind in _IN_FLOAT32 or kind in _TRUTHS else OwnColumn(name, _DTYPES[kind], ())


FORMAT = 1
LATENCIES = ("capture", "memory", "keys", "queue", "total")
#: Frames of a game are mostly flat areas; only the fastest level keeps up with 60 frames per second.
GZIP_LEVEL = 1
_ROWS_PER_CHUNK = 256


class Sample(msgspec.Struct, eq=False):
    """A sample of the game.

    Attributes:
        values: Attributes that could be read.
        frame: (H, W, 3) RGB, uint8; None without frames.
        latencies_ms: See `LATENCIES`; the last two are set when the sample is written.
        start_s: ``time.perf_counter()`` at the beginning of the sample.
        end_s: ``time.perf_counter()`` at the end of the sample.
    """

    wall_time_s: float
    game_time_s: float
    values: dict[str, Value]
    held: frozenset[str]
    frame: NDArray[np.uint8] | None
    latencies_ms: list[float]
    start_s: float
    end_s: float


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """Layout of the file of a recording.

    `frame_shape` is (H, W) of the data set of frames, None without frames; `facts` are attributes of the file.
    """

    columns: Columns
    frame_shape: tuple[int, int] | None
    is_compressed: bool
    facts: dict[str, Any]


class RecordingFile:
    """Writes samples; they are valid after `commit`. Raises `OSError`, and then no file remains."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self._columns = layout.columns
        self._is_compressed = layout.is_compressed
        self._rows: list[Sample] = []
        self._n_committed = 0
        self._hdf5: Any = None
        self._frames: Any = None
        self._file = CommittedFile(path)
        try:
            self._hdf5 = h5py.File(self._file, "w")
            self._sets = self._create(layout.columns)
            if layout.frame_shape is not None:
                self._frames = self._create_frames(*layout.frame_shape)
            self._hdf5.attrs.update({"format": FORMAT, **layout.facts})
            self.commit()
        except BaseException:
            self.close()
            path.unlink()
            raise

    def append(self, sample: Sample) -> None:
        """Add a sample. Raises `OSError` if it cannot be written; the file then stays at its last commit."""
        if self._frames is not None and sample.frame is not None:
            data = np.ascontiguousarray(cv2.cvtColor(sample.frame, cv2.COLOR_RGB2BGRA)).data.cast("B")
            # HDF5 would compress with the GIL held, which would delay the next sample.
            chunk = zlib.compress(data, GZIP_LEVEL) if self._is_compressed else data
            row = self._n_committed + len(self._rows)
            if row >= self._frames.shape[0]:
                self._frames.resize(row + 1, axis=0)
            self._frames.id.write_direct_chunk((row, 0, 0, 0), chunk)
            sample.frame = None
        self._rows.append(sample)
        if self._file.failure is not None:
            raise self._file.failure

    def commit(self) -> None:
        """Commit all samples so far. Raises as `append`."""
        rows, self._rows = self._rows, []
        if rows:
            start, self._n_committed = self._n_committed, self._n_committed + len(rows)
            for data_set, values in zip(self._sets, self._values_of(rows), strict=True):
                data_set.resize(self._n_committed, axis=0)
                data_set[start:] = values
        self._hdf5.flush()
        self._file.commit()

    def close(self) -> None:
        """Discard uncommitted samples and close the file; a second call does nothing."""
        try:
            if self._hdf5 is not None:
                self._hdf5.close()
        finally:
            self._file.close()

    def _values_of(self, rows: list[Sample]) -> list[Any]:
        """Return the rows of each data set for some samples, in the order of `_create`."""
        columns = self._columns
        numbers = [[float(row.values.get(name, np.nan)) for name in columns.numbers] for row in rows]
        unreadable = [[name not in row.values for name in columns.names] for row in rows]
        return [
            np.array([int(row.wall_time_s * 1000) for row in rows], np.int64),
            np.array(numbers, np.float32).reshape(len(rows), -1),
            np.array([key_row(row.held) for row in rows]),
            np.array([row.latencies_ms for row in rows], np.float32),
            np.array([row.game_time_s for row in rows]),
            np.array(unreadable, np.uint8).reshape(len(rows), -1),
            *(_own_values(column, rows) for column in columns.own),
        ]

    def _create(self, columns: Columns) -> list[Any]:
        memory = self._table("memory_data", (len(columns.numbers),), "<f4")
        memory.attrs["attribute_names"] = list(columns.numbers) or h5py.Empty(h5py.string_dtype())
        inputs = self._table("inputs", (N_KEYS,), "u1")
        inputs.attrs["key_mapping"] = key_mapping()
        latencies = self._table("latencies", (len(LATENCIES),), "<f4")
        latencies.attrs["latency_names"] = list(LATENCIES)
        unreadable = self._table("unreadable", (len(columns.names),), "u1")
        unreadable.attrs["attribute_names"] = list(columns.names) or h5py.Empty(h5py.string_dtype())
        own = [self._create_own(column) for column in columns.own]
        timestamps = self._table("timestamps", (), "<i8")
        return [timestamps, memory, inputs, latencies, self._table("game_time_s", (), "<f8"), unreadable, *own]

    def _create_own(self, column: OwnColumn) -> Any:
        # Names in public profiles are arbitrary, and HDF5 would interpret a slash as a group.
        name = f"values/{quote(column.name, safe='')}".replace(".", "%2E")
        if column.dtype == "text":
            data_set = self._table(name, (), h5py.string_dtype("utf-8", column.shape[0]))
        else:
            data_set = self._table(name, column.shape, column.dtype)
        data_set.attrs["attribute"] = column.name
        return data_set

    def _create_frames(self, height: int, width: int) -> Any:
        shape = (height, width, 4)
        gzip: dict[str, Any] = {"compression": "gzip", "compression_opts": GZIP_LEVEL} if self._is_compressed else {}
        return self._hdf5.create_dataset(
            "frames", (0, *shape), maxshape=(None, *shape), chunks=(1, *shape), dtype="u1", **gzip
        )

    def _table(self, name: str, shape: tuple[int, ...], dtype: Any) -> Any:
        """Create a data set that grows by rows."""
        # A row may be empty, but a chunk may not.
        chunk = (_ROWS_PER_CHUNK, *(max(1, n) for n in shape))
        largest = (None, *(n or None for n in shape))
        return self._hdf5.create_dataset(name, (0, *shape), maxshape=largest, chunks=chunk, dtype=dtype)


def _own_values(column: OwnColumn, rows: list[Sample]) -> Any:
    values = [column.stored(row.values.get(column.name)) for row in rows]
    if column.dtype == "text":
        return np.array(values, h5py.string_dtype("utf-8", column.shape[0]))
    return np.array(values, column.dtype).reshape(len(rows), *column.shape)
