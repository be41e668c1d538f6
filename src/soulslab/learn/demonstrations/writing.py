"""Writing recorded episodes as a Minari data set that stays intact after a crash.

An HDF5 file may be damaged by a crash or a full disk during a change, and the fights of a person cannot be repeated.
Minari therefore writes to a copy, which replaces the data set when it is complete.
"""

from __future__ import annotations

import copy
import errno
import os
import re
import shutil
import time
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Any, Final

import gymnasium
import msgspec
import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper

from soulslab.config.atomic_file import rename_file
from soulslab.errors import DemonstrationError, optional_imports
from soulslab.learn.archive import git_commit
from soulslab.learn.demonstrations.data_set_metadata import (
    DATA_NAME,
    METADATA_NAME,
    Origin,
    describe,
    plain_options,
)
from soulslab.learn.demonstrations.reading import RecordedOutcome, read_outcomes
from soulslab.learn.demonstrations.recorded_episode import Episode, EpisodeCollector
from soulslab.learn.environment import decisions_taken
from soulslab.learn.process_lock import ProcessLock, is_held
from soulslab.version import VERSION

_FAILURES: Final = (OSError, RuntimeError, ValueError, KeyError)
"""Errors that h5py raises when it cannot write."""

_FULL: Final = tuple(os.strerror(number).lower() for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
"""Messages of the operating system for a full disk, an exceeded quota and a file that is too large."""

_LOCK_NAME: Final = ".lock"

PUBLISH_EVERY_S: Final = 60.0
"""Time between two publications of the episodes of a vector environment (s)."""

_MAX_PENDING: Final = 8
"""Episodes that may wait to be written; a simulator that is faster waits."""


class DemonstrationWriter:
    """Writes episodes to a data set; as a context manager it publishes the added episodes on exit.

    The options of the environment and their default values are stored with its id and spaces. ``is_continued`` adds
    episodes to an existing data set; otherwise the folder must not exist. Raises DemonstrationError if the folder
    exists, its data set belongs to another environment, or another process records into it.
    """

    def __init__(
        self,
        folder: Path,
        env: gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any],
        options: Mapping[str, Any],
        player: str,
        *,
        defaults: Mapping[str, Any] | None = None,
        is_continued: bool = False,
    ) -> None:
        with optional_imports():  # learn works without Minari
            import h5py  # noqa: F401, PLC0415
            import minari  # noqa: F401, PLC0415
        if env.spec is None:
            raise DemonstrationError(folder, "can only hold episodes of a registered environment (gymnasium.make)")
        self._folder = folder = folder.resolve()  # Minari 0.5.4 joins a relative folder to itself
        self._copy = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
        self._is_damaged = False
        self._n_unpublished = self._n_published = 0
        # Numbers of the episodes with their returns, None if unknown, by seed and number of steps.
        self._recorded: dict[tuple[int | None, int], list[tuple[int, float | None]]] = {}
        is_continued = is_continued and folder.exists()
        earlier: list[RecordedOutcome] = []
        if is_continued:
            description = describe(folder)
            description.check_env(env.spec.id, options)
            # Read in a process of its own first: HDF5 may hang or crash when it opens a damaged file.
            earlier = read_outcomes(description)
        elif folder.exists() and not _is_unused(folder):
            problem = "already exists; name another folder, or remove it; soulslab fights record --append adds to it"
            raise DemonstrationError(folder, problem)
        for path in folder.parent.glob(f".{escape(folder.name)}.*.partial"):
            if is_held(path / _LOCK_NAME):
                problem = "another process records into this data set; end it first, or name another folder"
                raise DemonstrationError(folder, problem)
            shutil.rmtree(path)  # the copy of a killed process
        self._is_new = not is_continued
        # The folders that are made for the data set, which are removed if nothing is recorded.
        self._made = [path for path in (folder, *folder.parents) if not path.exists()]
        self._lock: ProcessLock | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._copy.mkdir()
            self._lock = ProcessLock(self._copy / _LOCK_NAME, "another recording")
            self._storage = self._continue() if is_continued else self._begin(env, options, player, defaults or {})
            for number, outcome in enumerate(earlier):
                seed = outcome.get("seed")
                kind = seed if isinstance(seed, int) else None, outcome.get("total_steps", 0)
                self._recorded.setdefault(kind, []).append((number, outcome.get("total_reward")))
            if not is_continued:
                self.publish()
        except BaseException as error:
            self._clean_up(is_failed=True)
            if isinstance(error, _FAILURES):
                problem = f"cannot be made: {_reason(error)}; choose another folder"
                raise DemonstrationError(folder, problem) from error
            raise

    @property
    def seeds(self) -> frozenset[int]:
        """Seeds of the episodes in the data set."""
        return frozenset(seed for seed, _ in self._recorded if seed is not None)

    def is_recorded(self, episode: Episode) -> bool:
        """Return whether the data set holds an episode with the same seed, actions and rewards."""
        return self._find(episode) is not None

    def add(self, episode: Episode) -> None:
        """Write an episode that is not recorded yet; :meth:`publish` makes it part of the data set."""
        same = self._find(episode)
        if same is not None:
            problem = f"already holds this fight (seed {episode.seed}); it is not added again"
            raise DemonstrationError(self._folder, problem, episode=same)
        from minari.data_collector import EpisodeBuffer  # noqa: PLC0415  (learn works without Minari)

        n_steps = len(episode.actions)
        at_end = np.arange(1, n_steps + 1) == n_steps
        infos: dict[str, Any] = {"n_decisions": np.concatenate(([0], episode.n_decisions))}
        if episode.masks is not None:
            infos["action_mask"] = episode.masks
        if (states := episode.duel_states) is not None:
            infos["duel"] = {name: states[name] for name in states.dtype.names or ()}
        buffer = EpisodeBuffer(
            seed=episode.seed,
            observations=episode.observations,
            actions=episode.actions,
            rewards=episode.rewards,
            terminations=at_end & episode.is_terminated,
            truncations=at_end & (not episode.is_terminated),
            infos=infos,
        )
        result: dict[str, float | str] = {"total_reward": float(episode.rewards.sum())}
        if episode.is_won is not None:
            result["is_won"] = bool(episode.is_won)
        if episode.killed_by:
            result["killed_by"] = episode.killed_by
        number = self._storage.total_episodes
        try:
            self._storage.update_episodes([buffer])
            self._storage.update_episode_metadata([result], [number])
            self._read_back(number, episode)
        except _FAILURES as error:
            self._is_damaged = True
            raise self._unwritable(error, number) from error
        self._n_unpublished += 1
        self._recorded.setdefault((episode.seed, n_steps), []).append((number, float(episode.rewards.sum())))

    def publish(self) -> None:
        """Replace the data set by the copy with all added episodes; after an error it is unchanged."""
        if self._n_unpublished:
            self._check_all()
        # The data come first: data that the metadata do not describe are ignored.
        for name in (DATA_NAME, METADATA_NAME):
            temporary = self._folder / f".{name}.tmp"
            try:
                shutil.copyfile(self._copy / name, temporary)
                with temporary.open("r+b") as file:  # Windows synchronizes only writable files
                    os.fsync(file.fileno())
                rename_file(temporary, self._folder / name)
            except OSError as error:
                temporary.unlink(missing_ok=True)
                raise self._unwritable(error) from error
        self._n_published += self._n_unpublished
        self._n_unpublished = 0

    def __enter__(self) -> DemonstrationWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if self._n_unpublished and not self._is_damaged:
                self.publish()
        finally:
            self._clean_up(is_failed=kind is not None or self._is_damaged)

    def _clean_up(self, *, is_failed: bool) -> None:
        """Remove the copy, and after a failure also a new data set without any episode."""
        if self._lock is not None:
            self._lock.release()
        shutil.rmtree(self._copy, ignore_errors=True)
        if not (is_failed and self._is_new) or self._n_published:
            return
        with suppress(OSError):  # nothing was made, or the folder holds other files and is kept
            for name in (DATA_NAME, METADATA_NAME):
                (self._folder / name).unlink(missing_ok=True)
            for made in self._made:
                made.rmdir()

    def _find(self, episode: Episode) -> int | None:
        """Return the index of the recorded episode with the same seed, actions and rewards; None if there is none."""
        for number, total_reward in self._recorded.get((episode.seed, len(episode.actions)), []):
            if total_reward not in (None, float(episode.rewards.sum())):
                continue  # reading an episode takes milliseconds
            (stored,) = self._storage.get_episodes([number])
            if all(np.array_equal(stored[name], getattr(episode, name)) for name in ("actions", "rewards")):
                return number
        return None

    def _begin(
        self,
        env: gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any],
        options: Mapping[str, Any],
        player: str,
        defaults: Mapping[str, Any],
    ) -> Any:
        import minari  # noqa: PLC0415  (learn works without Minari)
        from minari.dataset.minari_storage import MinariStorage  # noqa: PLC0415  (as above)

        origin = Origin(soulslab=VERSION, commit=git_commit(), defaults=plain_options(defaults))
        # JPEG would change the pixels, so that the learner would train on other pixels than it sees later.
        storage = MinariStorage.new(
            self._copy,
            observation_space=env.single_observation_space if isinstance(env, VectorEnv) else env.observation_space,
            action_space=env.single_action_space if isinstance(env, VectorEnv) else env.action_space,
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
        from minari.dataset.minari_storage import MinariStorage  # noqa: PLC0415  (learn works without Minari)

        for name in (DATA_NAME, METADATA_NAME):
            shutil.copyfile(self._folder / name, self._copy / name)
        return MinariStorage.read(self._copy)

    def _read_back(self, number: int, episode: Episode) -> None:
        """Check that the file holds an episode; h5py ignores errors when it closes a file."""
        (written,) = self._storage.get_episodes([number])
        if not np.array_equal(written["rewards"], episode.rewards, equal_nan=True):
            raise RuntimeError("the file does not hold the written episode")

    def _check_all(self) -> None:
        """Check that the file still holds all episodes, which takes half a millisecond for each."""
        numbers = range(self._storage.total_episodes)
        try:
            if any("total_steps" not in each for each in self._storage.get_episode_metadata(numbers)):
                raise RuntimeError("the file no longer holds all episodes")
        except _FAILURES as error:
            self._is_damaged = True
            raise self._unwritable(error) from error

    def _unwritable(self, error: BaseException, episode: int | None = None) -> DemonstrationError:
        reason = _reason(error)
        advice = ["free some space"] if reason.lower() in _FULL else []
        if self._n_published or not self._is_new:
            advice.append("record the rest with --append")
        problem = f"cannot be written: {reason}{'; ' if advice else ''}{' and '.join(advice)}"
        return DemonstrationError(self._folder, problem, episode=episode)


class RecordedVector(VectorWrapper):
    """Records the complete episodes of a vector environment (`record_vector`)."""

    def __init__(self, env: VectorEnv[Any, Any, Any], writer: DemonstrationWriter, thread: ThreadPoolExecutor) -> None:
        super().__init__(env)
        self._writer = writer
        self._thread = thread
        self._pending: deque[Future[None]] = deque()
        self._publish_at = time.monotonic() + PUBLISH_EVERY_S
        self._collector: EpisodeCollector | None = None

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environments, and begin new episodes; incomplete ones are not recorded."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._collector = EpisodeCollector(self.env, seed, observation, info)
        return observation, info

    def step(self, actions: Any) -> Any:
        """Step the environments, and record the episodes that end; raises DemonstrationError for an earlier one."""
        step = self.env.step(actions)
        if self._collector is not None:
            ended = self._collector.follow(actions, step, decisions_taken(step[-1], self.num_envs))
            for episode in ended.values():
                self._pending.append(self._thread.submit(self._write, episode))
            self.raise_errors(_MAX_PENDING)
        return step

    def raise_errors(self, n_pending: int = 0) -> None:
        """Wait until at most some episodes are not written; raises DemonstrationError if one cannot be written."""
        while self._pending and (self._pending[0].done() or len(self._pending) > n_pending):
            self._pending.popleft().result()

    def _write(self, episode: Episode) -> None:
        if self._writer.is_recorded(episode):
            return  # an environment without chance repeats itself
        self._writer.add(episode)
        if time.monotonic() >= self._publish_at:
            self._writer.publish()
            self._publish_at = time.monotonic() + PUBLISH_EVERY_S


@contextmanager
def record_vector(env: VectorEnv[Any, Any, Any], writer: DemonstrationWriter) -> Iterator[RecordedVector]:
    """Record the episodes of a vector environment with same-step autoreset, with the rewards of the environment.

    A thread writes them, so that a game in real time need not wait. The data set is at most `PUBLISH_EVERY_S` behind,
    because each publication copies it, and complete at the end. Raises DemonstrationError if it cannot be written.
    """
    with writer, ThreadPoolExecutor(1, "soulslab-recording") as thread:
        recorded = RecordedVector(env, writer, thread)
        yield recorded
        recorded.raise_errors()


def _is_unused(folder: Path) -> bool:
    """Return whether a folder is empty, or holds a data set without episodes, which a killed process left."""
    if not folder.is_dir():
        return False
    names = {path.name for path in folder.iterdir()}
    if METADATA_NAME not in names:
        return not names
    return names <= {DATA_NAME, METADATA_NAME} and describe(folder).n_episodes == 0


def _reason(error: BaseException) -> str:
    """Return the reason of an error, with the message of the operating system if h5py quotes it."""
    quoted = re.search(r"error message = '([^']+)'", str(error))
    return quoted[1] if quoted else getattr(error, "strerror", None) or str(error) or type(error).__name__


def _spec_of(env: gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any], options: Mapping[str, Any]) -> Any:
    """Return the specification of an environment as JSON-compatible values."""
    spec = copy.deepcopy(gymnasium.spec(env.spec.id if env.spec else ""))  # do not change the registered one
    for name in ("entry_point", "vector_entry_point"):
        creator = getattr(spec, name)
        if callable(creator):
            setattr(spec, name, f"{creator.__module__}:{creator.__qualname__}")
    spec.kwargs = plain_options(options)
    return spec
