"""A trained policy as the player of a fight, with the options and observations of its training."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import gymnasium
import numpy as np
from numpy.typing import NDArray

from soulslab.arena.vocabulary import N_ACTIONS, NOTHING, action_name
from soulslab.envs.registration import ARENA_ID, ARENA_LIVE_ID
from soulslab.errors import ProcessExitedError, WindowGoneError
from soulslab.learn.demonstrations.recorded_episode import PolicyActor
from soulslab.learn.environment import sizes_of_one
from soulslab.learn.inputs import Inputs
from soulslab.learn.policy_header import Header, Player
from soulslab.learn.untrusted import check_named_environment
from soulslab.play.terminal_game import Act, Tally

#: Options that determine the observations and actions of the policy; the viewer may choose all others.
_POLICY_OPTIONS: Final = {
    ARENA_ID: ("observation",),
    ARENA_LIVE_ID: ("observation", "pixels", "n_last_actions", "action_mode", "actions", "step_ms", "latency_ms"),
}

#: Number of other actions that `PolicyActions.describe` shows.
N_OTHERS: Final = 4


def fight_options(
    env_id: str, header: Header | None, *, boss: str | None = None, phase: str | None = None, trust: bool = False
) -> dict[str, Any]:
    """Return the options of an environment in which a policy, or a person without a header, plays.

    Boss and phase are those of the policy, or the judge and full, unless they are given. Raises `UntrustedFileError` if
    the policy file contains a path, such as that of a boss file, and ``trust`` is False.
    """
    trained_on = header.env_options if header is not None else {}
    kept: tuple[str, ...] = ()
    if header is not None and header.env_id in (ARENA_ID, env_id):
        kept = _POLICY_OPTIONS[header.env_id]
    own = {"boss", "phase", *kept} - {name for name, value in (("boss", boss), ("phase", phase)) if value}
    named = {name: trained_on[name] for name in own if name in trained_on}
    if not trust:
        check_named_environment("", named, "the policy")
    return {
        "boss": boss or trained_on.get("boss", "judge"),
        "phase": phase or trained_on.get("phase", "full"),
        "random_pose": True,
        **{name: trained_on[name] for name in kept if name in trained_on},
    }


class PolicyActions:
    """Chooses the actions of a policy, and describes its last choice.

    A policy that was trained with ``skip_locked`` only decides if several actions are allowed.
    """

    def __init__(self, hands: PolicyActor, action_names: Sequence[str], *, skips_locked: bool) -> None:
        self._hands = hands
        self._names = action_names
        self._skips_locked = skips_locked
        self._action = NOTHING
        self._has_chosen = False

    def __call__(self, observation: Any, mask: NDArray[np.bool_] | None, n_decisions: int) -> int:
        """Return an action; see `soulslab.play.terminal_game.Act`. Without a mask all actions are allowed."""
        # During training the environment skipped such steps, so they must not enter the memory of the policy.
        if mask is not None and self._skips_locked and n_decisions and mask.sum() == 1:
            self._has_chosen, self._action = False, int(mask.argmax())
        else:
            self._has_chosen, self._action = True, self._hands(observation, mask, n_decisions)
        return self._action

    @property
    def inputs(self) -> Inputs:
        """Inputs of the policy for its last choice, (1, ...)."""
        return self._hands.inputs

    def describe(self) -> str:
        """Return the last action and the actions with the highest scores, as one line of text."""
        kind, ranking = self.ranking()
        if not kind:
            return f"only {self._names[self._action]} is allowed"
        parts = [f"{name} {score:.2f}" for name, score in ranking]
        return f"{kind} [{parts[0]}] {'  '.join(parts[1:])}"

    def ranking(self) -> tuple[str, list[tuple[str, float]]]:
        """Return the kind of the scores, and names and scores: the last action, then the best others.

        The kind is "" and there are no scores if the policy did not choose, because only one action was allowed.
        """
        if not self._has_chosen:
            return "", []
        kind, numbers = self._hands.scores()
        scores = numbers[0]
        others = [number for number in np.argsort(-scores, kind="stable").tolist() if number != self._action]
        return kind, [(self._names[number], float(scores[number])) for number in (self._action, *others[:N_OTHERS])]


def policy_actions(player: Player, env: gymnasium.Env[Any, Any], path: str | Path = "policy") -> PolicyActions:
    """Return the action function of a policy for an environment.

    Raises `IncompatibleCheckpointError` if the policy cannot play this environment, and `EnvironmentUsageError` if no
    policy supports observations of this kind.
    """
    env_id = env.spec.id if env.spec is not None else ARENA_ID
    header = player.header
    header.check_env(env_id, sizes_of_one(env), path, alike=env.metadata.get("policies_of", ()))
    hands = PolicyActor(player, env.observation_space, env_id)
    names = tuple(getattr(env.unwrapped, "action_names", ()))
    if len(names) != header.n_actions:
        names = tuple(action_name(i) if header.n_actions == N_ACTIONS else str(i) for i in range(header.n_actions))
    return PolicyActions(hands, names, skips_locked=bool(header.env_options.get("skip_locked", False)))


WINDOW_PX = (800, 450)

_log = logging.getLogger(__name__)


def watch_in_window(
    make_act: Callable[[gymnasium.Env[Any, Any]], Act],
    options: dict[str, Any],
    *,
    seed: int | None = None,
    n_fights: int | None = None,
) -> Tally:
    """Run fights of a policy in a window on the screen until it is closed, or for a number of fights.

    ``seed`` is that of the first fight; it determines all later ones. Raises `SiphonError` if no screen is available,
    or the window does not start.
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
                    if info["n_restarts"]:
                        # A reset restarts a game that has ended, also one whose window was closed meanwhile.
                        _log.info("the window was closed between two fights")
                        break
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
