"""Films of a trained policy, in the simulator or in the window of the built-in fight."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium
from numpy.typing import NDArray

from soulslab.envs.registration import ARENA_ID, ARENA_LIVE_ID
from soulslab.learn.policy_header import Player
from soulslab.play.watching import act_of, fight_options
from soulslab.play.window import WINDOW_PX
from soulslab.video import Act, find_won_fight, record_fight, record_won_fight

#: Fights in which a won one is looked for.
MAX_ATTEMPTS = 100


class _DecisionCount(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Counts the decisions of the fight, which a policy with a memory of its actions needs."""

    n_decisions = 0

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        self.n_decisions = 0
        return self.env.reset(**arguments)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        result = self.env.step(action)
        self.n_decisions += result[4]["n_decisions"]
        return result


def film_policy(
    player: Player,
    path: Path,
    fight: dict[str, Any],
    *,
    in_window: bool = False,
    seed: int = 0,
    needs_win: bool = False,
) -> bool:
    """Play a policy in one fight and write it as an MP4 file.

    Args:
        player: The policy.
        path: The file; it is replaced when the film is complete.
        fight: ``boss`` and ``phase`` in place of those of training.
        in_window: Film the window of the fight, 10 frames a second of game time; otherwise the simulator's drawing
            from above, 30 frames a second.
        seed: Seed of the first fight.
        needs_win: Film the first fight that is won, of at most 100.

    Returns:
        Whether the fight was won.

    Raises:
        IncompatibleCheckpointError: The policy cannot play the built-in fight.
        NoWinError: A won fight was wanted, and there is none.
        VideoError: The film could not be encoded.
        SiphonError: The window does not start.
    """
    env_id = ARENA_LIVE_ID if in_window else ARENA_ID
    options = fight_options(env_id, player.header, **fight)
    if in_window:
        options |= {"size_px": WINDOW_PX, "episodes": "demo"}
    elif needs_win:  # drawing takes far longer than fighting
        with closing(_DecisionCount(gymnasium.make(env_id, disable_env_checker=True, **options))) as env:
            seed = find_won_fight(env, _act(player, env, path), seed=seed, max_attempts=MAX_ATTEMPTS)
    render_mode = "rgb_array" if in_window else "rgb_array_list"
    made = gymnasium.make(env_id, render_mode=render_mode, disable_env_checker=True, **options)
    with closing(_DecisionCount(made)) as env:
        act = _act(player, env, path)
        if not needs_win:
            return record_fight(env, act, path, seed=seed)
        record_won_fight(env, act, path, seed=seed, max_attempts=MAX_ATTEMPTS)
        return True


def _act(player: Player, env: _DecisionCount, path: Path) -> Act:
    choose = act_of(player, env, path)

    def act(observation: Any, mask: NDArray[Any] | None) -> Any:
        return choose(observation, mask, env.n_decisions)  # type: ignore[arg-type]

    return act
