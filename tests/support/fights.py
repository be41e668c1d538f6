"""Recorded fights for tests: small data sets, and replays of their actions in an environment."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from soulslab.envs.registration import ARENA_ID
from soulslab.fights.recording import FightRecorder, fight_seeds, record_fight
from soulslab.learn.demonstrations.recorded_episode import Episode, play_episode
from soulslab.learn.demonstrations.writing import DemonstrationWriter

ARENA: dict[str, Any] = {"boss": "judge", "phase": "1", "random_pose": True, "skip_locked": True}


def record_reference(folder: Path, options: dict[str, Any], n_fights: int, seed: int = 0) -> list[int]:
    """Record fights of the reference player; return their seeds."""
    seeds = fight_seeds(seed, n_fights)
    with FightRecorder(folder, ARENA_ID, options, "reference") as recorder:
        for fight_seed in seeds:
            record_fight(recorder, fight_seed)
    return seeds


def random_fight(options: dict[str, Any], seed: int) -> Episode:
    """Play a fight of the arena with random allowed actions, which is short because it is lost."""
    rng = np.random.default_rng(seed)
    with closing(gymnasium.make(ARENA_ID, **options)) as env:
        return play_episode(env, lambda _, mask, __: int(rng.choice(np.flatnonzero(mask))), seed)


def record_random(folder: Path, env_id: str, options: dict[str, Any], n_episodes: int) -> list[Episode]:
    """Record a player that chooses random allowed actions; return the recording."""
    rng = np.random.default_rng(5)
    env = gymnasium.make(env_id, **options)

    def act(_: Any, mask: np.ndarray | None, __: int) -> int:
        return int(rng.choice(np.flatnonzero(mask) if mask is not None else env.action_space.n))

    episodes = [play_episode(env, act, seed) for seed in range(n_episodes)]
    with DemonstrationWriter(folder, env, options, "random") as writer:
        for episode in episodes:
            writer.add(episode)
    return episodes


def play_again(env_id: str, options: dict[str, Any], episode: Episode) -> Episode:
    """Play the actions of an episode in a new environment."""
    actions = iter(episode.actions.tolist())
    return play_episode(gymnasium.make(env_id, **options), lambda *_: next(actions), episode.seed)


def check_same(one: Episode, other: Episode) -> None:
    """Check that two episodes are equal in all bits."""
    for name in ("actions", "n_decisions", "masks", "rewards"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert one.is_terminated == other.is_terminated
    parts = [(one.observations, other.observations)]
    if isinstance(one.observations, dict):
        assert one.observations.keys() == other.observations.keys()
        parts = [(one.observations[name], other.observations[name]) for name in one.observations]
    for here, there in parts:
        np.testing.assert_array_equal(here, there)
