"""Writing recorded episodes as a Minari data set that is whole at every moment.

HDF5 does not outlive a crash or a full disk in the middle of a change, and a person's fights cannot be fought again. So
Minari writes to a copy beside the data set, and the copy is put in its place when it is whole.
"""

from __future__ import annotations

import copy
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import gymnasium
import msgspec
import numpy as np

from soulslab.errors import DemonstrationError
from soulslab.learn.demonstrations.data_set import (
    DATA_NAME,
    METADATA_NAME,
    Origin,
    describe,
    plain_options,
    require_minari,
)
from soulslab.learn.demonstrations.episode import Episode
from soulslab.learn.provenance import git_commit
from soulslab.version import VERSION

_FAILURES: Final = (OSError, RuntimeError, ValueError, KeyError)
"""What h5py raises when it cannot write."""


class DemonstrationWriter:
    """A data set that is written to; a context that keeps, when it is left in any way, what was added.

    Args:
        folder: Where it lies; made with its parents.
        env: The environment that is played, which tells its id and spaces.
        options: Keyword arguments that it was made with.
        player: Who plays, in a word.
        defaults: What its options are where they are not given, if that is known.
        is_continued: Whether episodes are added to what is there; otherwise there must be nothing.

    Raises:
        DemonstrationError: There is something already, what is there is of another environment, or the folder cannot
            be made.
        MissingDependencyError: Minari is not installed.
    """

    def __init__(
        self,
        folder: Path,
        env: gymnasium.Env[Any, Any],
        options: Mapping[str, Any],
        player: str,
        *,
        defaults: Mapping[str, Any] | None = None,
        is_continued: bool = False,
    ) -> None:
        require_minari()
        if env.spec is None:
            raise DemonstrationError(folder, "can only hold episodes of a registered environment (gymnasium.make)")
        self._folder = folder
        self._copy = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
        self._is_damaged = False
        self._n_unpublished = 0
        is_continued = is_continued and folder.exists()
        if is_continued:
            describe(folder).check_env(env.spec.id, options)
        elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise DemonstrationError(
                folder, "is there already; name another folder, remove it, or add to it with --append"
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(self._copy, ignore_errors=True)
            self._copy.mkdir()
            self._storage = self._continue() if is_continued else self._begin(env, options, player, defaults or {})
        except OSError as error:
            shutil.rmtree(self._copy, ignore_errors=True)
            raise DemonstrationError(
                folder, f"cannot be made: {error.strerror or error}; choose another folder"
            ) from error
        if not is_continued:
            self.publish()

    def add(self, episode: Episode) -> None:
        """Write one episode; it is safe after :meth:`publish`, or when the context is left.

        Raises:
            DemonstrationError: It cannot be written; what was published before is untouched.
        """
        from minari.data_collector import EpisodeBuffer  # noqa: PLC0415  (learn works without Minari)

        n_steps = len(episode.actions)
        at_end = np.arange(1, n_steps + 1) == n_steps
        infos: dict[str, Any] = {"n_decisions": np.concatenate(([0], episode.n_decisions))}
        if episode.masks is not None:
            infos["action_mask"] = episode.masks
        buffer = EpisodeBuffer(
            seed=episode.seed,
            observations=episode.observations,
            actions=episode.actions,
            rewards=episode.rewards,
            terminations=at_end & episode.is_terminated,
            truncations=at_end & (not episode.is_terminated),
            infos=infos,
        )
        told = {"total_reward": float(episode.rewards.sum())}
        told |= {} if episode.is_won is None else {"is_won": bool(episode.is_won)}
        number = self._storage.total_episodes
        try:
            self._storage.update_episodes([buffer])
            self._storage.update_episode_metadata([told], [number])
            self._read_back(number, episode)
        except _FAILURES as error:
            self._is_damaged = True
            raise self._unwritable(error, number) from error
        self._n_unpublished += 1

    def publish(self) -> None:
        """Put everything added so far into the data set.

        Raises:
            DemonstrationError: The disk is full, or the folder cannot be written; what was published before is
                untouched.
        """
        # The data first: what it holds beyond what the description says is passed over.
        for name in (DATA_NAME, METADATA_NAME):
            temporary = self._folder / f".{name}.tmp"
            try:
                shutil.copyfile(self._copy / name, temporary)
                with temporary.open("rb") as file:
                    os.fsync(file.fileno())
                temporary.replace(self._folder / name)
            except OSError as error:
                temporary.unlink(missing_ok=True)
                raise self._unwritable(error) from error
        self._n_unpublished = 0

    def __enter__(self) -> DemonstrationWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._n_unpublished and not self._is_damaged:
                self.publish()
        finally:
            shutil.rmtree(self._copy, ignore_errors=True)

    def _begin(
        self, env: gymnasium.Env[Any, Any], options: Mapping[str, Any], player: str, defaults: Mapping[str, Any]
    ) -> Any:
        """Make the data set."""
        import minari  # noqa: PLC0415  (learn works without Minari)
        from minari.dataset.minari_storage import MinariStorage  # noqa: PLC0415  (as above)

        origin = Origin(soulslab=VERSION, commit=git_commit(), defaults=plain_options(defaults))
        # Minari's JPEGs would show the learner other pictures than it will see.
        storage = MinariStorage.new(
            self._copy,
            observation_space=env.observation_space,
            action_space=env.action_space,
            env_spec=_spec_of(env, options),
            jpeg_encoding=False,
        )
        storage.update_metadata(
            {
                "dataset_id": f"soulslab/{re.sub(r'[^-_0-9A-Za-z]', '-', self._folder.name) or 'fights'}-v0",
                "minari_version": minari.__version__,
                "algorithm_name": player,
                "soulslab": msgspec.to_builtins(origin),
            }
        )
        return storage

    def _continue(self) -> Any:
        """Open a copy of the data set that is there."""
        from minari.dataset.minari_storage import MinariStorage  # noqa: PLC0415  (learn works without Minari)

        for name in (DATA_NAME, METADATA_NAME):
            shutil.copyfile(self._folder / name, self._copy / name)
        return MinariStorage.read(self._copy)

    def _read_back(self, number: int, episode: Episode) -> None:
        """Check that the file holds an episode and all before it: h5py passes over errors when it closes a file."""
        (written,) = self._storage.get_episodes([number])
        if not np.array_equal(written["rewards"], episode.rewards, equal_nan=True):
            raise RuntimeError("the file does not hold what was written")
        for before in self._storage.get_episode_metadata(range(number)):
            if "total_steps" not in before:
                raise RuntimeError("the file no longer holds what was written before")

    def _unwritable(self, error: BaseException, episode: int | None = None) -> DemonstrationError:
        said = getattr(error, "strerror", None) or str(error).partition("(")[0].strip()
        return DemonstrationError(
            self._folder,
            f"cannot be written: {said}; free some space and record the rest with --append",
            episode=episode,
        )


def _spec_of(env: gymnasium.Env[Any, Any], options: Mapping[str, Any]) -> Any:
    """Return how the environment is made, as JSON can hold it."""
    spec = copy.deepcopy(gymnasium.spec(env.spec.id if env.spec else ""))  # the registered one is everybody's
    for name in ("entry_point", "vector_entry_point"):
        creator = getattr(spec, name)
        if callable(creator):
            setattr(spec, name, f"{creator.__module__}:{creator.__qualname__}")
    spec.kwargs = plain_options(options)
    return spec
