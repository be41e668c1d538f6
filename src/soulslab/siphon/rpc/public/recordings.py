"""Recordings that public clients start, stop and download."""

from __future__ import annotations

import ntpath
import os
import posixpath
import threading
from collections.abc import Iterator
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from secrets import token_hex
from typing import Any, TypeVar

import msgspec

from soulslab.errors import RecordingError, SiphonError
from soulslab.siphon.recording.recorder import Recordable, Recorder, RecordingOptions
from soulslab.siphon.rpc.public import siphon_service_pb2 as pb2

CHUNK_BYTES = 1 << 20
MAX_RUNNING = 2
#: Minimum free space for a recording.
MIN_ROOM_BYTES = 1 << 20
#: Number of finished recordings whose status is kept; of older ones only the files remain.
MAX_KNOWN = 100

P = TypeVar("P", bound=PurePath)


class Recordings:
    """All recordings of public clients, in a folder of a maximum total size.

    A folder that a client asks for is a subfolder of it. Clients do not set the options. Methods with an
    id raise `RecordingError` for an unknown one.
    """

    def __init__(self, folder: Path, options: RecordingOptions, max_bytes: int) -> None:
        self._folder = folder
        self._options = options
        self._max_bytes = max_bytes
        self._recorders: dict[str, Recorder] = {}
        self._peers: dict[str, str] = {}
        self._lock = threading.Lock()

    @property
    def peers(self) -> set[str]:
        """The clients of running recordings."""
        return {self._peers[recording_id] for recording_id in self._running()}

    def start(self, source: Recordable, request: pb2.StartRecordingRequest, peer: str, **options: Any) -> str:
        """Start a recording and return its id; `options` replace fields of `RecordingOptions`.

        Raises `RecordingError` at a limit, and `SiphonError` if the game cannot be recorded.
        """
        if request.max_duration_seconds < 0:
            raise SiphonError(f"max_duration_seconds is {request.max_duration_seconds}; 0 is for no limit")
        folder = self._folder_of(request.output_directory)
        with self._lock:
            if len(self._running()) >= MAX_RUNNING:
                raise RecordingError(folder, f"{MAX_RUNNING} recordings go on already; stop one with StopRecording")
            recording_id = token_hex(8)
            settings = msgspec.structs.replace(
                self._options,
                attributes=tuple(dict.fromkeys(request.attribute_names)),
                max_duration_s=float(request.max_duration_seconds),
                max_bytes=self._room_bytes(),
                **options,
            )
            recorder = Recorder(source, folder / f"recording_{recording_id}.h5", settings)
            self._recorders[recording_id], self._peers[recording_id] = recorder, peer
            self._forget_old()
        return recording_id

    def find(self, recording_id: str) -> Recorder:
        """Return a recording."""
        recorder = self._recorders.get(recording_id)
        if recorder is None:
            raise RecordingError(self._folder, f"unknown recording id {recording_id[:64]!r}")
        return recorder

    def chunks(self, recording_id: str) -> Iterator[pb2.RecordingChunk]:
        """Yield the files of a finished recording, the last chunk marked as final. Raises `RecordingError`."""
        recorder = self.find(recording_id)
        if recorder.status().is_recording:
            raise RecordingError(recorder.path, "it is still recording; call StopRecording first")
        files = [path for path in (recorder.path, recorder.video) if path is not None]
        for path in files:
            try:
                yield from _chunks_of(path, is_last=path == files[-1])
            except OSError as error:
                raise RecordingError(path, f"cannot be read: {error.strerror}") from error

    def stop_of(self, peer: str) -> list[str]:
        """Stop the recordings of a disconnected client; return their ids."""
        running = {one: recorder for one, recorder in self._running().items() if self._peers[one] == peer}
        for recorder in running.values():
            recorder.end()
        return list(running)

    def close(self) -> None:
        """Stop all recordings."""
        for recorder in self._running().values():
            recorder.end()

    def _room_bytes(self) -> int:
        """Return the maximum size of the next recording: an equal share of the free space. Raises `RecordingError`."""
        running = self._running().values()
        still_to_come = sum(max(recorder.max_bytes - recorder.n_bytes, 0) for recorder in running)
        used = sum(path.stat().st_size for path in self._folder.rglob("*") if path.is_file() and not path.is_symlink())
        room = (self._max_bytes - used - still_to_come) // (MAX_RUNNING - len(running))
        if room < MIN_ROOM_BYTES:
            raise RecordingError(
                self._folder,
                f"it holds {used / 1e9:.2f} GB of recordings, and {self._max_bytes / 1e9:.2f} GB are the most; "
                f"the operator of the server has to remove some",
            )
        return room

    def _running(self) -> dict[str, Recorder]:
        return {one: recorder for one, recorder in self._recorders.copy().items() if recorder.status().is_recording}

    def _forget_old(self) -> None:
        running = self._running()
        ended = [recording_id for recording_id in self._recorders if recording_id not in running]
        for recording_id in ended[: max(len(self._recorders) - MAX_KNOWN, 0)]:
            del self._recorders[recording_id], self._peers[recording_id]

    def _folder_of(self, asked: str) -> Path:
        """Return the folder for a client's files: its path below our folder, so that it cannot write elsewhere."""
        if "\0" in asked:
            raise RecordingError(self._folder, "a path cannot hold a zero character")
        return folder_below(self._folder.resolve(), asked)


def folder_below(root: P, asked: str) -> P:
    """Return a client's path below a folder of this system. Raises `RecordingError` if there is none."""
    is_windows = "\\" in asked or bool(PureWindowsPath(asked).drive)
    path: PurePath = PureWindowsPath(asked) if is_windows else PurePosixPath(asked)
    is_on_windows = isinstance(root, PureWindowsPath)
    normal = type(root)((ntpath if is_on_windows else posixpath).normpath(root / asked))
    if not is_windows and normal.is_relative_to(root):
        return normal
    parts = [part for part in path.parts if part not in (path.anchor, "..")]
    if is_windows or is_on_windows:  # a part such as "C:" would select another drive
        parts = [part for part in parts if ":" not in part]
    folder = root.joinpath(*parts)
    if not folder.is_relative_to(root):
        raise RecordingError(str(root), f"{asked!r} is not a path below it")
    return folder


def _chunks_of(path: Path, *, is_last: bool) -> Iterator[pb2.RecordingChunk]:
    """Yield one file in chunks; an empty file is one empty chunk."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        for offset in range(0, max(size, 1), CHUNK_BYTES):
            end = min(offset + CHUNK_BYTES, size)
            data = file.read(end - offset)
            if len(data) < end - offset:
                raise OSError(0, "it was cut off meanwhile")
            yield pb2.RecordingChunk(
                data=data, offset=offset, total_size=size, is_final=is_last and end == size, filename=path.name
            )
