"""Fights of a policy for the viewers of a live feed, at the speed of the game."""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import numpy as np

from soulslab.arena.records import DECISION_S
from soulslab.learn.live_feed import LiveFeed
from soulslab.learn.policy_header import Player
from soulslab.play.policy_actions import PolicyActions
from soulslab.play.terminal_game import Tally


def play_for_viewers(
    env: gymnasium.Env[Any, Any], player: Player, act: PolicyActions, feed: LiveFeed, *, seed: int | None = None
) -> Tally:
    """Play fights until KeyboardInterrupt, and return how many were played and won.

    Args:
        env: Environment with action masks; it is not closed.
        player: The policy.
        act: Chooses the actions of the policy.
        feed: Feed that shows each decision; it is opened, and not closed.
        seed: Seed of the first fight.
    """
    tally = Tally()
    feed.open(env)
    try:
        while True:
            is_won = _play_fight(env, player, act, feed, seed)
            seed = None
            tally.fights += 1
            tally.wins += is_won
    except KeyboardInterrupt:
        return tally


def _play_fight(
    env: gymnasium.Env[Any, Any], player: Player, act: PolicyActions, feed: LiveFeed, seed: int | None
) -> bool:
    observation, info = env.reset(seed=seed)
    n_decisions, due_s = 0, time.perf_counter()
    while True:
        mask = info["action_mask"]
        action = act(observation, mask, n_decisions)
        feed.show(env, player, act.inputs, mask[None], np.array([action]))
        observation, reward, terminated, truncated, info = env.step(action)
        n_decisions += info["n_decisions"]
        # A late decision delays the next ones, as in a game that waits, so that viewers see the speed of the game.
        due_s = max(due_s, time.perf_counter() - DECISION_S) + DECISION_S * info["n_decisions"]
        is_over, is_won = terminated or truncated, bool(info.get("fight", {}).get("won"))
        feed.follow(float(reward), is_over=is_over, is_won=is_won)
        time.sleep(max(0.0, due_s - time.perf_counter()))
        if is_over:
            return is_won
