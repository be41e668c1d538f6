"""Stepping N environments with the newest weights and sending the transitions, without waiting for the learner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from soulslab.config import Secret
from soulslab.errors import ConfigError
from soulslab.learn.actors.episode_window import EpisodeCounter
from soulslab.learn.actors.reward_factors import RewardFactors
from soulslab.learn.actors.transport import ActorEnd, LearnerEnd
from soulslab.learn.archive import Tensors
from soulslab.learn.environment import (
    Info,
    blocked_actions,
    check_finite,
    decisions_taken,
    fight_names,
    layout,
)
from soulslab.learn.inputs import Inputs
from soulslab.learn.live_feed import LiveFeed
from soulslab.learn.network_policy import Choice, NetworkPolicy
from soulslab.learn.policy_header import Header
from soulslab.learn.replay.step_rows import Outcome, StepShape, row_type
from soulslab.learn.telemetry import ActorStats


class Actor:
    """The environments and the policy that acts in them.

    Attributes:
        env_steps: Number of game decisions so far, all environments together.
        weights_version: Version of the weights with which it acts; -1 before the first.
        live: Feed that shows the first environment, if any.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        policy: NetworkPolicy[Any],
        channel: ActorEnd,
        rng: np.random.Generator,
        *,
        is_greedy: bool = False,
        has_values: bool = False,
    ) -> None:
        """Make an actor; :meth:`reset` must follow, and :meth:`load` may.

        The weights of the policy are replaced by those from the transport; ``rng`` draws the random actions, which a
        greedy actor does not have. ``has_values`` is whether the rows hold the values with which the actions were
        chosen (`StepShape`).
        """
        header = policy.header
        self._env = env
        self._policy = policy
        self._channel = channel
        self._rng = rng
        self._is_greedy = is_greedy
        self._n_envs, self._n_actions = env.num_envs, header.n_actions
        self._observer = header.make_observer(layout(env), self._n_envs)
        self._blocked = np.zeros((self._n_envs, self._n_actions), np.bool_)
        self._has_values = has_values
        self._row_type = row_type(step_shape(header, has_values=has_values))
        self._reward_factors = RewardFactors(self._n_envs)
        self._episode_steps = np.zeros(self._n_envs, np.int64)
        self._counter = EpisodeCounter(self._n_envs, self._n_actions, fight_names(env))
        self.live: LiveFeed | None = None
        self.weights_version = -1
        self._epsilon = 1.0
        self.env_steps = 0

    def reset(self, seed: int) -> None:
        """Start new episodes; environment i is seeded with ``seed + i``."""
        obs, info = self._env.reset(seed=seed)
        self._counter.forget_running()
        self._observer.begin(obs)
        self._episode_steps[:] = 0
        self._read_masks(info)

    def step(self) -> int:
        """Take a step; return its number of game decisions. After NonFiniteError nothing of the step is sent."""
        weights = self._channel.pull(self.weights_version)
        if weights is not None:
            self._policy.load_weights(weights.tensors)
            self.weights_version, self._epsilon = weights.version, weights.epsilon
            self._reward_factors.change(weights.reward_factors)
        self._reward_factors.begin(self._episode_steps == 0)
        choice = self._choose()
        actions = choice.actions
        live = self.live
        if live is not None and live.is_watched:
            live.show(self._env, self._policy, self._observer.inputs, ~self._blocked, actions)
        rows = self._observed(self._observer.inputs, np.arange(self._n_envs))
        rows["blocked"] = np.packbits(self._blocked, axis=1)
        rows["action"], rows["is_first"] = actions, self._episode_steps == 0
        if choice.log_probs is not None:
            rows["log_prob"] = choice.log_probs
        if self._has_values and choice.values is not None:
            self._write_values(rows, choice.values)
        obs, rewards, terminated, truncated, info = self._env.step(actions)
        rewards, info = self._reward_factors.apply(rewards, info)
        decisions = decisions_taken(info, self._n_envs)
        dones = terminated | truncated
        if live is not None:
            live.follow_first(rewards, dones, info)
        check_finite("reward", rewards, self._episode_steps + 1)
        rows["reward"], rows["n_decisions"] = rewards, decisions
        rows["outcome"] = np.where(terminated, Outcome.TERMINATED, np.where(truncated, Outcome.TRUNCATED, 0))
        finals = self._final_rows(info, np.flatnonzero(truncated & ~terminated), actions, decisions)
        self._observer.follow(obs, dones, actions, decisions)
        self._episode_steps += 1
        self._episode_steps[dones] = 0
        self._read_masks(info)
        self._channel.push(np.concatenate((rows, finals)) if finals is not None else rows)
        results = self._counter.record(actions, rewards, decisions, dones, info, self.weights_version)
        if results:
            self._channel.push_episodes(results)
        n_decisions = int(decisions.sum())
        self.env_steps += n_decisions
        return n_decisions

    @property
    def is_between_episodes(self) -> bool:
        """Whether all environments have just been reset, so that no episode is interrupted by a pause."""
        return not self._episode_steps.any()

    def state(self) -> Tensors:
        """Return copies of everything that :meth:`load` needs, without the state of the environments."""
        return {
            **self._observer.state(),
            "noise": self._policy.noise_state(),
            "blocked": self._blocked.copy(),
            "episode_steps": self._episode_steps.copy(),
            "env_steps": np.array([self.env_steps]),
            "episodes": np.frombuffer(self._counter.state(), np.uint8).copy(),
        }

    def load(self, state: Tensors) -> None:
        """Continue from what :meth:`state` returned."""
        self._observer.load(state)
        self._policy.load_noise(state["noise"])
        self._blocked[:] = state["blocked"]
        self._episode_steps[:] = state["episode_steps"]
        self.env_steps = int(state["env_steps"][0])
        self._counter.load(state["episodes"].tobytes())

    def _choose(self) -> Choice:
        """Return actions for training, or the best allowed ones of a greedy actor.

        The policy of a greedy actor is deterministic: the logarithm of the probability of its actions is 0.
        """
        inputs, allowed = self._observer.inputs, ~self._blocked
        if self._is_greedy:
            return Choice(self._policy.act(inputs, allowed))
        return self._policy.explore(inputs, allowed, self._epsilon, self._rng)

    def _write_values(self, rows: NDArray[Any], values: NDArray[np.float32]) -> None:
        """Write the values of the actions in the rows, and of the best allowed actions, from all values (N, A)."""
        best = np.where(self._blocked, -np.inf, values).max(axis=1)
        taken = values[np.arange(len(rows)), rows["action"]]
        known = np.isfinite(best) & np.isfinite(taken)  # without an allowed action there is no best value
        rows["is_valued"] = known
        rows["action_value"], rows["best_value"] = np.where(known, taken, 0.0), np.where(known, best, 0.0)

    def _final_rows(
        self, info: Info, where: NDArray[np.intp], actions: NDArray[np.int64], decisions: NDArray[np.int64]
    ) -> NDArray[Any] | None:
        """Return the rows with the final observations of truncated episodes; None if there are none."""
        if len(where) == 0:
            return None
        rows = self._observed(self._observer.final(info["final_obs"], where, actions, decisions), where)
        rows["outcome"] = Outcome.FINAL
        last = info.get("final_info", {})
        if "action_mask" in last:  # without a mask all actions are allowed
            is_known = last["_action_mask"][where]
            rows["blocked"][is_known] = np.packbits(~last["action_mask"][where[is_known]], axis=1)
        check_finite("observation", rows["features"], self._episode_steps + 1, where)
        return rows

    def _observed(self, inputs: Inputs, streams: NDArray[np.intp]) -> NDArray[Any]:
        rows = np.zeros(len(streams), self._row_type)
        rows["stream"] = streams
        rows["features"] = inputs.features
        if inputs.pixels is not None:
            n_channels = rows["pixels"].shape[-1]
            rows["pixels"] = inputs.pixels[..., -n_channels:]  # only the newest frame of the stack
        if inputs.memory is not None:
            rows["memory"] = inputs.memory
        return rows

    def _read_masks(self, info: Info) -> None:
        self._blocked[:] = blocked_actions(info, self._n_envs, self._n_actions)
        check_finite("observation", self._observer.inputs.features, self._episode_steps)


