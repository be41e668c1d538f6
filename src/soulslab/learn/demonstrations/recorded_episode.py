"""A recorded episode, and recording an episode of a policy.

Shapes: T steps, A actions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import gymnasium
import msgspec
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from soulslab.learn.environment import allowed_actions, fight_names
from soulslab.learn.inputs import Inputs, Layout
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
    ``killed_by`` is the attack that ended it, "" for none. ``duel_states`` are the fields of a boss duel, structured
    (T + 1,), with a field ``tick`` where decisions may have been cut short; None if they were not recorded.
    """

    observations: Any
    actions: NDArray[np.int64]
    rewards: NDArray[np.float64]
    masks: NDArray[np.bool_] | None
    n_decisions: NDArray[np.int64]
    is_terminated: bool
    is_won: bool | None = None
    seed: int | None = None
    killed_by: str = ""
    duel_states: NDArray[Any] | None = None


def is_duel(env: gymnasium.Env[Any, Any]) -> bool:
    """Return whether an environment, which may be wrapped, has the states of a boss duel (``duel_state``)."""
    # The property of an instance is computed when it is read, and may fail before the first reset.
    return hasattr(type(env.unwrapped), "duel_state")


def play_episode(env: gymnasium.Env[Any, Any], act: Act, seed: int | None = None) -> Episode:
    """Play and record an episode; ``info`` may hold ``action_mask`` and ``n_decisions``.

    The episode of a duel has its states, so that a boss can be fitted to it.
    """
    observation, info = env.reset(seed=seed)
    observations, masks = [observation], [info.get("action_mask")]
    duel: Any = env.unwrapped
    states = [duel.duel_state.copy()] if is_duel(env) else []
    actions: list[int] = []
    rewards: list[float] = []
    n_decisions: list[int] = []
    is_over = terminated = False
    while not is_over:
        action = act(observation, masks[-1], sum(n_decisions))
        observation, reward, terminated, truncated, info = env.step(action)
        observations.append(observation)
        masks.append(info.get("action_mask"))
        if states:
            states.append(duel.duel_state.copy())
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
        killed_by=_killer(info.get("fight", {}), getattr(env.unwrapped, "attack_names", ())),
        duel_states=np.array(states, states[0].dtype) if states else None,
    )


def _killer(fight: Mapping[str, Any], attacks: Sequence[str]) -> str:
    """Return the attack that ended a fight, from its report; "" for none."""
    number = int(fight.get("killed_by", -1))
    return attacks[number] if 0 <= number < len(attacks) else ""


class EpisodeCollector:
    """Collects the episodes of N environments with same-step autoreset that are stepped together."""

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        seed: int | None,
        observation: Any,
        info: Mapping[str, Any],
        n_first: int | None = None,
    ) -> None:
        """Begin with what ``env.reset(seed=seed)`` returned; only the first episode of an environment has a seed.

        The episodes of duels have their states, so that a boss can be fitted to them. With ``n_first``, only the first
        episode of each of the first ``n_first`` environments is collected, without observations, masks and states: the
        seed and the actions repeat it.
        """
        self._env = env
        self._attacks = fight_names(env).attacks
        self._is_complete = n_first is None
        self._states = self._read_states()
        self._running = {
            i: self._begin(observation, info, i, seed + i if seed is not None else None)
            for i in range(env.num_envs if n_first is None else min(n_first, env.num_envs))
        }

    def _begin(self, observation: Any, info: Mapping[str, Any], i: int, seed: int | None = None) -> _Running:
        if not self._is_complete:
            return _Running([], [], seed=seed)
        return _Running([_one(observation, i)], [_mask(info, i)], seed=seed)

    def follow(
        self,
        actions: NDArray[np.int64],
        step: tuple[Any, NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], Mapping[str, Any]],
        n_decisions: NDArray[np.int64],
    ) -> dict[int, Episode]:
        """Add what ``env.step(actions)`` returned; return the episodes that ended, by the number of the environment."""
        observation, rewards, terminated, truncated, info = step
        states, self._states = self._states, self._read_states()
        ended = {}
        for i, running in list(self._running.items()):
            is_over = bool(terminated[i] or truncated[i])
            running.actions.append(int(actions[i]))
            running.rewards.append(float(rewards[i]))
            running.n_decisions.append(int(n_decisions[i]))
            final = info.get("final_info", {})
            if self._is_complete:
                seen = info["final_obs"][i] if is_over else observation
                running.observations.append(_one(seen, None if is_over else i))
                if states is not None:
                    running.states.append(states[i : i + 1].tobytes())
                running.masks.append(_mask(final if is_over and "action_mask" in final else info, i))
            if is_over:
                report = final.get("fight", {})
                fight = {name: report[name][i] for name in ("won", "killed_by") if name in report}
                episode = running.episode(fight, self._attacks, is_terminated=bool(terminated[i]))
                if states is not None:
                    # The environment shows its next fight already, so the last state is repeated.
                    recorded = b"".join([*running.states, running.states[-1]])
                    episode = episode._replace(duel_states=np.frombuffer(recorded, states.dtype))
                ended[i] = episode
                if self._is_complete:
                    self._running[i] = self._begin(observation, info, i)
                else:
                    del self._running[i]
        return ended

    def _read_states(self) -> NDArray[Any] | None:
        return _read_duel_states(self._env) if self._is_complete else None


class _Running(msgspec.Struct):
    """The steps of an episode that has not ended."""

    observations: list[Any]
    masks: list[Any]
    states: list[bytes] = []  # of the duel, before each step
    seed: int | None = None
    actions: list[int] = []
    rewards: list[float] = []
    n_decisions: list[int] = []

    def episode(self, fight: Mapping[str, Any], attacks: Sequence[str], *, is_terminated: bool) -> Episode:
        return Episode(
            observations=stack(self.observations) if self.observations else None,
            actions=np.array(self.actions, np.int64),
            rewards=np.array(self.rewards),
            masks=np.array(self.masks, np.bool_) if self.masks and self.masks[0] is not None else None,
            n_decisions=np.array(self.n_decisions, np.int64),
            is_terminated=is_terminated,
            is_won=bool(fight["won"]) if "won" in fight else None,
            seed=self.seed,
            killed_by=_killer(fight, attacks),
        )


def _read_duel_states(env: VectorEnv[Any, Any, Any]) -> NDArray[Any] | None:
    """Return copies of the fields of the present boss duels, structured (N,); None of other environments.

    They are ``duel_states`` of a vector environment, or ``duel_state`` of each of its ``envs``.
    """
    base = env.unwrapped
    if hasattr(base, "duel_states"):
        states: NDArray[Any] = base.duel_states
        return states
    envs: Any = getattr(base, "envs", ())
    if envs and all(map(is_duel, envs)):
        found = [each.unwrapped.duel_state for each in envs]
        return np.array(found, found[0].dtype)
    return None


def _one(observations: Any, i: int | None) -> Any:
    """Return a copy of the observation of environment ``i`` of N, or of a single observation (None)."""
    if isinstance(observations, dict):
        return {name: _one(values, i) for name, values in observations.items()}
    return np.array(observations if i is None else observations[i])


def _mask(info: Mapping[str, Any], i: int) -> NDArray[np.bool_] | None:
    allowed = allowed_actions(info)
    return allowed[i].copy() if allowed is not None else None


class PolicyActor:
    """Adapts a policy to :func:`play_episode`."""

    def __init__(self, player: Player, space: gymnasium.Space[Any], env_name: str) -> None:
        self._player = player
        self._observer = player.header.make_observer(Layout(space, env_name), 1)
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
