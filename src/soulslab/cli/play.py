"""``soulslab play``."""

# ruff: noqa: PLC0415  (imports in commands keep `soulslab --help` fast)

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from soulslab.cli.output import EXIT_OK
from soulslab.cli.parameters import SEED, check_run
from soulslab.errors import ConfigError

_log = logging.getLogger(__name__)


def play(
    *,
    boss: str | None = None,
    phase: str | None = None,
    seed: Annotated[int | None, Parameter(validator=SEED)] = None,
    policy: Path | None = None,
    window: Annotated[bool, Parameter(negative="")] = False,
    explain: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Fight a boss yourself in the terminal, or watch a policy; soulslab arena is the fight in a window.

    Args:
        boss: A shipped boss, or the path of a boss file; by default, that of the policy, or judge.
        phase: 1, 2 or full; by default, that of the policy, or full.
        seed: Seed of the first fight; by default random.
        policy: Folder of a run, or a policy file, to watch.
        window: Watch the policy in the window of the fight, in real time.
        explain: Show the policy's scores of the actions and the reward of each decision; P pauses, N steps once.
    """
    import gymnasium

    from soulslab.envs.registration import ARENA_ID, ARENA_LIVE_ID
    from soulslab.play.terminal_game import play_in_terminal

    if policy is None:
        if window:
            raise ConfigError("shows a policy: name one with --policy; by hand: soulslab arena", source="--window")
        if explain:
            raise ConfigError("is for a policy in the terminal: name one with --policy", source="--explain")
        fight: dict[str, Any] = {"boss": boss or "judge", "phase": phase or "full", "random_pose": True}
        play_in_terminal(gymnasium.make(ARENA_ID, **fight), seed=seed)
        return EXIT_OK
    check_run(policy)
    # A human player does not need the packages of the extra learn.
    from soulslab.learn.players import load_player
    from soulslab.play.policy_actions import fight_options, policy_actions, watch_in_window

    if explain and window:
        raise ConfigError("is for the terminal; leave out --window", source="--explain")
    player = load_player(policy)
    env_id = ARENA_LIVE_ID if window else ARENA_ID
    fight = fight_options(env_id, player.header, boss=boss, phase=phase)
    if window:
        tally = watch_in_window(lambda env: policy_actions(player, env, str(policy)), fight, seed=seed)
        _log.info("%d of %d fights won", tally.wins, tally.fights)
        return EXIT_OK
    env = gymnasium.make(env_id, **fight)
    act = policy_actions(player, env, str(policy))
    play_in_terminal(env, seed=seed, act=act, describe=act.describe if explain else None)
    return EXIT_OK
