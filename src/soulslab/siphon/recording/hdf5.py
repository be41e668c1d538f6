"""The file of a recording, in the layout of the public Siphon recorder, and its conversion of values.

For N samples: ``frames`` [N,H,W,4] uint8 BGRA; ``timestamps`` [N] int64, ms since 1970; ``memory_data`` [N,A] float32
with the attribute ``attribute_names``; ``inputs`` [N,300] uint8 with the attribute ``key_mapping``; ``latencies`` [N,5]
float32, ms (capture, memory, keys, queue, total). soulslab adds ``game_time_s`` [N] float64, ``unreadable`` [N,names]
uint8, and ``values/...``.

float32 represents whole numbers exactly only up to 2**24. Numbers of types that do not fit also get a separate data set
under ``values``; text, bytes and vectors have only that data set.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Collection, Mapping
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

#: Types of which a single number does not fit float32.
_DTYPES: dict[str, Any] = {"i32": "<i4", "i64": "<i8", "u32": "<u4", "u64": "<u8", "f64": "<f8"}
_TRUTHS = {"bool", "flag"}
_TEXTS = {"utf8", "utf16"}
# A UTF-16 unit of 2 bytes becomes at most 3 bytes of UTF-8.
_UTF8_PER_UTF16_BYTES = 1.5


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


FORMAT = 1
LATENCIES = ("capture", "memory", "keys", "queue", "total")
#: Frames of a game are mostly flat areas; only the fastest level keeps up with 60 frames per second.
GZIP_LEVEL = 1
_ROWS_PER_CHUNK = 256
#: Upper bound of the headers and the index of a table that a commit writes, to the file and to its journal.
_TABLE_BYTES = 32 << 10


class Sample(msgspec.Struct, eq=False):
    """A sample of the game.

    Attributes:
        values: Attributes that could be read.
        frame: (H, W, 3) RGB, uint8; None without frames.
        latencies_ms: See `LATENCIES`; the last two are set when the sample is written.
        start_s, end_s: ``time.perf_counter()`` at the beginning and the end of the sample.
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

    `attributes` are recorded, by name; `frame_shape` is (H, W) of the data set of frames, None without frames; `facts`
    are attributes of the file.
    """

    attributes: Mapping[str, Attribute]
    frame_shape: tuple[int, int] | None
    is_compressed: bool
    facts: dict[str, Any]


class RecordingFile:
    """Writes samples; they are valid after `commit`. Raises `OSError`, and then no file remains."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self._tables = _tables(layout.attributes)
        self._is_compressed = layout.is_compressed
        self._rows: list[Sample] = []
        self._n_committed = 0
        self._hdf5: Any = None
        self._frames: Any = None
        self._file = CommittedFile(path)
        try:
            self._hdf5 = h5py.File(self._file, "w")
            self._sets = [self._create(table) for table in self._tables]
            if layout.frame_shape is not None:
                self._frames = self._create_frames(*layout.frame_shape)
            self._hdf5.attrs.update({"format": FORMAT, **layout.facts})
            self.commit()
        except BaseException:
            self.close()
            path.unlink()
            raise

    @property
    def spare_bytes(self) -> int:
        """Upper bound of the growth of everything but the frames in a commit, and of the journal of the commit."""
        row_bytes = [np.dtype(table.dtype).itemsize * math.prod(table.shape) for table in self._tables]
        return sum(2 * _ROWS_PER_CHUNK * n_bytes + _TABLE_BYTES for n_bytes in row_bytes)

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
            for data_set, table in zip(self._sets, self._tables, strict=True):
                data_set.resize(self._n_committed, axis=0)
                data_set[start:] = table.values(rows)
        self._hdf5.flush()
        self._file.commit()

    def close(self) -> None:
        """Discard uncommitted samples and close the file; a second call does nothing."""
        try:
            if self._hdf5 is not None:
                self._hdf5.close()
        finally:
            self._file.close()

    def _create_frames(self, height: int, width: int) -> Any:
        shape = (height, width, 4)
        gzip: dict[str, Any] = {"compression": "gzip", "compression_opts": GZIP_LEVEL} if self._is_compressed else {}
        return self._hdf5.create_dataset(
            "frames", (0, *shape), maxshape=(None, *shape), chunks=(1, *shape), dtype="u1", **gzip
        )

    def _create(self, table: _Table) -> Any:
        # A row may be empty, but a chunk may not.
        chunk = (_ROWS_PER_CHUNK, *(max(1, n) for n in table.shape))
        largest = (None, *(n or None for n in table.shape))
        data_set = self._hdf5.create_dataset(
            table.name, (0, *table.shape), maxshape=largest, chunks=chunk, dtype=table.dtype
        )
        data_set.attrs.update(table.attributes)
        return data_set


