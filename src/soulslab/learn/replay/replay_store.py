"""The rows of a replay buffer on the disk, in chunks to which the checkpoints refer.

A chunk is a file that is written once and never changed; it holds some thousand rows of any environments. A save writes
the rows since the last save: full chunks, to which later saves only refer, and one incomplete chunk, whose rows the
next save writes again under another name. A save therefore writes the new rows plus at most one chunk, and the files of
earlier checkpoints are never changed. The manifest of a checkpoint lists the chunks that it needs.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.errors import CheckpointError, CorruptCheckpointError, IncompatibleCheckpointError
from soulslab.learn.archive import check_format, read_archive, write_archive, writing
from soulslab.learn.replay.replay_buffer import ReplayBuffer
from soulslab.learn.replay.row_ring import Ring

FORMAT: Final = "soulslab-replay"
FORMAT_VERSION: Final = 1

#: Size at which a chunk is full (bytes). Smaller chunks mean more files, larger ones more to write at each save.
CHUNK_BYTES: Final = 8 * 2**20

_ROWS: Final = "rows"


class Segment(NamedTuple):
    """Consecutive rows of environment ``stream``; ``first`` is the running number of the first one."""

    stream: int
    first: int
    n: int

    @property
    def end(self) -> int:
        """Running number of the row after the last one."""
        return self.first + self.n


class Chunk(msgspec.Struct, frozen=True):
    """A file of rows: its name in the folder, and its contents in this order."""

    name: str
    segments: tuple[Segment, ...]

    @property
    def n_rows(self) -> int:
        """Number of rows in the file."""
        return sum(segment.n for segment in self.segments)


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The rows that a checkpoint needs: the columns of a row, and files with the newest rows of each environment.

    ``n_per_stream`` is the number of rows that are kept of each environment, ``written`` the number that was written.
    """

    format: str = FORMAT
    version: int = FORMAT_VERSION
    row: str
    n_per_stream: int
    written: tuple[int, ...]
    chunks: tuple[Chunk, ...]


