"""A trained policy as one who plays: in the fight it was trained on, seeing what it saw there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import gymnasium
import numpy as np
from numpy.typing import NDArray

from soulslab.envs.registration import ARENA_ID, ARENA_LIVE_ID
from soulslab.learn.demonstrations.episode import PlayerHands
from soulslab.learn.environment import sizes_of_one
from soulslab.learn.player import Header, Player
from soulslab.play.game import Act

#: Options of training that decide what a policy sees and can do; the others are up to those who watch.
_SEEN: Final = {
    ARENA_ID: ("observation",),
    ARENA_LIVE_ID: ("observation", "pixels", "n_last_actions", "action_mode", "actions", "step_ms", "latency_ms"),
}


def fight_options(
    env_id: str, header: Header | None, *, boss: str | None = None, phase: str | None = None
) -> dict[str, Any]:
    """Return the options of an environment to play in.

    Args:
        env_id: ``soulslab/Arena-v0`` or ``soulslab/ArenaLive-v0``.
        header: Of the policy that plays; None for a person.
        boss: Against whom; by default the policy's own, or the judge.
        phase: 1, 2 or full; by default the policy's own, or full.
    """
    trained_on = {} if header is None else header.env_options
    seen: tuple[str, ...] = ()
    if header is not None and header.env_id in (ARENA_ID, env_id):
        seen = _SEEN[header.env_id]
    return {
        "boss": boss or trained_on.get("boss", "judge"),
        "phase": phase or trained_on.get("phase", "full"),
        "random_pose": True,
        **{name: trained_on[name] for name in seen if name in trained_on},
    }


def act_of(player: Player, env: gymnasium.Env[Any, Any], path: str | Path = "policy") -> Act:
    """Return what chooses a policy's actions in an environment.

    Args:
        player: The policy.
        env: The environment, made with `fight_options`.
        path: The policy's file, for messages.

    Raises:
        IncompatibleCheckpointError: The policy cannot play this environment.
        EnvironmentUsageError: The environment's observations are nothing that a policy can look at.
    """
    env_id = ARENA_ID if env.spec is None else env.spec.id
    alike = env.metadata.get("policies_of", ())
    header = player.header
    header.check_env(env_id, sizes_of_one(env), path, alike=alike)
    hands = PlayerHands(player, env.observation_space, env_id)
    if not header.env_options.get("skip_locked", False):
        return hands

    def act_where_there_is_a_choice(observation: Any, mask: NDArray[np.bool_], n_decisions: int) -> int:
        # In training the environment passed over such moments: they are no part of what the policy remembers.
        if n_decisions and mask.sum() == 1:
            return int(mask.argmax())
        return hands(observation, mask, n_decisions)

    return act_where_there_is_a_choice
