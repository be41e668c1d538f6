"""A data set that fights are recorded into, and the environment that they are recorded in."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from itertools import count, islice
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import gymnasium
import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.config import load_settings
from soulslab.envs.duels import ArenaOptions, make_options
from soulslab.envs.registration import ARENA_ID
from soulslab.errors import DemonstrationError, EnvironmentUsageError
from soulslab.learn.demonstrations.recorded_episode import RECORDING, Episode, PolicyActor, play_episode
from soulslab.learn.demonstrations.writing import DemonstrationWriter
from soulslab.learn.environment import environment_seed, sizes_of_one
from soulslab.learn.policy_header import Player
from soulslab.learn.settings import EnvSettings

SEEDS: Final = 2**31
"""Seeds of fights are below this."""


class FightRecorder:
    """Records fights of one environment into one data set; a context that keeps what was recorded however it ends.

    Args:
        folder: Of the data set.
        env_id: Gymnasium id of the environment that will be trained on.
        options: Its keyword arguments.
        player: Who fights, in a word.
        is_continued: Whether fights are added to a data set that is there.

    Attributes:
        n_fights: Fights recorded.
        n_wins: How many of them were won; 0 where nobody can tell.
        n_steps: Environment steps recorded.

    Raises:
        DemonstrationError: See `DemonstrationWriter`.
        EnvironmentUsageError: An option is wrong.
    """

    def __init__(
        self, folder: Path, env_id: str, options: Mapping[str, Any], player: str, *, is_continued: bool = False
    ) -> None:
        try:
            self._env = gymnasium.make(env_id, **options)
        except TypeError as error:
            if "argument" not in str(error):  # no matter of options: a mistake in the environment's own code
                raise
            raise EnvironmentUsageError(f"{env_id}: cannot be made with these options: {error}") from error
        self._env_id = env_id
        self._options = options
        defaults = msgspec.structs.asdict(ArenaOptions()) if env_id == ARENA_ID else {}
        try:
            self._writer = DemonstrationWriter(
                folder, self._env, options, player, defaults=defaults, is_continued=is_continued
            )
        except BaseException:
            self._env.close()
            raise
        self._folder = folder
        self.n_fights = self.n_wins = self.n_steps = 0

    def fight_again(self, actions: NDArray[np.int64], seed: int) -> Episode:
        """Record a fight of the arena that was fought elsewhere.

        Args:
            actions: What was done in each decision, int64 (decisions,).
            seed: Of the fight.

        Raises:
            DemonstrationError: The fight comes to another end than it came to there, or cannot be written.
        """
        episode = play_episode(self._env, lambda _, __, n: int(actions[min(n, len(actions) - 1)]), seed)
        if int(episode.n_decisions.sum()) != len(actions):
            raise DemonstrationError(
                self._folder,
                f"the fight with seed {seed} took {len(actions)} decisions, and {int(episode.n_decisions.sum())} when "
                "it was fought again; boss, phase and start pose must be the same here and there",
            )
        self.add(episode)
        return episode

    def play(self, player: Player, seed: int) -> Episode:
        """Record a fight of a trained policy.

        Args:
            player: Who fights.
            seed: Of the fight.

        Raises:
            IncompatibleCheckpointError: The policy cannot play this environment.
            DemonstrationError: It cannot be written.
        """
        alike = self._env.metadata.get("policies_of", ())
        player.header.check_env(self._env_id, sizes_of_one(self._env), alike=alike)
        hands = PolicyActor(player, self._env.observation_space, self._env_id)
        episode = play_episode(self._env, hands, seed)
        self.add(episode)
        return episode

    def add(self, episode: Episode) -> None:
        """Record an episode that was played elsewhere, in the same environment.

        Raises:
            DemonstrationError: It is recorded already, or cannot be written.
        """
        self._writer.add(episode)
        self.n_fights += 1
        self.n_wins += bool(episode.is_won)
        self.n_steps += len(episode.actions)

    @property
    def seeds(self) -> frozenset[int]:
        """Seeds of the fights in the data set, those recorded before included."""
        return self._writer.seeds

    def is_recorded(self, episode: Episode) -> bool:
        """Return whether the data set holds a fight with the same seed, actions and rewards.

        Args:
            episode: The fight.
        """
        return self._writer.is_recorded(episode)

    def arena_options(self) -> ArenaOptions:
        """Return the options of the arena, for those who fight nowhere else.

        Raises:
            EnvironmentUsageError: It is another environment.
        """
        if self._env_id != ARENA_ID:
            raise EnvironmentUsageError(
                f"only {ARENA_ID} can be fought by the reference player or by hand, not {self._env_id}; record a "
                "policy there"
            )
        return make_options(dict(self._options))

    def publish(self) -> None:
        """Make sure that no crash takes what was recorded so far.

        Raises:
            DemonstrationError: The data set cannot be written; what it held before is untouched.
        """
        self._writer.publish()

    def __enter__(self) -> FightRecorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with closing(self._env):
            self._writer.__exit__(kind, error, trace)


class _EnvTable(msgspec.Struct, frozen=True):
    """The one table of a config that a recording needs, whatever learner the others are for."""

    env: EnvSettings = EnvSettings()


def env_settings(config: Path | None, overrides: Sequence[str] = ()) -> EnvSettings:
    """Return what a config trains on.

    Args:
        config: TOML file of any learner; None for defaults.
        overrides: Changes of it, as ``env.options.skip_locked=true``.

    Raises:
        ConfigError: The file cannot be read, or its table ``env`` is wrong.
    """
    return load_settings(_EnvTable, config, overrides).env


def fight_seeds(seed: int, n_fights: int, recorded: Collection[int] = ()) -> list[int]:
    """Return the seeds of fights to record, far from those of training and evaluation.

    Args:
        seed: Seed of the recording; it determines the first seed, and each further seed is larger by 1.
        n_fights: Number of seeds.
        recorded: Seeds of the fights in the data set, which are left out.
    """
    first = environment_seed(seed, RECORDING)
    fresh = (each for i in count() if (each := (first + i) % SEEDS) not in recorded)
    return list(islice(fresh, n_fights))
