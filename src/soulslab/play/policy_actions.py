"""A trained policy as the player of a fight, with the options and observations of its training."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import gymnasium
import numpy as np
from numpy.typing import NDArray

from soulslab.arena.vocabulary import NOTHING, action_name
from soulslab.envs.registration import ARENA_ID, ARENA_LIVE_ID
from soulslab.learn.demonstrations.recorded_episode import PolicyActor
from soulslab.learn.environment import sizes_of_one
from soulslab.learn.policy_header import Header, Player
from soulslab.learn.untrusted import check_named_environment

#: Options that determine the observations and actions of the policy; the viewer may choose all others.
_POLICY_OPTIONS: Final = {
    ARENA_ID: ("observation",),
    ARENA_LIVE_ID: ("observation", "pixels", "n_last_actions", "action_mode", "actions", "step_ms", "latency_ms"),
}

#: Number of other actions that `PolicyActions.describe` shows.
N_OTHERS: Final = 4


def fight_options(
    env_id: str, header: Header | None, *, boss: str | None = None, phase: str | None = None
) -> dict[str, Any]:
    """Return the options of an environment in which a policy or a person plays.

    Args:
        env_id: ``soulslab/Arena-v0`` or ``soulslab/ArenaLive-v0``.
        header: Header of the policy; None for a person.
        boss: The boss; None uses that of the policy, or the judge.
        phase: 1, 2 or full; None uses that of the policy, or full.

    Raises:
        UntrustedFileError: The policy file contains a path, such as that of a boss file.
    """
    trained_on = header.env_options if header is not None else {}
    kept: tuple[str, ...] = ()
    if header is not None and header.env_id in (ARENA_ID, env_id):
        kept = _POLICY_OPTIONS[header.env_id]
    own = {"boss", "phase", *kept} - {name for name, value in (("boss", boss), ("phase", phase)) if value}
    named = {name: trained_on[name] for name in own if name in trained_on}
    check_named_environment("", named, "the policy")
    return {
        "boss": boss or trained_on.get("boss", "judge"),
        "phase": phase or trained_on.get("phase", "full"),
        "random_pose": True,
        **{name: trained_on[name] for name in kept if name in trained_on},
    }


class PolicyActions:
    """Chooses the actions of a policy, and describes its last choice.

    Args:
        hands: Chooses the actions.
        skips_locked: Whether the policy was trained with ``skip_locked``, so it only decides if several actions are
            allowed.
    """

    def __init__(self, hands: PolicyActor, *, skips_locked: bool) -> None:
        self._hands = hands
        self._skips_locked = skips_locked
        self._action = NOTHING
        self._has_chosen = False

    def __call__(self, observation: Any, mask: NDArray[np.bool_], n_decisions: int) -> int:
        """Return an action; see `soulslab.play.terminal_game.Act`."""
        # During training the environment skipped such steps, so they must not enter the memory of the policy.
        self._has_chosen = not (self._skips_locked and n_decisions and mask.sum() == 1)
        self._action = self._hands(observation, mask, n_decisions) if self._has_chosen else int(mask.argmax())
        return self._action

    def describe(self) -> str:
        """Return the last action and the actions with the highest scores, as one line of text."""
        if not self._has_chosen:
            return f"only {action_name(self._action)} is allowed"
        kind, numbers = self._hands.scores()
        scores = numbers[0]
        others = [number for number in np.argsort(-scores, kind="stable").tolist() if number != self._action]
        parts = [f"{action_name(number)} {scores[number]:.2f}" for number in (self._action, *others[:N_OTHERS])]
        return f"{kind} [{parts[0]}] {'  '.join(parts[1:])}"


def policy_actions(player: Player, env: gymnasium.Env[Any, Any], path: str | Path = "policy") -> PolicyActions:
    """Return the action function of a policy for an environment.

    Args:
        player: The policy.
        env: The environment, made with `fight_options`.
        path: Path of the policy file, for messages.

    Raises:
        IncompatibleCheckpointError: The policy cannot play this environment.
        EnvironmentUsageError: The observations of the environment are of a kind that no policy supports.
    """
    env_id = env.spec.id if env.spec is not None else ARENA_ID
    alike = env.metadata.get("policies_of", ())
    header = player.header
    header.check_env(env_id, sizes_of_one(env), path, alike=alike)
    hands = PolicyActor(player, env.observation_space, env_id)
    return PolicyActions(hands, skips_locked=bool(header.env_options.get("skip_locked", False)))
