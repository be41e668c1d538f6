"""``python -m benchmarks doom``: PPO on a real game, compared with a random player."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from benchmarks.player_comparison import (
    EpisodeResults,
    Episodes,
    margin_of,
    play_episodes,
    random_player,
    train_with_curve,
)
from benchmarks.result import Result, Row
from soulslab.learn.inputs import ExtraInputs
from soulslab.learn.policy import Policy
from soulslab.learn.settings import EnvSettings, TrainSettings


class DoomLearningSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        train: The config.
        n_episodes: Episodes of each player.
        seed: Seed of the run and of random actions.
        limit_s: Maximum training time (s); the shorter of this and the config's limit is used.
        picture: PNG file for the learning curve.
    """

    train: TrainSettings
    n_episodes: int = 40
    seed: int = 0
    limit_s: float = float("inf")
    picture: Path = Path("bench-results") / "doom_curve.png"

    def quick(self) -> DoomLearningSettings:
        """Return settings for a short run, in which little is learned."""
        return replace(self, n_episodes=4, limit_s=20.0)


def measure_doom_learning(settings: DoomLearningSettings) -> list[Result]:
    """Train on Doom, draw the curve, and evaluate the agent and a random player.

    Raises:
        SiphonError: Doom, its game data or Xvfb is not installed.
    """
    base, env = settings.train, settings.train.env
    run = replace(base.run, seed=settings.seed, max_seconds=min(base.run.max_seconds, settings.limit_s))
    episodes = doom_episodes(env, settings.n_episodes, settings.seed)
    random = play_episodes(episodes, random_player(np.random.default_rng(settings.seed)))
    result, policy = train_with_curve(
        replace(base, run=run),
        Policy.load,
        settings.picture,
        f"PPO on {env.id}, map {env.options.get('map', 1)}",
        float(random["return"].mean()),
    )
    policy.seed(settings.seed)
    trained = play_episodes(episodes, lambda obs, masks: policy.act(obs, masks, deterministic=False))
    rows = [
        player_row("keys at random", random, 0, 0.0),
        player_row("PPO", trained, result.env_steps, result.train_seconds),
    ]
    return [Result(title=f"Doom from its state, {env.n_envs} games at once (95 % interval of the mean)", rows=rows)]


def doom_episodes(env: EnvSettings, n_episodes: int, seed: int, extras: ExtraInputs | None = None) -> Episodes:
    """Return episodes of Doom with the return, the kills, and how each episode ended."""

    def final_results(final_info: dict[str, Any], game: int) -> dict[str, Any]:
        end = final_info["end"][game]
        return {"died": end == "death", "left": end == "exit"}

    return Episodes(
        env=env,
        n_episodes=n_episodes,
        seed=seed,
        extras=extras or ExtraInputs(),
        reward_term="kills",
        final_results=final_results,
    )


def player_row(player: str, played: EpisodeResults, decisions: int, seconds: float) -> Row:
    """Return the row of a player from the results of its episodes, and from its decisions and seconds of training."""
    returns = played["return"]
    mean, margin = float(returns.mean()), margin_of(returns)
    return {
        "player": player,
        "decisions": decisions,
        "training (s)": seconds,
        "episodes": len(returns),
        "mean return": mean,
        "from": mean - margin,
        "to": mean + margin,
        "kills": float(played["kills"].mean()),
        "died (%)": 100 * float(played["died"].mean()),
        "reached the exit (%)": 100 * float(played["left"].mean()),
    }
