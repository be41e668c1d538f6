"""Watch a policy in the window of the built-in fight, in real time."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from contextlib import closing
from typing import Any

import gymnasium

from soulslab.envs.registration import ARENA_LIVE_ID
from soulslab.errors import ProcessExitedError, WindowGoneError
from soulslab.play.terminal_game import Act, Tally

WINDOW_PX = (800, 450)

_log = logging.getLogger(__name__)


def watch_in_window(
    make_act: Callable[[gymnasium.Env[Any, Any]], Act],
    options: dict[str, Any],
    *,
    seed: int | None = None,
    n_fights: int | None = None,
) -> Tally:
    """Run fights of a policy in a window on the screen until the window is closed.

    Args:
        make_act: Returns the action function for an environment.
        options: Options of ``soulslab/ArenaLive-v0``.
        seed: Seed of the first fight; it determines all later fights.
        n_fights: Number of fights; None continues until the window is closed.

    Returns:
        Number of fights and wins.

    Raises:
        SiphonError: No screen is available, or the window does not start.
    """
    tally = Tally()
    how = {"size_px": WINDOW_PX, "renderer": "auto", "timing": "realtime", "episodes": "demo", **options}
    with closing(gymnasium.make(ARENA_LIVE_ID, render_mode="human", disable_env_checker=True, **how)) as env:
        act = make_act(env)
        observation, info = env.reset(seed=seed)  # an error here does not mean that the window was closed
        try:
            while tally.fights < (n_fights if n_fights is not None else math.inf):
                if tally.fights:
                    observation, info = env.reset()
                tally.wins += _fight(env, act, observation, info)
                tally.fights += 1
                _log.info("%d of %d fights won", tally.wins, tally.fights)
        except (ProcessExitedError, WindowGoneError) as error:
            _log.info("the window was closed (%s)", error)
    return tally


def _fight(env: gymnasium.Env[Any, Any], act: Act, observation: Any, info: dict[str, Any]) -> bool:
    """Play to the end of the episode; return whether the fight was won."""
    n_decisions = 0
    while True:
        action = act(observation, info["action_mask"], n_decisions)
        observation, _, terminated, truncated, info = env.step(action)
        n_decisions += info["n_decisions"]
        if terminated or truncated:
            return bool(info["fight"]["won"])