class ReplayStore:
    """A folder of chunks."""

    def __init__(self, folder: Path, chunk_bytes: int = CHUNK_BYTES) -> None:
        """Use a folder for chunks only; it is made at the first save. A chunk is full at ``chunk_bytes``."""
        self._folder = folder
        self._chunk_bytes = chunk_bytes
        self._full: list[Chunk] = []

    def save(self, buffer: ReplayBuffer) -> dict[str, Any]:
        """Write the rows that are not in a full chunk yet; return the manifest as JSON-compatible values.

        The buffer must always be the same one, or one that :meth:`load` has filled. Raises CheckpointError if the
        folder cannot be written; the files of earlier manifests are unchanged, and the save can be repeated.
        """
        ring = buffer.ring
        with writing(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
        oldest = ring.oldest()
        self._full = [chunk for chunk in self._full if any(each.end > oldest[each.stream] for each in chunk.segments)]
        saved = oldest.copy()  # running number of the first row of each stream that is not in a full chunk
        for segment in (segment for chunk in self._full for segment in chunk.segments):
            saved[segment.stream] = max(saved[segment.stream], segment.end)
        unfinished: list[Chunk] = []
        n_rows = max(1, self._chunk_bytes // ring.rows.itemsize)
        for segments in _portions(saved, ring.written, n_rows):
            chunk = self._write(ring, segments)
            (self._full if chunk.n_rows == n_rows else unfinished).append(chunk)
        manifest = Manifest(
            row=_describe(ring),
            n_per_stream=ring.n_per_stream,
            written=tuple(ring.written.tolist()),
            chunks=(*self._full, *unfinished),
        )
        plain: dict[str, Any] = msgspec.to_builtins(manifest)
        return plain

    def load(self, buffer: ReplayBuffer, manifest: Mapping[str, Any]) -> None:
        """Load the rows of a checkpoint, given the manifest of its header; ``buffer.load`` must follow.

        Raises IncompatibleCheckpointError for another format, shape, capacity or number of environments,
        CorruptCheckpointError if a chunk is missing or altered; the buffer is then empty.
        """
        ring = buffer.ring
        wanted = self._read_manifest(ring, manifest)
        buffer.clear()  # if loading fails, the buffer is empty
        written = np.array(wanted.written, np.int64)
        oldest = np.maximum(written - ring.n_per_stream, 0)
        n_loaded = np.zeros_like(written)
        for chunk in wanted.chunks:
            rows = self._read(ring, chunk)
            start = 0
            for stream, first, n in chunk.segments:
                gone = min(n, max(0, int(oldest[stream]) - first))
                ring.bytes[ring.places(stream, first + gone, n - gone)] = rows[start + gone : start + n]
                n_loaded[stream] += n - gone
                start += n
        if not np.array_equal(n_loaded, written - oldest):
            raise CorruptCheckpointError(
                self._folder, f"its chunks hold {n_loaded.tolist()} of {(written - oldest).tolist()} rows"
            )
        ring.restore(written)
        # All chunks but the last are full, even if the size of full chunks was different when they were written.
        self._full = list(wanted.chunks[:-1])

    def prune(self, kept: Sequence[Mapping[str, Any]]) -> None:
        """Remove the chunks to which none of these manifests of checkpoints refers, and temporary files."""
        named = {chunk["name"] for manifest in kept for chunk in manifest["chunks"]}
        named |= {chunk.name for chunk in self._full}
        with writing(self._folder):
            for path in [*self._folder.glob("rows_*.safetensors"), *self._folder.glob(".rows_*.tmp")]:
                if path.name not in named:
                    path.unlink(missing_ok=True)

    def _write(self, ring: Ring, segments: tuple[Segment, ...]) -> Chunk:
        """Write a chunk under a unique name, because two runs may continue from one checkpoint."""
        stream, first, _ = segments[0]
        chunk = Chunk(f"rows_{stream:05d}_{first:015d}_{secrets.token_hex(8)}.safetensors", segments)
        rows = ring.bytes[np.concatenate([ring.places(*segment) for segment in segments])]
        header = {"format": FORMAT, "version": FORMAT_VERSION, "chunk": msgspec.to_builtins(chunk)}
        write_archive(self._folder / chunk.name, {_ROWS: rows}, header)
        return chunk

    def _read(self, ring: Ring, chunk: Chunk) -> NDArray[np.uint8]:
        """Return the rows of a chunk, uint8 (n, S)."""
        path = self._folder / chunk.name
        try:
            tensors, header = read_archive(path)
        except CheckpointError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise CorruptCheckpointError(path, "is missing, but a checkpoint needs it") from error
            raise
        rows = tensors.get(_ROWS)
        shape = (chunk.n_rows, ring.rows.itemsize)
        if header.get("chunk") != msgspec.json.decode(msgspec.json.encode(chunk)) or rows is None:
            raise CorruptCheckpointError(path, "is not the chunk to which the checkpoint refers")
        if rows.shape != shape or rows.dtype != np.uint8:
            raise CorruptCheckpointError(path, f"holds rows of shape {rows.shape}, not {shape}")
        return rows

    def _read_manifest(self, ring: Ring, manifest: Mapping[str, Any]) -> Manifest:
        check_format(manifest, FORMAT, (FORMAT_VERSION,), self._folder)
        try:
            wanted = msgspec.convert(dict(manifest), Manifest)
        except msgspec.ValidationError as error:
            raise CorruptCheckpointError(self._folder, f"its manifest is malformed ({error})") from error
        for what, there, here in (
            ("rows of", wanted.row, _describe(ring)),
            ("a capacity per environment of", wanted.n_per_stream, ring.n_per_stream),
            ("a number of environments of", len(wanted.written), len(ring.written)),
        ):
            if there != here:
                raise IncompatibleCheckpointError(
                    self._folder,
                    f"was written with {what} {there}, but the buffer has {here}; resume with the settings "
                    "in the run's config.toml, or start a new run",
                )
        for chunk in wanted.chunks:
            if Path(chunk.name).name != chunk.name or not all(_is_sound(each, wanted) for each in chunk.segments):
                raise CorruptCheckpointError(self._folder, f"its manifest is malformed (chunk {chunk.name!r})")
        return wanted


def _describe(ring: Ring) -> str:
    return msgspec.json.encode(ring.rows.dtype.descr).decode()


def _is_sound(segment: Segment, manifest: Manifest) -> bool:
    """Return whether a segment is within the rows that were written for its environment."""
    stream, first, n = segment
    return 0 <= stream < len(manifest.written) and first >= 0 and n >= 0 and segment.end <= manifest.written[stream]


def _portions(first: NDArray[np.int64], end: NDArray[np.int64], n_rows: int) -> Iterator[tuple[Segment, ...]]:
    """Split rows ``first`` to ``end`` of each stream, int64 (E,), into portions of n rows; the last has fewer."""
    portion: list[Segment] = []
    room = n_rows
    for stream in range(len(first)):
        start = int(first[stream])
        while start < end[stream]:
            n = min(room, int(end[stream]) - start)
            portion.append(Segment(stream, start, n))
            start, room = start + n, room - n
            if not room:
                yield tuple(portion)
                portion, room = [], n_rows
    if portion:
        yield tuple(portion)
