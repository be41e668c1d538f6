"""Traces: the values and frames of a game after each step of an episode, and the first difference of two traces.

::

    difference = first_difference(read_trace(Path("doom-1.h5")), read_trace(Path("doom-2.h5")))
    difference.step, difference.values, difference.region   # None if the traces are equal

A trace is stored in an HDF5 file with these data sets, for T steps and A attributes:

- ``keys`` (T,) text: the held keys, separated by spaces;
- ``values/...`` with T rows: one data set for each attribute; its HDF5 attribute ``attribute`` is the name;
- ``unreadable`` (T, A) uint8, with the HDF5 attribute ``attribute_names``;
- ``frame_hashes`` (T, 32) uint8: the SHA-256 of each frame;
- ``frames`` (T, H, W, 3) uint8 RGB: each frame is compressed separately.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import quote

import h5py
import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.closing import Closing
from soulslab.config.hdf5_files import Hdf5Node, Hdf5Reader
from soulslab.errors import RecordingError
from soulslab.siphon.profile import Attribute, Value

Pixels: TypeAlias = NDArray[np.uint8]

FORMAT = 1
_FRAME_AXES: Final = 4
HASH_BYTES = 32
#: The fastest level. At higher levels, compression takes several times as long as the game needs for a frame.
GZIP_LEVEL = 1
_TEXTS = ("utf8", "utf16")
_DATA_SETS = ("keys", "unreadable", "frame_hashes", "frames", "values")


class Column(msgspec.Struct, frozen=True, eq=False):
    """The values of one attribute in an episode, 0 or empty where it could not be read, and where it could be read.

    Values are (T,) numbers or text (as objects), or (T, length) bytes and vectors; `is_readable` is (T,).
    """

    values: NDArray[Any]
    is_readable: NDArray[np.bool_]

    def at(self, step: int) -> Value | None:
        """Return the value after a step (counted from 0); None if the attribute could not be read."""
        value = self.values[step]
        return (value.item() if isinstance(value, np.generic) else value) if self.is_readable[step] else None


class Trace(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Keys, values and frames of T steps.

    Attributes:
        facts: ``game``, ``episode``, ``seed`` and ``step_ticks``.
        held: Held keys of each step.
        columns: Values after each step, by attribute.
        frame_hashes: (T, 32) uint8, the SHA-256 of each frame.
        frame: Returns the frame after a step (counted from 0), (H, W, 3) uint8 RGB, or None if it was not kept.
    """

    facts: dict[str, Any]
    held: list[tuple[str, ...]]
    columns: dict[str, Column]
    frame_hashes: NDArray[np.uint8]
    frame: Callable[[int], Pixels | None] = lambda _: None

    def __len__(self) -> int:
        return len(self.held)


class PixelRegion(msgspec.Struct, frozen=True):
    """The smallest rectangle around the pixels in which two frames differ, and the number of these pixels."""

    left_px: int
    top_px: int
    width_px: int
    height_px: int
    n_pixels: int

    def __str__(self) -> str:
        return f"{self.n_pixels} pixels within {self.width_px} x {self.height_px} px at ({self.left_px}, {self.top_px})"


