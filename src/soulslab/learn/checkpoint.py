"""The checkpoints of a run: written atomically, limited to the newest few, with checks for damage.

Arrays also hold the states of NumPy random generators (`rng_state`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from soulslab.errors import CheckpointError, CorruptCheckpointError
from soulslab.learn.archive import Tensors, check_format, read_archive, read_archive_header, write_archive, writing

FORMAT: Final = "soulslab-checkpoint"
FORMAT_VERSION: Final = 1

_log = logging.getLogger(__name__)


class Checkpoint(NamedTuple):
    """A checkpoint that was read: its file, arrays by name, and further values by name."""

    path: Path
    tensors: Tensors
    header: dict[str, Any]


class CheckpointStore:
    """The folder of a run's checkpoints, of which the newest ``keep`` stay; made by the first save."""

    def __init__(self, folder: Path, keep: int) -> None:
        self._folder = folder
        self._keep = keep

    def paths(self) -> list[Path]:
        """Return the checkpoint files, oldest first; empty if the folder does not exist."""
        try:
            return sorted(self._folder.glob("step_*.safetensors"))
        except OSError as error:
            raise CheckpointError(self._folder, f"cannot be read: {error.strerror or error}") from error

    def save(self, env_steps: int, tensors: Tensors, header: Mapping[str, Any]) -> Path:
        """Write a checkpoint, named by the number of game decisions, then remove old ones; return the file."""
        path = self._folder / f"step_{env_steps:015d}.safetensors"
        with writing(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
        write_archive(path, tensors, {"format": FORMAT, "version": FORMAT_VERSION, **header})
        # A damaged checkpoint may be newer than the resumed run; it does not count among those to keep.
        reached = [each for each in self.paths() if each <= path]
        for old in reached[: -self._keep]:
            with writing(old):
                old.unlink()
        return path

    def latest(self, before: Path | None = None) -> Checkpoint:
        """Read the newest intact checkpoint older than ``before``; each damaged one gives a warning.

        Raises CheckpointError without an intact checkpoint, IncompatibleCheckpointError for an unknown format.
        """
        paths = self.paths()
        for path in reversed([each for each in paths if before is None or each < before]):
            try:
                tensors, header = read_archive(path)
            except CorruptCheckpointError as error:
                _log.warning("skipping a damaged checkpoint: %s", error)
                continue
            check_format(header, FORMAT, (FORMAT_VERSION,), path)
            return Checkpoint(path, tensors, header)
        problem = f"none of its {len(paths)} checkpoints is intact" if paths else "holds no checkpoint"
        raise CheckpointError(self._folder, f"{problem}; start a new run")

    def header_values(self, name: str) -> dict[Path, Any]:
        """Return one value of the header of each intact checkpoint, by file."""
        values = {}
        for path in self.paths():
            try:
                values[path] = read_archive_header(path)[name]
            except (CorruptCheckpointError, KeyError):
                _log.warning("%s is damaged, or belongs to another kind of run; it is kept", path)
        return values


def rng_state(rng: np.random.Generator) -> NDArray[np.uint8]:
    """Return the state of a generator as JSON in bytes, uint8; its integers are longer than 64 bits."""
    return np.frombuffer(json.dumps(rng.bit_generator.state).encode(), np.uint8).copy()


def load_rng(rng: np.random.Generator, state: NDArray[Any]) -> None:
    """Restore the state of a generator from :func:`rng_state`; raises ValueError for a malformed state."""
    try:
        rng.bit_generator.state = json.loads(state.tobytes())
    except (KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"not a state of a random generator: {error}") from error
