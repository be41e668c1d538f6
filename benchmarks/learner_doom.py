"""``python -m benchmarks learner-doom``: the config of the arena's boss, unchanged, on another game."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from benchmarks.doom import doom_episodes, player_row
from benchmarks.player_comparison import play_episodes, random_player, train_with_curve
from benchmarks.result import Result
from soulslab.learn.inputs import Inputs
from soulslab.learn.rainbow.q_policy import QPolicy
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
from soulslab.learn.settings import EnvSettings

N_GAMES: Final = 4
"""Parallel games in the evaluation of the players; training has one."""

EPSILON: Final = 0.02
"""Share of random actions in the evaluation of the agent. Doom has no seed, so a deterministic player would repeat the
same episode."""


class LearnerDoomSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        config: Our config.
        env: Doom, with its options and its reward.
        n_episodes: Episodes of each player.
        seed: Seed of the run and of random actions.
        decisions: Game decisions of the run; None uses the config's.
        limit_s: Maximum training time (s).
        picture: PNG file for the learning curve.
    """

    config: RainbowSettings
    env: EnvSettings
    n_episodes: int = 40
    seed: int = 0
    decisions: int | None = None
    limit_s: float = 3600.0
    picture: Path = Path("bench-results") / "learner_doom_curve.png"

    def quick(self) -> LearnerDoomSettings:
        """Return settings for a short run, in which little is learned."""
        return replace(self, n_episodes=4, decisions=2500)

    def train(self) -> RainbowSettings:
        """Return the config for Doom; only environment and length differ.

        Soft bins depend on an environment, because they contain names of its features; Doom has none.
        """
        run = replace(
            self.config.run,
            seed=self.seed,
            total_steps=self.decisions or self.config.run.total_steps,
            max_seconds=self.limit_s,
            evaluate_every=0,  # Doom has no wins
        )
        network = replace(self.config.network, bins=())
        return replace(self.config, env=replace(self.env, n_envs=1), network=network, run=run)


def measure_learner_doom(settings: LearnerDoomSettings) -> list[Result]:
    """Train on Doom, draw the curve, and evaluate the agent and a random player.

    Raises:
        SiphonError: Doom, its game data or Xvfb is not installed.
    """
    train = settings.train()
    rng = np.random.default_rng(settings.seed)
    env = replace(train.env, n_envs=N_GAMES)
    episodes = doom_episodes(env, settings.n_episodes, settings.seed, train.inputs)
    act_randomly = random_player(rng)
    random = play_episodes(episodes, act_randomly)
    result, policy = train_with_curve(
        train,
        QPolicy.load,
        settings.picture,
        f"Rainbow on {env.id}, map {env.options.get('map', 1)}",
        float(random["return"].mean()),
    )

    def act_mostly_greedily(seen: Inputs, masks: NDArray[np.bool_]) -> NDArray[np.int64]:
        is_random = rng.random(len(masks)) < EPSILON
        actions: NDArray[np.int64] = np.where(is_random, act_randomly(seen, masks), policy.act(seen, masks))
        return actions

    trained = play_episodes(episodes, act_mostly_greedily)
    rows = [
        player_row("keys at random", random, 0, 0.0),
        player_row("Rainbow", trained, result.env_steps, result.train_seconds),
    ]
    return [Result(title="Doom from its state, one game in training (95 % interval of the mean)", rows=rows)]