class Difference(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """The first step in which two traces differ, with all differences of this step.

    Attributes:
        step: Number of the step, counted from 1.
        held: Held keys of the step in both traces; () for a trace that has ended before.
        problem: Why the traces cannot be compared from this step on, such as other keys; "" if they can.
        values: The attributes that differ, each with both values; None is a value that could not be read.
        has_other_frame: Whether the frames differ.
        region: Pixels that differ; None if the frames are equal, a frame was not kept, or their sizes differ.
    """

    step: int
    held: tuple[tuple[str, ...], tuple[str, ...]]
    problem: str = ""
    values: dict[str, tuple[Value, Value]] = {}
    has_other_frame: bool = False
    region: PixelRegion | None = None


# --- comparison ---------------------------------------------------------------------------------------------


def hash_frame(pixels: Pixels) -> bytes:
    """Return the SHA-256 of a frame and its size."""
    return hashlib.sha256(f"{pixels.shape}".encode() + np.ascontiguousarray(pixels).data).digest()


def first_difference(one: Trace, two: Trace) -> Difference | None:
    """Return the first step in which two traces differ in any bit; None if they are equal.

    Raises:
        RecordingError: A frame cannot be read.
    """
    n = min(len(one), len(two))
    if one.columns.keys() != two.columns.keys():
        others = sorted(one.columns.keys() ^ two.columns.keys())
        return _end(one, two, 0, f"only one of the traces has the attributes {', '.join(others)}")
    columns = {name: _differs(column, two.columns[name], n) for name, column in one.columns.items()}
    frames = (one.frame_hashes[:n] != two.frame_hashes[:n]).any(axis=1)
    keys = np.fromiter((a != b for a, b in zip(one.held, two.held, strict=False)), np.bool_, n)
    is_other = np.logical_or.reduce([frames, keys, *columns.values()])
    if not is_other.any():
        if len(one) == len(two):
            return None
        return _end(one, two, n, f"one trace has {len(one)} steps, the other {len(two)}")
    step = int(is_other.argmax())
    if keys[step]:
        return _end(one, two, step, "the keys differ, so the traces do not belong together")
    values = {
        name: (column.at(step), two.columns[name].at(step))
        for name, column in one.columns.items()
        if columns[name][step]
    }
    return Difference(
        step=step + 1,
        held=(one.held[step], two.held[step]),
        values=values,
        has_other_frame=bool(frames[step]),
        region=_region(one.frame(step), two.frame(step)) if frames[step] else None,
    )


def _end(one: Trace, two: Trace, step: int, problem: str) -> Difference:
    """Return the difference of traces that cannot be compared from a step (counted from 0) on."""
    first, second = (trace.held[step] if step < len(trace) else () for trace in (one, two))
    return Difference(step=step + 1, held=(first, second), problem=problem)


def _differs(one: Column, two: Column, n: int) -> NDArray[np.bool_]:
    """Return whether an attribute differs in each of the first n steps, (n,) bool."""
    first, second = one.values[:n], two.values[:n]
    if first.dtype != second.dtype or first.shape != second.shape:
        return np.ones(n, np.bool_)
    if first.dtype != object:  # compare bits, so that NaN equals NaN, and -0.0 differs from 0.0
        first, second = (np.ascontiguousarray(values).view(np.uint8).reshape(n, -1) for values in (first, second))
    is_other = np.asarray(first != second, np.bool_).reshape(n, -1).any(axis=1)
    is_read, is_other_read = one.is_readable[:n], two.is_readable[:n]
    return np.asarray((is_read != is_other_read) | (is_read & is_other), np.bool_)


def _region(one: Pixels | None, two: Pixels | None) -> PixelRegion | None:
    if one is None or two is None or one.shape != two.shape:
        return None
    is_other = (one != two).any(axis=2)
    rows, columns = np.flatnonzero(is_other.any(axis=1)), np.flatnonzero(is_other.any(axis=0))
    left, top = int(columns[0]), int(rows[0])
    width, height = int(columns[-1]) - left + 1, int(rows[-1]) - top + 1
    return PixelRegion(left, top, width, height, int(is_other.sum()))


# --- making and writing -------------------------------------------------------------------------------------


def make_columns(rows: Sequence[Mapping[str, Value]], attributes: Mapping[str, Attribute]) -> dict[str, Column]:
    """Return the columns of an episode, given the values after each step; a missing value could not be read."""
    return {name: _column([row.get(name) for row in rows], attribute) for name, attribute in attributes.items()}


def _column(values: list[Value | None], attribute: Attribute) -> Column:
    is_readable = np.fromiter((value is not None for value in values), np.bool_, len(values))
    kind, n = attribute.type, len(values)
    column: NDArray[Any]
    if kind in _TEXTS:
        column = np.full(n, "", object)
    elif kind == "bytes":
        column = np.zeros((n, attribute.length), np.uint8)
    elif kind in ("bool", "flag"):
        column = np.zeros(n, np.bool_)
    elif attribute.length > 1:
        column = np.zeros((n, attribute.length))
    elif kind[0] == "f" or attribute.scale != 1.0:
        column = np.zeros(n)
    else:
        column = np.zeros(n, np.uint64 if kind == "u64" else np.int64)
    for i in np.flatnonzero(is_readable):
        value: Value = values[i]
        column[i] = np.frombuffer(value, np.uint8) if kind == "bytes" else value
    return Column(column, is_readable)


class TraceWriter(Closing):
    """Writes a trace: the frames during the episode, the rest at its end. Without `finish` the file is deleted.

    An existing file is replaced. All methods raise `RecordingError` if the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_finished = False
        self._frames: Any = None
        self._n_frames = 0
        with self._converting_errors():
            self._file: Any = h5py.File(path, "w")

    def add_frame(self, pixels: Pixels) -> None:
        """Add the frame of the next step; all frames must have the same size."""
        with self._converting_errors():
            if self._frames is None:
                shape = pixels.shape
                self._frames = self._file.create_dataset(
                    "frames", (0, *shape), "u1", maxshape=(None, *shape), chunks=(1, *shape),
                    compression="gzip", compression_opts=GZIP_LEVEL,
                )  # fmt: skip
            if self._n_frames == len(self._frames):
                self._frames.resize(max(64, 2 * self._n_frames), axis=0)
            chunk = zlib.compress(np.ascontiguousarray(pixels).data, GZIP_LEVEL)
            self._frames.id.write_direct_chunk((self._n_frames, 0, 0, 0), chunk)
        self._n_frames += 1

    def finish(self, trace: Trace) -> None:
        """Write all data except the frames, and close the file."""
        with self._converting_errors():
            if self._frames is not None:
                self._frames.resize(self._n_frames, axis=0)
            self._write(trace)
            self._file.close()
        self._is_finished = True

    @contextmanager
    def _converting_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, RuntimeError) as error:
            raise RecordingError(self._path, f"cannot be written: {error}") from error

    def _write(self, trace: Trace) -> None:
        text = h5py.string_dtype()
        self._file.attrs.update({"format": FORMAT, "kind": "trace", **trace.facts})
        self._file.create_dataset("keys", data=[" ".join(keys) for keys in trace.held], dtype=text)
        self._file.create_dataset("frame_hashes", data=trace.frame_hashes)
        columns = trace.columns
        unreadable = np.array([~column.is_readable for column in columns.values()], np.uint8)
        unreadable = unreadable.reshape(len(columns), len(trace))  # also without columns
        data_set = self._file.create_dataset("unreadable", data=unreadable.T)
        data_set.attrs["attribute_names"] = list(columns) or h5py.Empty(text)
        values = self._file.create_group("values")
        for name, column in columns.items():
            # Names of attributes may contain a slash, which HDF5 would interpret as a group.
            place = quote(name, safe="").replace(".", "%2E")
            dtype = text if column.values.dtype == object else column.values.dtype
            values.create_dataset(place, data=column.values, dtype=dtype).attrs["attribute"] = name

    def close(self) -> None:
        """Close the file, and delete it unless it is complete; a second call does nothing."""
        if not self._is_finished and self._file:
            self._file.close()
            self._path.unlink(missing_ok=True)


# --- reading ------------------------------------------------------------------------------------------------


def read_trace(path: Path) -> Trace:
    """Read a trace; each frame is read from the file when it is used.

    Raises:
        RecordingError: The file does not exist, is damaged, or has another format.
    """
    fail = partial(_read_error, path, "cannot be read as a trace")
    with Hdf5Reader() as reader:
        file = reader.read(path, fail, skip=("frames",))
    try:
        return _read(path, file)
    except (KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
        raise fail(str(error)) from error


def read_frame(path: Path, step: int) -> Pixels:
    """Return the frame after a step (counted from 0) of a trace. Raises `RecordingError`."""
    fail = partial(_read_error, path, f"the frame of step {step + 1} cannot be read")
    with Hdf5Reader() as reader:
        file = reader.read(path, fail, only=["frames"], rows=(step, step + 1))
    frames = file.items["frames"].values
    if frames is None or len(frames) != 1 or frames.dtype != np.uint8 or frames.ndim != _FRAME_AXES:
        raise fail("the file does not contain it")
    frame: Pixels = frames[0]
    return frame


def _read_error(path: Path, what: str, problem: str) -> RecordingError:
    return RecordingError(path, f"{what}: {problem.removeprefix('cannot be read: ')}")


def _read(path: Path, file: Hdf5Node) -> Trace:
    facts = dict(file.attrs)
    kind, number = facts.pop("kind", None), facts.pop("format", None)
    if (kind, number) != ("trace", FORMAT):
        raise RecordingError(
            path, f"is not a trace of format {FORMAT}; traces are written by: soulslab siphon verify --record"
        )
    missing = [name for name in _DATA_SETS if name not in file.items]
    if missing:
        raise RecordingError(path, f"it has no {', '.join(missing)}; record the trace again")
    held = [tuple(keys.split()) for keys in file.array("keys")]
    lengths = {*(file.items[name].shape[0] for name in ("unreadable", "frame_hashes", "frames")), len(held)}
    if len(lengths) > 1:
        raise RecordingError(path, f"its parts have different lengths: {sorted(lengths)}; record the trace again")
    # The columns are in the order in which they were written.
    names = [str(name) for name in file.items["unreadable"].attrs["attribute_names"]]
    is_readable = file.array("unreadable") == 0
    found = file.items["values"]
    values = {data_set.attrs["attribute"]: found.array(name) for name, data_set in found.items.items()}
    return Trace(
        facts=facts,
        held=held,
        columns={name: Column(values[name], is_readable[:, i]) for i, name in enumerate(names)},
        frame_hashes=file.array("frame_hashes"),
        frame=lambda step: read_frame(path, step),
    )
