"""The folder of a training run, its result, and checks of its checkpoints."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
from msgspec import MsgspecError

from soulslab.config import dump_settings, without_secrets
from soulslab.errors import CheckpointError, CorruptCheckpointError, IncompatibleCheckpointError, SoulslabError
from soulslab.learn.archive import remove_temporary_files, write_atomically, writing
from soulslab.learn.checkpoint import Checkpoint, CheckpointStore
from soulslab.learn.environment import describe_options, require_functions
from soulslab.learn.path_settings import absolute_options, with_absolute_paths, without_folders
from soulslab.learn.process_lock import ProcessLock
from soulslab.learn.run_requests import clear_requests
from soulslab.learn.settings import AlgorithmSettings, change_reward

CONFIG_NAME: Final = "config.toml"
POLICY_NAME: Final = "policy.safetensors"
BEST_POLICY_NAME: Final = "policy_best.safetensors"
LOCK_NAME: Final = "run.lock"
CHECKPOINTS_NAME: Final = "checkpoints"
REPLAY_NAME: Final = "replay"

Duration = Annotated[float, msgspec.Meta(ge=0.0, le=1e9)]
"""Training time in the header of a checkpoint (s)."""


MILESTONES: Final = (0.5, 0.8, 0.9)
"""Win rates whose first reaching is recorded."""


class Milestone(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The win rate first reached a level after this many game decisions and this training time (s)."""

    win_rate: float
    env_steps: int
    seconds: float


class StopReason(enum.StrEnum):
    """Why a run ended."""

    COMPLETED = "completed"
    WIN_RATE = "win rate reached"
    TIME = "time limit"
    INTERRUPTED = "interrupted"
    REQUESTED = "stop requested"


class TrainResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a training run; an interrupted run was saved and can be resumed.

    ``env_steps`` are game decisions of all environments together; ``train_seconds`` include the time before a resume.
    The win rate, 0..1, is that of the last evaluation, or the moving average without evaluations; None if the
    environment does not report wins. Before the first episode the mean return is None.
    """

    reason: StopReason
    env_steps: int
    train_seconds: float
    n_fights: int
    win_rate: float | None
    mean_return: float | None
    milestones: tuple[Milestone, ...]
    policy_path: Path


_MALFORMED: Final = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError, MsgspecError)
"""Errors that a malformed state causes while it is loaded."""

_Settings = TypeVar("_Settings", bound=AlgorithmSettings)


class RunFolder(Generic[_Settings]):
    """The folder of a new or resumed run.

    Attributes:
        settings: Settings of the run as a file can hold them: Python functions by name, paths absolute.
        options: Options of the environment, with the Python functions themselves. In one process they have the weights
            of the reward that were changed in a fleet before; the games of a fleet get the changes with their weights.
        checkpoint: Checkpoint to resume; None for a new run.
    """

    def __init__(
        self,
        path: Path,
        settings: _Settings,
        env_options: Mapping[str, Any] | None = None,
        *,
        resume: bool = False,
        is_fleet: bool = False,
    ) -> None:
        """Check the folder, and read the newest checkpoint of a resumed run.

        The folder of an existing run is locked before its checkpoints are read, because a training process that is
        still running writes and removes them. ``env_options`` are merged over ``settings.env.options``.

        Raises:
            ChannelError: Another process trains in the folder.
            CheckpointError: The folder has files that a new run would overwrite, or no run to resume.
            ConfigError: An option names a function that was not passed again; the games of a fleet have such functions
                themselves.
        """
        self.path = path
        self._lock: ProcessLock | None = None
        settings = with_absolute_paths(settings)
        self.options = {**settings.env.options, **absolute_options(env_options or {})}
        if not is_fleet:
            require_functions(self.options, path / CONFIG_NAME)
        self.store = CheckpointStore(path / CHECKPOINTS_NAME, settings.run.keep_checkpoints)
        env = msgspec.structs.replace(settings.env, options=describe_options(self.options))
        self.settings: _Settings = msgspec.structs.replace(settings, env=env)
        self._is_resumed = resume
        self._refuse_existing_run()
        try:
            if (path / LOCK_NAME).exists() or (resume and self.store.paths()):
                self._take_lock()
            self.checkpoint = self.store.latest() if resume else None
            if self.checkpoint is not None and not is_fleet:
                with continuing_from(self.checkpoint.path):
                    self.options = change_reward(self.options, self.checkpoint.header.get("changes", {}))
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        """Make and lock the folder until `close`, remove temporary files of killed runs, and write the settings."""
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        if self._lock is None:
            self._take_lock()
            self._refuse_existing_run()
        for folder in (self.path, self.path / CHECKPOINTS_NAME, self.path / REPLAY_NAME):
            remove_temporary_files(folder)
        write_atomically(self.path / CONFIG_NAME, dump_settings(self.settings).encode())

    def close(self) -> None:
        """Unlock the folder; a second call does nothing. The lock also ends with the process."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _take_lock(self) -> None:
        """Lock the folder, and remove requests to an earlier process; later ones are for this run."""
        self._lock = lock_run(self.path)
        clear_requests(self.path)

    def _refuse_existing_run(self) -> None:
        """Refuse a new run that would overwrite another one; a run without a checkpoint is replaced."""
        if self._is_resumed:
            return
        if self.store.paths():
            raise CheckpointError(self.path, "already holds a run; resume it, or choose another folder")
        # A run is locked before its settings are written, and saves this policy after its first checkpoint.
        is_run = (self.path / LOCK_NAME).exists()
        for name in (POLICY_NAME,) if is_run else (POLICY_NAME, BEST_POLICY_NAME, CONFIG_NAME):
            if (self.path / name).exists():
                raise CheckpointError(self.path, f"already holds {name}, but no checkpoint; choose another folder")


