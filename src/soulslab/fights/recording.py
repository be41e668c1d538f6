"""Recorder that adds fights of an environment to a data set, and the reference player as its source."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from itertools import count, islice
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import gymnasium
import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.arena.boss_file import load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.arena.reference_player import ReferencePlayer
from soulslab.arena.simulator import FightOptions, Simulator
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
"""Exclusive upper bound of the seeds of fights."""


class FightRecorder(AbstractContextManager["FightRecorder"]):
    """Records fights of one environment into one data set; as a context it keeps the recorded fights after an error.

    The data set of ``writer`` also has the fights of earlier recordings. ``n_wins`` is 0 if the environment does not
    report wins; ``n_steps`` counts recorded environment steps. Raises the errors of `DemonstrationWriter`, and
    `EnvironmentUsageError` if an option is wrong.
    """

    def __init__(
        self, folder: Path, env_id: str, options: Mapping[str, Any], player: str, *, is_continued: bool = False
    ) -> None:
        try:
            self._env = gymnasium.make(env_id, **options)
        except TypeError as error:
            if "argument" not in str(error):  # a bug in the environment, not a wrong option
                raise
            raise EnvironmentUsageError(f"{env_id}: cannot be made with these options: {error}") from error
        self._env_id = env_id
        self._options = options
        defaults = msgspec.structs.asdict(ArenaOptions()) if env_id == ARENA_ID else {}
        try:
            self.writer = DemonstrationWriter(
                folder, self._env, options, player, defaults=defaults, is_continued=is_continued
            )
        except BaseException:
            self._env.close()
            raise
        self._folder = folder
        self.n_fights = self.n_wins = self.n_steps = 0

    def record_actions(self, actions: NDArray[np.int64], seed: int) -> Episode:
        """Replay the action of each decision, int64 (decisions,), of a fight in the arena, and record it.

        Raises `DemonstrationError` if the replay has another length, or cannot be written.
        """
        episode = play_episode(self._env, lambda _, __, n: int(actions[min(n, len(actions) - 1)]), seed)
        n_decisions = int(episode.n_decisions.sum())
        if n_decisions != len(actions):
            raise DemonstrationError(
                self._folder,
                f"the fight with seed {seed} took {len(actions)} decisions, but {n_decisions} in the replay; boss, "
                "phase and start pose must be the same in both",
            )
        self.add(episode)
        return episode

    def play(self, player: Player, seed: int) -> Episode:
        """Play and record a fight of a trained policy.

        Raises `IncompatibleCheckpointError` if the policy cannot play this environment, and the errors of `add`.
        """
        alike = self._env.metadata.get("policies_of", ())
        player.header.check_env(self._env_id, sizes_of_one(self._env), alike=alike)
        hands = PolicyActor(player, self._env.observation_space, self._env_id)
        episode = play_episode(self._env, hands, seed)
        self.add(episode)
        return episode

    def add(self, episode: Episode) -> None:
        """Record an episode of the same environment that was played elsewhere.

        Raises `DemonstrationError` if the episode is already recorded, or cannot be written.
        """
        self.writer.add(episode)
        self.n_fights += 1
        self.n_wins += bool(episode.is_won)
        self.n_steps += len(episode.actions)

    def arena_options(self) -> ArenaOptions:
        """Return the options of the arena, for players that only support it.

        Raises `EnvironmentUsageError` if the environment is not the arena.
        """
        if self._env_id != ARENA_ID:
            raise EnvironmentUsageError(
                f"the reference player and people can only fight in {ARENA_ID}; record a policy in {self._env_id}"
            )
        return make_options(dict(self._options))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with closing(self._env):
            self.writer.__exit__(kind, error, trace)


class _EnvTable(msgspec.Struct, frozen=True):
    """The ``env`` table of a config; recording does not use the other tables."""

    env: EnvSettings = EnvSettings()


def env_settings(config: Path | None, overrides: Sequence[str] = ()) -> EnvSettings:
    """Return the environment settings of a config of any learner, with changes (``env.options.skip_locked=true``).

    Raises `ConfigError` if the file cannot be read, or its ``env`` table is wrong.
    """
    return load_settings(_EnvTable, config, overrides).env


def fight_seeds(seed: int, n_fights: int, recorded: Collection[int] = ()) -> list[int]:
    """Return the seeds of fights to record, far from those of training and evaluation.

    ``seed`` determines the first one, and each further seed is larger by 1. Seeds that are already recorded are left
    out.
    """
    first = environment_seed(seed, RECORDING)
    fresh = (each for i in count() if (each := (first + i) % SEEDS) not in recorded)
    return list(islice(fresh, n_fights))


def record_fight(recorder: FightRecorder, seed: int) -> Episode:
    """Play one fight with the reference player, and record it; raises the errors of `FightRecorder`."""
    return recorder.record_actions(reference_actions(recorder.arena_options(), seed), seed)


def reference_actions(options: ArenaOptions, seed: int) -> NDArray[np.int64]:
    """Play one fight with the reference player, and return the action of each decision, int64 (decisions,).

    The player observes the boss in every decision, also while it cannot act, so no decision is skipped. Raises
    `BossFileError` if a boss file is malformed.
    """
    boss = load_boss(options.boss, list(load_knight().knock_backs))
    rules = FightOptions(
        phase=str(options.phase), random_pose=options.random_pose, features=False, states=True, autoreset="disabled"
    )
    simulator = Simulator(boss, 1, rules)
    all_envs = np.ones(1, np.bool_)
    simulator.seed(np.array([seed], np.uint64), all_envs)
    simulator.reset(all_envs)
    player = ReferencePlayer(boss, 1)
    player.begin(simulator.states, all_envs)
    actions: list[int] = []
    while not simulator.duels["over"][0]:
        action = player.act(simulator.states, simulator.masks)
        actions.append(int(action[0]))
        simulator.step(action)
    return np.array(actions, np.int64)