class _Table(msgspec.Struct, frozen=True):
    """A data set that grows by one row for each sample: shape and dtype of a row, its value, and HDF5 attributes."""

    name: str
    shape: tuple[int, ...]
    dtype: Any
    value: Callable[[Sample], Any]
    attributes: dict[str, Any] = {}

    def values(self, rows: list[Sample]) -> NDArray[Any]:
        """Return the rows for some samples."""
        return np.array([self.value(row) for row in rows], self.dtype).reshape(len(rows), *self.shape)


def _tables(attributes: Mapping[str, Attribute]) -> list[_Table]:
    """Return the data sets of a recording of some attributes, without frames."""
    names = list(attributes)
    numbers = [name for name, attribute in attributes.items() if _is_number(attribute)]
    own = (_own_table(name, attribute) for name, attribute in attributes.items())
    empty = h5py.Empty(h5py.string_dtype())
    return [
        _Table("timestamps", (), "<i8", lambda row: int(row.wall_time_s * 1000)),
        _Table(
            "memory_data",
            (len(numbers),),
            "<f4",
            lambda row: [float(row.values.get(name, np.nan)) for name in numbers],
            {"attribute_names": numbers or empty},
        ),
        _Table("inputs", (N_KEYS,), "u1", lambda row: key_row(row.held), {"key_mapping": key_mapping()}),
        _Table("latencies", (len(LATENCIES),), "<f4", lambda row: row.latencies_ms, {"latency_names": list(LATENCIES)}),
        _Table("game_time_s", (), "<f8", lambda row: row.game_time_s),
        _Table(
            "unreadable",
            (len(names),),
            "u1",
            lambda row: [name not in row.values for name in names],
            {"attribute_names": names or empty},
        ),
        *(table for table in own if table is not None),
    ]


def _is_number(attribute: Attribute) -> bool:
    return attribute.type in _TRUTHS or (attribute.type not in _TEXTS | {"bytes"} and attribute.length == 1)


def _own_table(name: str, attribute: Attribute) -> _Table | None:
    """Return the separate data set of an attribute; None if it has none.

    An unreadable value is stored as NaN, 0, or empty.
    """
    kind, length = attribute.type, attribute.length
    shape: tuple[int, ...] = ()
    missing: Any = 0
    dtype = _DTYPES.get(kind)
    if kind in _TEXTS:
        size = int(length * (_UTF8_PER_UTF16_BYTES if kind == "utf16" else 1)) + 1
        dtype, missing = h5py.string_dtype("utf-8", size), ""
    elif kind == "bytes":
        shape, dtype, missing = (length,), "|u1", bytes(length)
    elif kind not in _TRUTHS and (length > 1 or attribute.scale != 1.0):
        shape, dtype = (length,) if length > 1 else (), "<f8"
    if dtype is None:
        return None
    if dtype == "<f8":
        missing = np.full(shape, np.nan)

    def stored(row: Sample) -> Any:
        value = row.values.get(name, missing)
        if isinstance(value, str):
            return value.encode("utf-8", "replace")
        return np.frombuffer(value, np.uint8) if isinstance(value, bytes) else value

    # Names in public profiles are arbitrary, and HDF5 would interpret a slash as a group.
    return _Table(f"values/{quote(name, safe='')}".replace(".", "%2E"), shape, dtype, stored, {"attribute": name})
