"""Reading recordings, including those of crashed programs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import av
import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.config.hdf5_files import Hdf5Node, Hdf5Reader
from soulslab.errors import RecordingError
from soulslab.siphon.recording.committed_file import finish_commit, is_being_written
from soulslab.siphon.recording.hdf5 import FORMAT

COMMIT_DEADLINE_S, RETRY_S = 10.0, 0.01
_REQUIRED = ("timestamps", "game_time_s", "memory_data", "inputs", "latencies", "unreadable")


class Recording(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A recording; all arrays have N rows, one for each sample.

    Attributes:
        path: Path of the file.
        facts: ``game``, ``executable``, ``rate_hz``, ...
        wall_time_ms: (N,) int64, since 1970.
        game_time_s: (N,) float64.
        attributes: By name: (N,) numbers in their own type, or float32 where that is exact; (N, length) bytes and
            vectors; (N,) text as objects. Unreadable values are NaN in floats, and 0 or empty otherwise.
        unreadable: By name: (N,) bool, whether it could not be read.
        keys: By name of the key: (N,) bool, whether it was held; only keys that were held at least once.
        latencies_ms: (N, 5) float32: capture, memory, keys, queue, total.
        frames: (N, H, W, 4) BGRA, uint8; None if the file has none, or they were not requested.
        video: Video with the frames; None if there is none. After a crash it may be a few frames longer or shorter than
            the arrays; its frame i is row i.
    """

    path: Path
    facts: dict[str, Any]
    wall_time_ms: NDArray[np.int64]
    game_time_s: NDArray[np.float64]
    attributes: dict[str, NDArray[Any]]
    unreadable: dict[str, NDArray[np.bool_]]
    keys: dict[str, NDArray[np.bool_]]
    latencies_ms: NDArray[np.float32]
    frames: NDArray[np.uint8] | None
    video: Path | None

    def __len__(self) -> int:
        return len(self.wall_time_ms)


def read_recording(path: Path, *, with_frames: bool = True) -> Recording:
    """Read a complete recording; of a running one, everything up to its last commit.

    If the program that wrote it died during a commit, the commit is finished first. Frames may need much memory;
    without `with_frames`, `h5py` can read ``frames`` in parts.

    Raises `RecordingError` if the file does not exist, is not a recording, or has a newer format.
    """
    finish_commit(path)
    end_s: float | None = None
    with Hdf5Reader() as reader:
        while True:
            try:
                return _read_once(reader, path, with_frames=with_frames)
            except _UnreadableError:
                # A commit may have happened between the parts that were read. The first attempt also starts a process,
                # so the deadline begins after it.
                now_s = time.monotonic()
                end_s = now_s + COMMIT_DEADLINE_S if end_s is None else end_s
                if now_s >= end_s or not is_being_written(path):
                    raise
                time.sleep(RETRY_S)


def _read_once(reader: Hdf5Reader, path: Path, *, with_frames: bool) -> Recording:
    try:
        fail = partial(_UnreadableError, path)
        file = reader.read(path, fail, max_bytes=None) if with_frames else reader.read(path, fail, skip=("frames",))
        return _read(path, file)
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise _UnreadableError(path, str(error)) from error


def video_frames(path: Path) -> Iterator[NDArray[np.uint8]]:
    """Yield the frames of a video, (H, W, 3) RGB, uint8. Raises `RecordingError` if the file is not a video."""
    try:
        with av.open(str(path)) as film:
            for frame in film.decode(video=0):
                yield frame.to_ndarray(format="rgb24").astype(np.uint8, copy=False)
    except (OSError, av.FFmpegError, IndexError) as error:
        raise RecordingError(path, f"cannot be read as a film: {error}") from error


class _UnreadableError(RecordingError):
    """The file is damaged or is being written."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(path, f"cannot be read as a recording: {problem.removeprefix('cannot be read: ')}")


def _read(path: Path, file: Hdf5Node) -> Recording:
    facts = file.attrs
    if facts.get("format") != FORMAT:
        raise RecordingError(path, f"its format is {facts.get('format')!r}; this soulslab reads format {FORMAT}")
    missing = [name for name in _REQUIRED if name not in file.items]
    if missing:
        raise RecordingError(path, f"it has no {', '.join(missing)}")
    video = facts.get("video")
    unreadable, inputs = file.items["unreadable"], file.items["inputs"]
    return Recording(
        path=path,
        facts=facts,
        wall_time_ms=file.array("timestamps"),
        game_time_s=file.array("game_time_s"),
        attributes=_attributes(file),
        unreadable=_named_columns(unreadable, "attribute_names", np.bool_),
        keys={name: down for name, down in _named_columns(inputs, "key_mapping", np.bool_).items() if any(down)},
        latencies_ms=file.array("latencies"),
        frames=file.items["frames"].values if "frames" in file.items else None,
        video=path.with_name(video) if video else None,
    )


def _attributes(file: Hdf5Node) -> dict[str, NDArray[Any]]:
    """Return the attributes in the recorded order, each from its most exact data set."""
    found = _named_columns(file.items["memory_data"], "attribute_names", np.float32)
    if "values" in file.items:
        values = file.items["values"]
        found |= {data_set.attrs["attribute"]: values.array(name) for name, data_set in values.items.items()}
    return {name: found[name] for name in _names(file.items["unreadable"], "attribute_names")}


def _named_columns(data_set: Hdf5Node, attribute: str, dtype: Any) -> dict[str, NDArray[Any]]:
    if data_set.values is None:
        raise ValueError("a table is a group")
    return {name: data_set.values[:, i].astype(dtype) for i, name in enumerate(_names(data_set, attribute)) if name}


def _names(data_set: Hdf5Node, attribute: str) -> list[str]:
    return [str(name) for name in data_set.attrs[attribute]]
