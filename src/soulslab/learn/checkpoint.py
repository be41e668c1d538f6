"""The checkpoints of a run: written atomically, the newest few kept, damaged ones named and passed over."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from soulslab.errors import CheckpointError, CorruptCheckpointError, IncompatibleCheckpointError
from soulslab.learn.archive import Tensors, read_archive, read_archive_header, write_archive, writing

FORMAT: Final = "soulslab-checkpoint"
FORMAT_VERSION: Final = 1

_log = logging.getLogger(__name__)


class Checkpoint(NamedTuple):
    """A checkpoint as read from the disk.

    Attributes:
        path: Its file.
        tensors: Its arrays by name.
        header: Everything else.
    """

    path: Path
    tensors: Tensors
    header: dict[str, Any]


class CheckpointStore:
    """The folder of a run's checkpoints."""

    def __init__(self, folder: Path, keep: int) -> None:
        """Use a folder, which is made when the first checkpoint is saved.

        Args:
            folder: Holds nothing else.
            keep: How many of the newest checkpoints stay.
        """
        self._folder = folder
        self._keep = keep

    def paths(self) -> list[Path]:
        """Return the files, oldest first; none if there is no folder.

        Raises:
            CheckpointError: The folder cannot be read.
        """
        try:
            return sorted(self._folder.glob("step_*.safetensors"))
        except OSError as error:
            raise CheckpointError(self._folder, f"cannot be read: {error.strerror or error}") from error

    def save(self, env_steps: int, tensors: Tensors, header: Mapping[str, Any]) -> Path:
        """Write a checkpoint, then remove the oldest ones beyond those to keep.

        Args:
            env_steps: Game decisions so far; names and orders the files.
            tensors: Arrays by name.
            header: Anything that JSON can say.

        Returns:
            The file.

        Raises:
            CheckpointError: The disk is full or the folder cannot be written; older checkpoints are
                untouched.
        """
        path = self._folder / f"step_{env_steps:015d}.safetensors"
        with writing(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
        write_archive(path, tensors, {"format": FORMAT, "version": FORMAT_VERSION, **header})
        # A run that went on from before a damaged checkpoint has not come to it yet; that one counts for nothing.
        reached = [each for each in self.paths() if each <= path]
        for old in reached[: -self._keep]:
            with writing(old):
                old.unlink()
        return path

    def latest(self, before: Path | None = None) -> Checkpoint:
        """Read the newest checkpoint that is whole; each damaged one is named in a warning.

        Args:
            before: Look among those older than this file alone.

        Raises:
            CheckpointError: There is none, or none is whole.
            IncompatibleCheckpointError: The newest whole one has a format that this soulslab does not know.
        """
        paths = self.paths()
        for path in reversed([each for each in paths if before is None or each < before]):
            try:
                tensors, header = read_archive(path)
            except CorruptCheckpointError as error:
                _log.warning("passing over a damaged checkpoint: %s", error)
                continue
            if (header.get("format"), header.get("version")) != (FORMAT, FORMAT_VERSION):
                raise IncompatibleCheckpointError(
                    path,
                    f"has format {header.get('format')!r} version {header.get('version')!r}; this soulslab "
                    f"reads {FORMAT!r} version {FORMAT_VERSION}",
                )
            return Checkpoint(path, tensors, header)
        problem = f"none of its {len(paths)} checkpoints is whole" if paths else "holds no checkpoint"
        raise CheckpointError(self._folder, f"{problem}; start the run anew")

    def header_values(self, name: str) -> dict[Path, Any]:
        """Return one value of the header of each checkpoint that is whole, by its file."""
        values = {}
        for path in self.paths():
            try:
                values[path] = read_archive_header(path)[name]
            except (CorruptCheckpointError, KeyError):
                _log.warning("%s is damaged, or none of this kind of run; it is left as it is", path)
        return values
