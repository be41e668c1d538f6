"""A recorded episode, and recording an episode of a policy.

Shapes: T steps, A actions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import gymnasium
import numpy as np
from numpy.typing import NDArray

from soulslab.learn.inputs import Inputs, Layout, Observer
from soulslab.learn.policy_header import ActionScores, Player

RECORDING: Final = 4
"""Number of the purpose "recording" in :func:`soulslab.learn.environment.environment_seed`; it differs from those of
training and evaluation, so that no policy is evaluated in fights that were recorded for it."""

#: Function of (observation, action mask or None, game decisions so far in this episode) that returns an action.
Act: TypeAlias = Callable[[Any, NDArray[np.bool_] | None, int], int]


class Episode(NamedTuple):
    """Observations, actions and rewards of an episode.

    Observations are stacked along a first axis of T + 1, in a dict for a Dict space. Actions and game decisions are
    int64 (T,), rewards float64 (T,). Masks are True for allowed actions, before each step and at the end, bool (T + 1,
    A). ``is_won`` may be unknown (None); an episode has no ``seed`` if it followed the episode before without a seed.
    """

    observations: Any
    actions: NDArray[np.int64]
    rewards: NDArray[np.float64]
    masks: NDArray[np.bool_] | None
    n_decisions: NDArray[np.int64]
    is_terminated: bool
    is_won: bool | None = None
    seed: int | None = None


def play_episode(env: gymnasium.Env[Any, Any], act: Act, seed: int | None = None) -> Episode:
    """Play and record an episode; ``info`` may hold ``action_mask`` and ``n_decisions``."""
    observation, info = env.reset(seed=seed)
    observations, masks = [observation], [info.get("action_mask")]
    actions: list[int] = []
    rewards: list[float] = []
    n_decisions: list[int] = []
    is_over = terminated = False
    while not is_over:
        action = act(observation, masks[-1], sum(n_decisions))
        observation, reward, terminated, truncated, info = env.step(action)
        observations.append(observation)
        masks.append(info.get("action_mask"))
        actions.append(action)
        rewards.append(float(reward))
        n_decisions.append(int(info.get("n_decisions", 1)))
        is_over = terminated or truncated
    return Episode(
        observations=stack(observations),
        actions=np.array(actions, np.int64),
        rewards=np.array(rewards),
        masks=np.array(masks, np.bool_) if masks[0] is not None else None,
        n_decisions=np.array(n_decisions, np.int64),
        is_terminated=bool(terminated),
        is_won=info.get("fight", {}).get("won"),
        seed=seed,
    )


class PolicyActor:
    """Adapts a policy to :func:`play_episode`."""

    def __init__(self, player: Player, space: gymnasium.Space[Any], env_name: str) -> None:
        header = player.header
        self._player = player
        layout = Layout(space, env_name)
        self._observer = Observer(layout, 1, header.frame_stack, extras=header.extras, n_actions=header.n_actions)
        self._last = np.zeros(1, np.int64)
        self._n_decisions = 0
        self._mask: NDArray[np.bool_] | None = None

    @property
    def inputs(self) -> Inputs:
        """Inputs of the policy for the last action that was chosen, (1, ...)."""
        return self._observer.inputs

    def scores(self) -> ActionScores:
        """Return the scores of the actions, float32 (1, A), for the last action that was chosen."""
        return self._player.scores(self._observer.inputs, self._mask)

    def __call__(self, observation: Any, mask: NDArray[np.bool_] | None, n_decisions: int) -> int:
        """Return the best allowed action."""
        batch = stack([observation])
        if n_decisions == 0:
            self._observer.begin(batch)
        else:
            taken = np.array([n_decisions - self._n_decisions])
            self._observer.follow(batch, np.zeros(1, np.bool_), self._last, taken)
        self._n_decisions = n_decisions
        self._mask = mask[None].copy() if mask is not None else None
        self._last = self._player.act(self._observer.inputs, self._mask)
        return int(self._last[0])


def stack(observations: Sequence[Any]) -> Any:
    """Stack observations along a new first axis; dicts are stacked by key."""
    if isinstance(observations[0], dict):
        return {name: np.stack([observation[name] for observation in observations]) for name in observations[0]}
    return np.stack(observations)
