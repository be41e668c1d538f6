"""``python -m benchmarks doom``: PPO on a real game, compared with a random player."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks.result import Result, Row
from soulslab.envs.tasks.process.doom import DoomVectorEnv
from soulslab.learn.curve import draw_curve
from soulslab.learn.environment import decisions_taken, layout, sizes
from soulslab.learn.inputs import ExtraInputs, Inputs, Observer
from soulslab.learn.policy import Policy
from soulslab.learn.settings import TrainSettings
from soulslab.learn.sinks import PROGRESS_NAME, run_sinks
from soulslab.learn.train import train

#: Maps the inputs of the players and action masks to actions (N,).
Act = Callable[[Inputs, NDArray[np.bool_]], NDArray[np.int64]]

TWO_SIDED_95 = NormalDist().inv_cdf(0.975)


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
        return msgspec.structs.replace(self, n_episodes=4, limit_s=20.0)


class Games(msgspec.Struct, frozen=True, kw_only=True):
    """Games in which players are compared.

    Attributes:
        options: Options of Doom.
        n_games: Parallel games.
        n_episodes: Episodes, all games together.
        seed: Seed of the games.
        extras: Inputs of the player in addition to the observation.
    """

    options: dict[str, Any]
    n_games: int
    n_episodes: int
    seed: int
    extras: ExtraInputs = ExtraInputs()


def measure_doom_learning(settings: DoomLearningSettings) -> list[Result]:
    """Train on Doom, draw the curve, and evaluate the agent and a random player.

    Raises:
        SiphonError: Doom, its game data or Xvfb is not installed.
    """
    base = settings.train
    seconds = min(base.run.max_seconds, settings.limit_s)
    run = msgspec.structs.replace(base.run, seed=settings.seed, max_seconds=seconds)
    rng = np.random.default_rng(settings.seed)
    n_games = min(base.env.n_envs, settings.n_episodes)
    games = Games(options=base.env.options, n_games=n_games, n_episodes=settings.n_episodes, seed=settings.seed)
    random = play_games(games, lambda _, mask: rng.integers(mask.shape[1], size=len(mask)))
    with TemporaryDirectory(prefix="soulslab-bench-") as folder:
        result = train(msgspec.structs.replace(base, run=run), Path(folder), sinks=run_sinks(Path(folder)))
        settings.picture.parent.mkdir(parents=True, exist_ok=True)
        title = f"PPO on {base.env.id}, map {base.env.options.get('map', 1)}"
        draw_curve(Path(folder) / PROGRESS_NAME, settings.picture, title, baseline=float(random["return"].mean()))
        policy = Policy.load(result.policy_path)
    policy.seed(settings.seed)
    trained = play_games(games, lambda obs, mask: policy.act(obs, mask, deterministic=False))
    rows = [
        player_row("keys at random", random, 0, 0.0),
        player_row("PPO", trained, result.env_steps, result.train_seconds),
    ]
    return [
        Result(title=f"Doom from its state, {base.env.n_envs} games at once (95 % interval of the mean)", rows=rows)
    ]


def player_row(player: str, played: dict[str, NDArray[np.float64]], decisions: int, seconds: float) -> Row:
    """Return the row of a player from the result of `play_games`, and from its decisions and seconds of training."""
    returns = played["return"]
    margin = TWO_SIDED_95 * returns.std(ddof=1) / np.sqrt(len(returns))
    return {
        "player": player,
        "decisions": decisions,
        "training (s)": seconds,
        "episodes": len(returns),
        "mean return": float(returns.mean()),
        "from": float(returns.mean() - margin),
        "to": float(returns.mean() + margin),
        "kills": float(played["kills"].mean()),
        "died (%)": 100 * float(played["died"].mean()),
        "reached the exit (%)": 100 * float(played["left"].mean()),
    }


def play_games(played: Games, act: Act) -> dict[str, NDArray[np.float64]]:
    """Return the results of the episodes of a player by name, (episodes,) each; equally many per game."""
    n_games = played.n_games
    games = DoomVectorEnv(n_games, autoreset_mode="SameStep", **played.options)
    found: dict[str, list[float]] = {"return": [], "kills": [], "died": [], "left": []}
    left = np.full(n_games, played.n_episodes // n_games)
    returns, kills = np.zeros(n_games), np.zeros(n_games)
    try:
        seen = Observer(layout(games), n_games, extras=played.extras, n_actions=sizes(games).n_actions)
        obs, info = games.reset(seed=played.seed)
        seen.begin(obs)
        while left.any():
            actions = act(seen.inputs, info["action_mask"])
            obs, rewards, terminated, truncated, info = games.step(actions)
            seen.follow(obs, terminated | truncated, actions, decisions_taken(info, n_games))
            returns += rewards
            kills += _kills(info)
            for game in np.flatnonzero(terminated | truncated):
                if left[game]:
                    left[game] -= 1
                    end = info["final_info"]["end"][game]
                    episode = {
                        "return": returns[game],
                        "kills": kills[game],
                        "died": end == "death",
                        "left": end == "exit",
                    }
                    for name, value in episode.items():
                        found[name].append(float(value))
                returns[game] = kills[game] = 0.0
    finally:
        games.close()
    return {name: np.array(values) for name, values in found.items()}


def _kills(info: dict[str, Any]) -> NDArray[np.float64]:
    """Return the kills of each game in a step; after the end of an episode, they are in ``final_info``."""
    steps = (info, info.get("final_info", {}))
    counts = [np.asarray(step["reward_terms"]["kills"], np.float64) for step in steps if "reward_terms" in step]
    return np.sum(counts, axis=0) if counts else np.zeros(1)