def lock_run(path: Path) -> ProcessLock:
    """Lock the folder of a run; raises ChannelError if another process trains in it."""
    return ProcessLock(path / LOCK_NAME, "another soulslab train")


@contextmanager
def continuing_from(path: Path) -> Iterator[None]:
    """Convert errors from a malformed state into CorruptCheckpointError; a checksum does not exclude them."""
    try:
        yield
    except SoulslabError:
        raise
    except _MALFORMED as error:
        raise CorruptCheckpointError(
            path, f"does not hold a state from which this run can continue ({type(error).__name__}: {error})"
        ) from error


def check_same_run(checkpoint: Checkpoint, settings: AlgorithmSettings) -> None:
    """Raise IncompatibleCheckpointError for other settings; of ``run`` only the seed counts, and ``sinks`` do not."""
    stored = checkpoint.header["settings"]
    # Both are converted through JSON, so that a tuple equals the list that was stored.
    now, defaults = (msgspec.json.decode(msgspec.json.encode(each)) for each in (settings, type(settings)()))
    if stored.get("algorithm", "ppo") != now.get("algorithm", "ppo"):
        raise IncompatibleCheckpointError(
            checkpoint.path, "was written by another algorithm; resume with the settings in the run's config.toml"
        )
    for table, values in now.items():
        if not isinstance(values, dict) or table == "sinks":
            continue
        for key, value in values.items():
            if table == "run" and key != "seed":
                continue
            # A setting that did not exist yet had its default.
            was = stored.get(table, {}).get(key, defaults[table][key])
            if (table, key) == ("env", "options"):
                was, value = without_secrets(was), without_secrets(value)  # noqa: PLW2901
            place = f"{table}.{key}"
            if without_folders(place, was) != without_folders(place, value):
                raise IncompatibleCheckpointError(
                    checkpoint.path,
                    f"was written with {place} = {was!r}, but the settings say {value!r}; resume with the settings in "
                    "the run's config.toml, or start a new run",
                )
