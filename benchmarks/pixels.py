"""``python -m benchmarks pixels``: PPO that observes only frames of the window, compared with a random player."""

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
from soulslab.learn.policy import Policy
from soulslab.learn.settings import TrainSettings


class PixelsBenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        train: The config.
        n_fights: Fights of each player.
        seed: Seed of the run and of random actions.
        limit_s: Maximum training time (s); the shorter of this and the config's limit is used.
        picture: PNG file for the learning curve.
    """

    train: TrainSettings
    n_fights: int = 60
    seed: int = 0
    limit_s: float = float("inf")
    picture: Path = Path("bench-results") / "pixels_curve.png"

    def quick(self) -> PixelsBenchSettings:
        """Return settings for a short run, in which little is learned."""
        return replace(self, n_fights=4, limit_s=20.0)


def measure_pixels(settings: PixelsBenchSettings) -> list[Result]:
    """Train on frames, draw the curve, and evaluate the agent and a random player.

    Raises:
        SiphonError: Xvfb is not installed, or the window does not start.
    """
    base, env = settings.train, settings.train.env
    run = replace(base.run, seed=settings.seed, max_seconds=min(base.run.max_seconds, settings.limit_s))
    fights = Episodes(
        env=env,
        n_episodes=settings.n_fights,
        seed=settings.seed,
        reward_term="boss_damage",
        final_results=_fight_results,
    )
    random = play_episodes(fights, random_player(np.random.default_rng(settings.seed)))
    result, policy = train_with_curve(
        replace(base, run=run),
        Policy.load,
        settings.picture,
        f"PPO on pictures of {env.id}, phase {env.options.get('phase', 'full')}",
        float(random["return"].mean()),
    )
    policy.seed(settings.seed)
    trained = play_episodes(fights, lambda obs, masks: policy.act(obs, masks, deterministic=False))
    weight = env.options.get("reward", {}).get("boss_damage", 1.0)
    rows = [
        _row("keys at random", random, weight),
        _row("PPO from pictures" + (", taught" if base.learner.teacher else ""), trained, weight)
        | {"decisions": result.env_steps, "training (s)": result.train_seconds},
    ]
    return [Result(title=f"The window's pictures alone, {env.n_envs} games at once (95 % intervals)", rows=rows)]


def _fight_results(final_info: dict[str, Any], game: int) -> dict[str, Any]:
    fight = final_info["fight"]
    return {"damage_taken": fight["damage_taken"][game], "won": fight["won"][game]}


def _row(player: str, fights: EpisodeResults, weight: float) -> Row:
    """Return the row of a player without training; ``weight`` is that of the reward for damage."""
    row: Row = {"player": player, "decisions": 0, "training (s)": 0.0, "fights": len(fights["return"])}
    columns = {
        "return": ("return", fights["return"]),
        "boss damage": ("boss damage (% of its health)", 100 * fights["boss_damage"] / weight),
        "damage taken": ("damage taken (hp)", fights["damage_taken"]),
    }
    for name, (heading, values) in columns.items():
        row |= {heading: float(values.mean()), f"± {name}": margin_of(values)}
    return row | {"won (%)": 100 * float(fights["won"].mean())}
