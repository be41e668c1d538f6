"""Writing recorded episodes as a Minari data set, episode by episode: what is written stays, whatever comes after."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import msgspec
import numpy as np

from soulslab.errors import DemonstrationError
from soulslab.learn.demonstrations.data_set import Origin, describe, plain_options, require_minari
from soulslab.learn.demonstrations.episode import Episode
from soulslab.learn.provenance import git_commit
from soulslab.version import VERSION


class DemonstrationWriter:
    """A data set that is written to; after each episode it is whole.

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
        self._folder = folder
        if env.spec is None:
            raise DemonstrationError(folder, "can only hold episodes of a registered environment (gymnasium.make)")
        if is_continued and folder.exists():
            self._storage = self._continue(env, options)
        else:
            self._storage = self._begin(env, options, player, plain_options(defaults or {}))

    def add(self, episode: Episode) -> None:
        """Write one episode.

        Raises:
            DemonstrationError: The disk is full, or the file cannot be written.
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
        number = self._storage.total_episodes
        told = {"total_reward": float(episode.rewards.sum())}
        told |= {} if episode.is_won is None else {"is_won": bool(episode.is_won)}
        try:
            self._storage.update_episodes([buffer])
            self._storage.update_episode_metadata([told], [number])
        except OSError as error:
            raise DemonstrationError(
                self._folder,
                f"cannot be written: {error.strerror or error}; free some space and record anew",
                episode=number,
            ) from error

    def _begin(self, env: gymnasium.Env[Any, Any], options: Mapping[str, Any], player: str, defaults: Any) -> Any:
        """Make the data set."""
        import minari  # noqa: PLC0415  (learn works without Minari)
        from minari.dataset.minari_storage import MinariStorage  # noqa: PLC0415  (as above)

        if self._folder.exists() and (not self._folder.is_dir() or any(self._folder.iterdir())):
            raise DemonstrationError(
                self._folder, "is there already; name another folder, remove it, or add to it with --append"
            )
        spec = gymnasium.spec(env.spec.id if env.spec else "")
        spec = type(spec).from_json(spec.to_json())  # a copy: the registered one is everybody's
        spec.kwargs = plain_options(options)
        origin = Origin(soulslab=VERSION, commit=git_commit(), defaults=defaults)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            # Minari's JPEGs would show the learner other pictures than it will see.
            storage = MinariStorage.new(
                self._folder,
                observation_space=env.observation_space,
                action_space=env.action_space,
                env_spec=spec,
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
        except OSError as error:
            raise DemonstrationError(
                self._folder, f"cannot be made: {error.strerror or error}; choose another folder"
            ) from error
        return storage

    def _continue(self, env: gymnasium.Env[Any, Any], options: Mapping[str, Any]) -> Any:
        """Open the data set that is there."""
        from minari.dataset.minari_storage import MinariStorage  # noqa: PLC0415  (learn works without Minari)

        description = describe(self._folder)
        description.check_env(env.spec.id if env.spec else "", options)
        return MinariStorage.read(description.folder)
