"""The folder of a training run, its result, and checks of its checkpoints."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec

from soulslab.config import dump_settings, without_secrets
from soulslab.errors import CheckpointError, CorruptCheckpointError, IncompatibleCheckpointError, SoulslabError
from soulslab.learn.archive import Tensors, remove_temporary_files, write_atomically, writing
from soulslab.learn.checkpoint import Checkpoint, CheckpointStore
from soulslab.learn.environment import describe_options, require_functions
from soulslab.learn.process_lock import ProcessLock
from soulslab.learn.settings import AlgorithmSettings
from soulslab.learn.tracker import Milestone

CONFIG_NAME: Final = "config.toml"
POLICY_NAME: Final = "policy.safetensors"
BEST_POLICY_NAME: Final = "policy_best.safetensors"
LOCK_NAME: Final = "run.lock"
CHECKPOINTS_NAME: Final = "checkpoints"

Duration = Annotated[float, msgspec.Meta(ge=0.0, le=1e9)]
"""Training time in the header of a checkpoint (s)."""


class StopReason(enum.StrEnum):
    """Why a run ended."""

    COMPLETED = "completed"
    WIN_RATE = "win rate reached"
    TIME = "time limit"
    INTERRUPTED = "interrupted"


class TrainResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a training run.

    Attributes:
        reason: Why it ended; an interrupted run was saved and can be resumed.
        env_steps: Game decisions taken, all environments together.
        train_seconds: Training time, resumed parts included (s).
        n_fights: Episodes finished.
        win_rate: Moving win rate at the end, 0..1; None if the environment does not report wins.
        mean_return: Mean return of the last episodes; None before the first.
        milestones: When the moving win rate first reached each level.
        policy_path: The policy's file.
    """

    reason: StopReason
    env_steps: int
    train_seconds: float
    n_fights: int
    win_rate: float | None
    mean_return: float | None
    milestones: tuple[Milestone, ...]
    policy_path: Path


_Settings = TypeVar("_Settings", bound=AlgorithmSettings)


class RunFolder(Generic[_Settings]):
    """The folder of a new or resumed run.

    Attributes:
        path: The folder.
        settings: Everything that defines the run, as a file can hold it: Python functions by name.
        options: Of the environment, with the functions themselves.
        store: The run's checkpoints.
        checkpoint: Checkpoint to resume; None for a new run.
    """

    def __init__(
        self, path: Path, settings: _Settings, env_options: Mapping[str, Any] | None = None, *, resume: bool = False
    ) -> None:
        """Check the folder, and read the newest checkpoint of a run that is resumed.

        The folder of an existing run is locked before its checkpoints are read, because a training process that is
        still running writes and removes them.

        Args:
            path: The folder; it does not have to exist.
            settings: Everything that defines the run.
            env_options: Merged over ``settings.env.options``.
            resume: Continue from the newest whole checkpoint.

        Raises:
            ChannelError: Another process trains in the folder.
            CheckpointError: It holds a run already and ``resume`` is False, or holds none and it is True.
            ConfigError: An option names a Python function that was not passed again.
        """
        self.path = path
        self._lock: ProcessLock | None = None
        self.options = {**settings.env.options, **(env_options or {})}
        require_functions(self.options, path / CONFIG_NAME)
        self.store = CheckpointStore(path / CHECKPOINTS_NAME, settings.run.keep_checkpoints)
        env = msgspec.structs.replace(settings.env, options=describe_options(self.options))
        self.settings: _Settings = msgspec.structs.replace(settings, env=env)
        self._is_resumed = resume
        self._refuse_existing_run()
        try:
            if (path / LOCK_NAME).exists() or (resume and self.store.paths()):
                self._lock_folder()
            self.checkpoint = self.store.latest() if resume else None
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        """Make the folder, lock it until `close`, remove temporary files of killed runs, and write the settings.

        Raises:
            CheckpointError: It could not be written, or another process began a run in it meanwhile.
            ChannelError: Another process trains in it.
        """
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        if self._lock is None:
            self._lock_folder()
            self._refuse_existing_run()
        for folder in (self.path, self.path / CHECKPOINTS_NAME):
            remove_temporary_files(folder)
        write_atomically(self.path / CONFIG_NAME, dump_settings(self.settings).encode())

    def close(self) -> None:
        """Unlock the folder; a second call does nothing. The end of the process does the same."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _lock_folder(self) -> None:
        self._lock = lock_run(self.path)

    def _refuse_existing_run(self) -> None:
        if not self._is_resumed and self.store.paths():
            raise CheckpointError(self.path, "holds a run already; resume it, or choose another folder")


def lock_run(path: Path) -> ProcessLock:
    """Lock the folder of a run, so that no other process trains in it.

    Args:
        path: The folder.

    Raises:
        ChannelError: Another process trains in it.
    """
    return ProcessLock(path / LOCK_NAME, "another soulslab train")


def part(tensors: Tensors, name: str) -> Tensors:
    """Return the tensors whose names begin with ``name/``, without it."""
    prefix = f"{name}/"
    return {key[len(prefix) :]: array for key, array in tensors.items() if key.startswith(prefix)}


@contextmanager
def continuing_from(path: Path) -> Iterator[None]:
    """Report a state that is missing or malformed; the checksum of a checkpoint only covers accidents.

    Args:
        path: The checkpoint whose state is loaded.

    Raises:
        CorruptCheckpointError: The block raised an error that is not one of soulslab's.
    """
    try:
        yield
    except SoulslabError:
        raise
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RuntimeError,
        TypeError,
        ValueError,
        msgspec.MsgspecError,
    ) as error:
        raise CorruptCheckpointError(
            path, f"holds no state from which this run can continue ({type(error).__name__}: {error})"
        ) from error


def check_same_run(checkpoint: Checkpoint, settings: AlgorithmSettings) -> None:
    """Check that a checkpoint belongs to these settings; of the table ``run`` only the seed makes another run.

    Raises:
        IncompatibleCheckpointError: It was written with other settings.
    """
    stored = checkpoint.header["settings"]
    # The same way through JSON, so that a tuple compares equal to the list it became.
    now, defaults = (msgspec.json.decode(msgspec.json.encode(each)) for each in (settings, type(settings)()))
    if stored.get("algorithm", "ppo") != now.get("algorithm", "ppo"):
        raise IncompatibleCheckpointError(
            checkpoint.path, "was written by another algorithm; resume with the settings in the run's config.toml"
        )
    for table, values in now.items():
        if not isinstance(values, dict):
            continue
        for key, value in values.items():
            if table == "run" and key != "seed":
                continue
            # A setting that came later had its default.
            was = stored.get(table, {}).get(key, defaults[table][key])
            if (table, key) == ("env", "options"):
                was, value = without_secrets(was), without_secrets(value)  # noqa: PLW2901
            if was != value:
                raise IncompatibleCheckpointError(
                    checkpoint.path,
                    f"was written with {table}.{key} = {was!r}, but the settings say "
                    f"{value!r}; resume with the settings in the run's config.toml, or start a new run",
                )
