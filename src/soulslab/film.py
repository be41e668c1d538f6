"""Videos of a trained policy, in the simulator or in the window of the built-in fight."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium

from soulslab.envs.registration import ARENA_ID, ARENA_LIVE_ID
from soulslab.learn.policy_header import Player
from soulslab.play.policy_actions import WINDOW_PX, fight_options, policy_actions
from soulslab.video import find_won_fight, record_fight, record_won_fight

#: Maximum number of fights when searching for a won one.
MAX_ATTEMPTS = 100


def film_policy(
    player: Player,
    path: Path,
    fight: dict[str, Any],
    *,
    in_window: bool = False,
    seed: int = 0,
    needs_win: bool = False,
) -> bool:
    """Play one fight with a policy and write it as an MP4 file; return whether the fight was won.

    The window of the fight is recorded with 10 frames per second of game time, the top-down view of the simulator with
    30. ``fight`` has the ``boss`` and ``phase`` to use instead of those of the training. With ``needs_win``, the first
    won fight of at most 100 is recorded.

    Raises IncompatibleCheckpointError if the policy cannot play the built-in fight, NoWinError without a win,
    VideoError if the video could not be encoded, and SiphonError if the window does not start.
    """
    env_id = ARENA_LIVE_ID if in_window else ARENA_ID
    options = fight_options(env_id, player.header, **fight)
    if in_window:
        options |= {"size_px": WINDOW_PX, "episodes": "demo"}
    elif needs_win:  # drawing takes much longer than the fight itself
        with closing(gymnasium.make(env_id, disable_env_checker=True, **options)) as env:
            seed = find_won_fight(env, policy_actions(player, env, path), seed=seed, max_attempts=MAX_ATTEMPTS)
    render_mode = "rgb_array" if in_window else "rgb_array_list"
    with closing(gymnasium.make(env_id, render_mode=render_mode, disable_env_checker=True, **options)) as env:
        act = policy_actions(player, env, path)
        if not needs_win:
            return record_fight(env, act, path, seed=seed)
        return record_won_fight(env, act, path, seed=seed, max_attempts=MAX_ATTEMPTS) > 0