def step_shape(header: Header, *, has_values: bool = False) -> StepShape:
    """Return the sizes of the steps from which a policy learns."""
    return StepShape(
        n_features=header.n_inputs,
        n_actions=header.n_actions,
        pixels=header.pixels,
        frame_stack=header.frame_stack,
        n_memory=header.n_memory,
        has_log_probs=header.has_log_probs,
        has_values=has_values,
    )


class ActorHandle(Protocol):
    """Actors as the learner sees them: in this process, in another one, or on other machines.

    Attributes:
        is_remote: Whether steps arrive without a call of :meth:`advance`.
        has_values: Whether the rows of the channel hold values of actions (`StepShape`).
        channel: The learner's end of the transport, once :meth:`begin` was called.
    """

    is_remote: bool
    has_values: bool

    @property
    def channel(self) -> LearnerEnd:
        """The learner's end of the transport, once :meth:`begin` was called."""

    def begin(self, state: Tensors | None, env_steps: int) -> None:
        """Start a new run (None), or continue from a state of :meth:`state` after ``env_steps`` game decisions."""

    def advance(self, n_updates_due: float) -> None:
        """Take a step, or wait a short time for steps of other processes.

        ``n_updates_due`` is the number of updates by which the learner is behind its actors.
        """

    def stats(self, env_steps: int, version: int) -> ActorStats:
        """Return statistics, for a learner that has made ``version`` updates."""

    def state(self, *, with_env: bool) -> Tensors:
        """Return what a checkpoint must hold; without the environments after one failed."""

    def saved(self) -> None:
        """Free what the last :meth:`state` holds, because it is in a checkpoint now."""

    def finish(self) -> None:
        """Stop a remote actor; the steps that it took before can still be received."""

    def close(self) -> None:
        """Stop, and free all resources."""


def refuse_secrets(options: Mapping[str, Any]) -> None:
    """Raise ConfigError if an option is a secret, which cannot be passed to the process of a remote actor."""
    for name, value in options.items():
        if isinstance(value, Secret):
            raise ConfigError(
                "is a secret, which cannot be passed to the process of a remote actor; give the path of a file that "
                "holds it (token_file), or set the environment variable SOULSLAB_TOKEN",
                path=f"env.options.{name}",
            )
