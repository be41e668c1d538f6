"""``python -m benchmarks pixels``: PPO that observes only frames of the window, and a random player."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import NormalDist
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks.result import Result, Row
from soulslab.learn.curve import draw_curve
from soulslab.learn.environment import layout, make_vector
from soulslab.learn.inputs import Observer
from soulslab.learn.policy import Policy
from soulslab.learn.settings import TrainSettings
from soulslab.learn.sinks import PROGRESS_NAME, run_sinks
from soulslab.learn.train import train

#: Maps observations and action masks to actions (N,).
Act = Callable[[Any, NDArray[np.bool_]], NDArray[np.int64]]

TWO_SIDED_95 = NormalDist().inv_cdf(0.975)


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
        return msgspec.structs.replace(self, n_fights=4, limit_s=20.0)


def measure_pixels(settings: PixelsBenchSettings) -> list[Result]:
    """Train on frames, draw the curve, and evaluate the agent and a random player.

    Raises:
        SiphonError: Xvfb is not installed, or the window does not start.
    """
    base = settings.train
    run = msgspec.structs.replace(base.run, seed=settings.seed, max_seconds=min(base.run.max_seconds, settings.limit_s))
    rng = np.random.default_rng(settings.seed)
    random = _fight(settings, lambda _, masks: np.argmax(rng.random(masks.shape) * masks, axis=1))
    with TemporaryDirectory(prefix="soulslab-bench-") as folder:
        result = train(msgspec.structs.replace(base, run=run), Path(folder), sinks=run_sinks(Path(folder)))
        settings.picture.parent.mkdir(parents=True, exist_ok=True)
        title = f"PPO on pictures of {base.env.id}, phase {base.env.options.get('phase', 'full')}"
        baseline = float(random["return"].mean())
        draw_curve(Path(folder) / PROGRESS_NAME, settings.picture, title, baseline=baseline, of_returns=True)
        policy = Policy.load(result.policy_path)
    policy.seed(settings.seed)
    trained = _fight(settings, lambda obs, masks: policy.act(obs, masks, deterministic=False))
    rows = [
        _row("keys at random", random, 0, 0.0),
        _row("PPO from pictures", trained, result.env_steps, result.train_seconds),
    ]
    return [Result(title=f"The window's pictures alone, {base.env.n_envs} games at once (95 % intervals)", rows=rows)]


def _row(player: str, fights: dict[str, NDArray[np.float64]], decisions: int, seconds: float) -> Row:
    row: Row = {"player": player, "decisions": decisions, "training (s)": seconds, "fights": len(fights["return"])}
    for name, unit in (("return", ""), ("boss_damage", " (% of its health)"), ("damage_taken", " (hp)")):
        values = fights[name]
        margin = float(TWO_SIDED_95 * values.std(ddof=1) / np.sqrt(len(values)))
        row[f"{name.replace('_', ' ')}{unit}"] = float(values.mean())
        row[f"± {name.replace('_', ' ')}"] = margin
    return row | {"won (%)": 100 * float(fights["won"].mean())}


def _fight(settings: PixelsBenchSettings, act: Act) -> dict[str, NDArray[np.float64]]:
    """Return the results of the fights of a player by name; equally many per game."""
    where = settings.train.env
    n_games = min(where.n_envs, settings.n_fights)
    found: dict[str, list[float]] = {"return": [], "boss_damage": [], "damage_taken": [], "won": []}
    left = np.full(n_games, settings.n_fights // n_games)
    returns, damage = np.zeros(n_games), np.zeros(n_games)
    weight = where.options.get("reward", {}).get("boss_damage", 1.0)
    with closing(make_vector(where.id, n_games, where.options)) as games:
        observer = Observer(layout(games), n_games, where.frame_stack)
        obs, info = games.reset(seed=settings.seed)
        observer.begin(obs)
        while left.any():
            obs, rewards, terminated, truncated, info = games.step(act(observer.inputs, info["action_mask"]))
            observer.follow(obs, terminated | truncated)
            returns += rewards
            damage += _boss_damage(info) / weight
            for game in np.flatnonzero(terminated | truncated):
                if left[game]:
                    left[game] -= 1
                    fight = info["final_info"]["fight"]
                    found["return"].append(float(returns[game]))
                    found["boss_damage"].append(100 * float(damage[game]))
                    found["damage_taken"].append(float(fight["damage_taken"][game]))
                    found["won"].append(float(fight["won"][game]))
                returns[game] = damage[game] = 0.0
    return {name: np.array(values) for name, values in found.items()}


def _boss_damage(info: dict[str, Any]) -> NDArray[np.float64]:
    """Return the reward for damage of each game in a step; after the end of a fight, it is in ``final_info``."""
    steps = (info, info.get("final_info", {}))
    shares = [np.asarray(step["reward_terms"]["boss_damage"], np.float64) for step in steps if "reward_terms" in step]
    return np.sum(shares, axis=0) if shares else np.zeros(1)
