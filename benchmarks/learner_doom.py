"""``python -m benchmarks learner-doom``: the config of the arena's boss, unchanged, on another game."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from benchmarks.doom import Games, play_games, player_row
from benchmarks.result import Result
from soulslab.learn.curve import draw_curve
from soulslab.learn.inputs import Inputs
from soulslab.learn.rainbow.q_policy import QPolicy
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
from soulslab.learn.settings import EnvSettings
from soulslab.learn.sinks import PROGRESS_NAME, run_sinks
from soulslab.learn.train import train as run_training

N_GAMES: Final = 4
"""Games side by side when players are compared; training has one."""

EPSILON: Final = 0.02
"""Share of random actions when the agent is compared. Doom has no seed, so a player without any plays the same episode
again and again."""


class LearnerDoomSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        config: Our config.
        env: Doom, with its options and its reward.
        n_episodes: Episodes of each player.
        seed: Seed of the run and of random actions.
        decisions: Game decisions of the run; None leaves it to the config.
        limit_s: Training time (s), at most.
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
        return replace(self, n_episodes=4, limit_s=20.0)

    def train(self) -> RainbowSettings:
        """Return the config for Doom; only environment and length differ.

        Soft bins belong to an environment, whose features they name; Doom has none.
        """
        run = replace(
            self.config.run,
            seed=self.seed,
            total_steps=self.decisions or self.config.run.total_steps,
            max_seconds=self.limit_s,
            evaluate_every=0,  # there is no win on Doom
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
    n_games = min(N_GAMES, settings.n_episodes)
    games = Games(
        options=train.env.options,
        n_games=n_games,
        n_episodes=settings.n_episodes,
        seed=settings.seed,
        extras=train.inputs,
    )
    random = play_games(games, lambda _, masks: _at_random(masks, rng))
    with TemporaryDirectory(prefix="soulslab-bench-") as folder:
        result = run_training(train, Path(folder), sinks=run_sinks(Path(folder)))
        settings.picture.parent.mkdir(parents=True, exist_ok=True)
        title = f"Rainbow on {train.env.id}, map {train.env.options.get('map', 1)}"
        baseline = float(random["return"].mean())
        draw_curve(Path(folder) / PROGRESS_NAME, settings.picture, title, baseline=baseline, of_returns=True)
        policy = QPolicy.load(result.policy_path)
    trained = play_games(games, lambda seen, masks: _mostly_greedy(policy, seen, masks, rng))
    rows = [
        player_row("keys at random", random, 0, 0.0),
        player_row("Rainbow", trained, result.env_steps, result.train_seconds),
    ]
    return [Result(title="Doom from its state, one game in training (95 % interval of the mean)", rows=rows)]


def _mostly_greedy(
    policy: QPolicy, seen: Inputs, masks: NDArray[np.bool_], rng: np.random.Generator
) -> NDArray[np.int64]:
    is_random = rng.random(len(masks)) < EPSILON
    actions: NDArray[np.int64] = np.where(is_random, _at_random(masks, rng), policy.act(seen, masks))
    return actions


def _at_random(masks: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return a random allowed action for each mask (N, A)."""
    actions: NDArray[np.int64] = np.argmax(rng.random(masks.shape) * masks, axis=1)
    return actions
