"""Comparison of a trained policy with a random player on parallel games."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import NormalDist
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.learn.curve import draw_curve
from soulslab.learn.environment import decisions_taken, layout, make_vector, sizes
from soulslab.learn.inputs import ExtraInputs, Inputs, Observer
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
from soulslab.learn.run_folder import TrainResult
from soulslab.learn.settings import EnvSettings, TrainSettings
from soulslab.learn.sinks import PROGRESS_NAME, run_sinks
from soulslab.learn.train import train_uninterrupted

P = TypeVar("P")
#: Function from the inputs of the players and their action masks (N, A) to actions (N,).
Act: TypeAlias = Callable[[Inputs, NDArray[np.bool_]], NDArray[np.int64]]
#: Results of the episodes of a player by name, (episodes,) each.
EpisodeResults: TypeAlias = dict[str, NDArray[np.float64]]

_TWO_SIDED_95 = NormalDist().inv_cdf(0.975)


class Episodes(msgspec.Struct, frozen=True, kw_only=True):
    """Episodes in which players are compared.

    Attributes:
        env: Environment; its number of parallel games is an upper bound.
        n_episodes: Number of episodes, all games together.
        seed: Seed of the games.
        extras: Inputs of the player in addition to the observation.
        reward_term: Reward term whose sum over an episode is a result.
        final_results: Function from the final info of the games and the number of a game to further results.
    """

    env: EnvSettings
    n_episodes: int
    seed: int
    extras: ExtraInputs = ExtraInputs()
    reward_term: str
    final_results: Callable[[dict[str, Any], int], dict[str, Any]]


def play_episodes(episodes: Episodes, act: Act) -> EpisodeResults:
    """Play episodes with one player, equally many in each game.

    Args:
        episodes: The episodes.
        act: The player.

    Returns:
        ``return``, the sum of the reward term, and the further results.
    """
    env = episodes.env
    n_games = min(env.n_envs, episodes.n_episodes)
    found: list[dict[str, float]] = []
    left = np.full(n_games, episodes.n_episodes // n_games)
    returns, terms = np.zeros(n_games), np.zeros(n_games)
    with closing(make_vector(env.id, n_games, env.options)) as games:
        n_actions = sizes(games).n_actions
        observer = Observer(layout(games), n_games, env.frame_stack, extras=episodes.extras, n_actions=n_actions)
        obs, info = games.reset(seed=episodes.seed)
        observer.begin(obs)
        while left.any():
            actions = act(observer.inputs, info["action_mask"])
            obs, rewards, terminated, truncated, info = games.step(actions)
            has_ended = terminated | truncated
            observer.follow(obs, has_ended, actions, decisions_taken(info, n_games))
            returns += rewards
            terms += _reward_term(info, episodes.reward_term)
            for game in np.flatnonzero(has_ended):
                if left[game]:
                    left[game] -= 1
                    further = episodes.final_results(info["final_info"], int(game))
                    found.append({"return": returns[game], episodes.reward_term: terms[game]} | further)
                returns[game] = terms[game] = 0.0
    return {name: np.array([result[name] for result in found], np.float64) for name in found[0]}


def _reward_term(info: dict[str, Any], name: str) -> NDArray[np.float64]:
    """Return a reward term of each game in a step; after the end of an episode, it is in ``final_info``."""
    steps = (info, info.get("final_info", {}))
    values = [np.asarray(step["reward_terms"][name], np.float64) for step in steps if "reward_terms" in step]
    return np.sum(values, axis=0) if values else np.zeros(1)


def random_player(rng: np.random.Generator) -> Act:
    """Return a player that samples uniformly from the allowed actions."""
    return lambda _, masks: np.argmax(rng.random(masks.shape) * masks, axis=1)


def margin_of(values: NDArray[np.float64]) -> float:
    """Return half the width of the 95 % interval of the mean of independent values."""
    return float(_TWO_SIDED_95 * values.std(ddof=1) / np.sqrt(len(values)))


def train_with_curve(
    settings: TrainSettings | RainbowSettings,
    load: Callable[[Path], P],
    picture: Path,
    title: str,
    random_return: float,
) -> tuple[TrainResult, P]:
    """Train a policy and draw its learning curve.

    Args:
        settings: Settings of the run.
        load: Function that loads the trained policy.
        picture: PNG file for the curve of the mean returns.
        title: Title of the curve.
        random_return: Mean return of the random player, drawn as a line.

    Returns:
        The result of the run, and the policy.
    """
    with TemporaryDirectory(prefix="soulslab-bench-") as folder:
        result = train_uninterrupted(settings, Path(folder), sinks=run_sinks(Path(folder)))
        picture.parent.mkdir(parents=True, exist_ok=True)
        draw_curve(Path(folder) / PROGRESS_NAME, picture, title, baseline=random_return, of_returns=True)
        return result, load(result.policy_path)
