"""Rollouts of N environments in preallocated memory, and their advantages.

Shapes: T steps, N environments, F features, H W C pixels, A actions, M units of a recurrent layer. The transitions are
stored in (T, N, ...) arrays and read by the learner as flat (T * N, ...) views; nothing is allocated per step.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray
from torch import Tensor

from soulslab.learn.archive import Tensors, join_parts, take_part
from soulslab.learn.environment import (
    Info,
    blocked_actions,
    check_finite,
    decisions_taken,
    fight_names,
    layout,
    sizes,
)
from soulslab.learn.inputs import Inputs, Observer
from soulslab.learn.live_feed import LiveFeed
from soulslab.learn.policy import Policy, masked_log_probs, sample
from soulslab.learn.ppo.episode_tracker import EpisodeTracker


class Minibatch(NamedTuple):
    """Transitions selected from a `Rollout`, with the same columns; the first axis of all arrays is B.

    For a recurrent policy the first two axes are T and B, and ``memory`` is the state of its recurrent layer before the
    first step, (B, M).
    """

    obs: Tensor
    pixels: Tensor | None
    blocked: Tensor
    actions: Tensor
    log_probs: Tensor
    advantages: Tensor
    returns: Tensor
    teacher: Tensor | None = None
    memory: Tensor | None = None
    is_first: Tensor | None = None

    def to(self, device: torch.device) -> Minibatch:
        """Return the same transitions on a device."""
        columns: list[Any] = [each.to(device) if each is not None else None for each in self]
        return Minibatch(*columns)


_COLUMNS: Final = Minibatch._fields[:-2]


class Rollout:
    """T steps of N environments; the learner writes advantages and returns.

    With a teacher, ``teacher`` is its probability of each action, float32 (T, N, A); otherwise None.
    """

    def __init__(
        self,
        n_steps: int,
        n_envs: int,
        n_features: int,
        n_actions: int,
        pixels: tuple[int, int, int] | None = None,
        n_memory: int = 0,
    ) -> None:
        shape = (n_steps, n_envs)
        self.n_transitions = n_steps * n_envs
        self.obs = torch.zeros(*shape, n_features)  # normalised
        self.pixels = torch.zeros(*shape, *pixels, dtype=torch.uint8) if pixels is not None else None
        self.blocked = torch.zeros(*shape, n_actions, dtype=torch.bool)
        self.actions = torch.zeros(*shape, 1, dtype=torch.int64)
        self.log_probs = torch.zeros(shape)  # of the action taken, with the weights before the update
        self.weights = np.ones(shape)  # importance weights of V-trace; 1 for actions of the current policy
        self.advantages = torch.zeros(shape)
        self.returns = torch.zeros(shape)
        self.teacher: Tensor | None = None
        self.memory = torch.zeros(n_envs, n_memory)  # before the first step
        self.rewards = np.zeros(shape)
        self.discounts = np.zeros(shape)  # gamma ** n_decisions
        self.dones = np.zeros(shape, np.bool_)  # the episode ended with this step
        self.values = np.zeros((n_steps + 1, n_envs))  # in units of return; the last row follows the rollout
        self.bootstrap = np.zeros(shape)  # values of the final observations of truncated episodes, else 0

    def select(self, index: Tensor) -> Minibatch:
        """Return copies of the transitions at flat positions ``index``, int64 (B,), each in 0..T*N-1."""
        columns = (getattr(self, name) for name in _COLUMNS)
        selected: list[Any] = [
            each.flatten(0, 1).index_select(0, index) if each is not None else None for each in columns
        ]
        return Minibatch(*selected)

    def select_environments(self, index: Tensor) -> Minibatch:
        """Return copies of all steps of the environments ``index``, int64 (B,), for a recurrent policy."""
        is_first = torch.zeros(self.actions.shape, dtype=torch.bool)
        is_first[1:, :, 0] = torch.from_numpy(
            self.dones[:-1]
        )  # the memory before the first step is that of its episode
        columns = (*(getattr(self, name) for name in _COLUMNS), self.memory.unsqueeze(0), is_first)
        selected: list[Any] = [each.index_select(1, index) if each is not None else None for each in columns]
        selected[-2] = selected[-2].squeeze(0)
        return Minibatch(*selected)


def generalised_advantages(rollout: Rollout, gae_lambda: float) -> NDArray[np.float64]:
    """Return generalised advantage estimates in units of return, float64 (T, N).

    Schulman et al. 2016, "High-dimensional continuous control using generalized advantage estimation", equation 16, as
    the recursion A_t = delta_t + gamma * lambda * A_{t+1}. A step of k game decisions is discounted by gamma**k. A
    terminated episode does not bootstrap; a truncated one bootstraps from its final observation (Pardo et al. 2018,
    "Time limits in RL").

    If the actions were drawn from an older policy, ``rollout.weights`` are the V-trace weights rho_t, the probability
    ratios between the current and the older policy, truncated at 1 (Espeholt et al. 2018, "IMPALA", equation 1, with
    c_t = lambda * rho_t). The recursion is then A_t = delta_t + gamma * lambda * rho_{t+1} * A_{t+1}. The value
    targets are ``rollout.weights * advantages + rollout.values[:-1]``.
    """
    n_steps, n_envs = rollout.rewards.shape
    advantages = np.empty((n_steps, n_envs))
    carried = np.zeros(n_envs)
    for t in reversed(range(n_steps)):
        done = rollout.dones[t]
        next_value = np.where(done, rollout.bootstrap[t], rollout.values[t + 1])
        delta = rollout.rewards[t] + rollout.discounts[t] * next_value - rollout.values[t]
        advantages[t] = delta + np.where(done, 0.0, rollout.discounts[t] * gae_lambda * carried)
        carried = rollout.weights[t] * advantages[t]
    return advantages


class RolloutSource(Protocol):
    """Writes rollouts: environments in this process, or steps of actors."""

    def collect(self, policy: Policy, rollout: Rollout, generator: torch.Generator) -> None:
        """Overwrite a rollout, except for advantages and returns; raises NonFiniteError."""


class Collector:
    """N environments, their state between two rollouts, and statistics of their episodes.

    Attributes:
        live: Feed that shows the first environment, if any.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        gamma: float,
        frame_stack: int = 1,
        n_memory: int = 0,
        teacher: Policy | None = None,
    ) -> None:
        """Make a collector; :meth:`reset` or :meth:`load` must follow.

        ``teacher`` computes the probabilities of all actions in each state; it has no memory.
        """
        self._teacher = teacher
        self._env = env
        self.live: LiveFeed | None = None
        self._gamma = gamma
        self._sizes = sizes(env)
        n_envs = self._sizes.n_envs
        self.tracker = EpisodeTracker(n_envs, self._sizes.n_actions, fight_names(env))
        self.env_steps = 0
        self._observer = Observer(layout(env), n_envs, frame_stack, n_memory=n_memory)
        self._blocked = np.zeros((n_envs, self._sizes.n_actions), np.bool_)

    def reset(self, seed: int) -> None:
        """Start new episodes; environment i is seeded with ``seed + i``."""
        obs, info = self._env.reset(seed=seed)
        self.tracker.forget_running()
        self._observer.begin(obs)
        self._read_masks(info)

    def collect(self, policy: Policy, rollout: Rollout, generator: torch.Generator) -> None:
        """Take T steps and overwrite the rollout, except for advantages and returns; raises NonFiniteError."""
        if self._teacher is not None and rollout.teacher is None:
            rollout.teacher = torch.zeros(rollout.blocked.shape)
        mean, std = float(policy.value_moments.mean), float(policy.value_moments.std)
        with torch.inference_mode():
            for t in range(len(rollout.rewards)):
                values = self._act(t, policy, rollout, generator)
                np.multiply(values, std, out=rollout.values[t])
                rollout.values[t] += mean
                self._step(t, policy, rollout)
            rollout.values[-1] = policy.judge(self._observer.inputs) * std + mean
        self.tracker.fights.add_actions(rollout.actions.numpy())

    def state(self) -> Tensors:
        """Return copies of everything that :meth:`load` needs, without the state of the environment."""
        return {
            **self._observer.state(),
            "blocked": self._blocked.copy(),
            "env_steps": np.array([self.env_steps]),
            **join_parts({"tracker": self.tracker.state()}),
        }

    def load(self, state: Tensors) -> None:
        """Continue from what :meth:`state` returned; raises ValueError for an invalid state."""
        self._observer.load(state)
        self._blocked[:] = state["blocked"]
        self.env_steps = int(state["env_steps"][0])
        self.tracker.load(take_part(state, "tracker"))

    def continue_from(self, env_steps: int, n_episodes: int) -> None:
        """Count from a run whose environments were elsewhere; :meth:`reset` must follow."""
        self.env_steps, self.tracker.n_episodes = env_steps, n_episodes

    def _act(self, t: int, policy: Policy, rollout: Rollout, generator: torch.Generator) -> NDArray[np.float32]:
        """Choose and record the actions of step t; return the normalised values of the critic, float32 (N,)."""
        inputs = self._observer.inputs
        policy.observe(inputs.features)
        obs = policy.normalise(inputs.features, out=rollout.obs[t])
        pixels = None
        if inputs.pixels is not None and rollout.pixels is not None:
            pixels = rollout.pixels[t].copy_(torch.from_numpy(inputs.pixels))
        if inputs.memory is not None and t == 0:
            rollout.memory.copy_(torch.from_numpy(inputs.memory))
        blocked = rollout.blocked[t].copy_(torch.from_numpy(self._blocked))
        logits, values = policy.estimate(obs, pixels, inputs)
        log_probs = masked_log_probs(logits, blocked)
        if self._teacher is not None and rollout.teacher is not None:
            seen = inputs if self._teacher.header.pixels is not None else Inputs(inputs.features)
            rollout.teacher[t] = torch.from_numpy(self._teacher.scores(seen, ~self._blocked).numbers)
        actions = sample(log_probs, generator)
        rollout.actions[t] = actions
        rollout.log_probs[t] = log_probs.gather(-1, actions).squeeze(-1)
        result: NDArray[np.float32] = values.numpy()
        return result

    def _step(self, t: int, policy: Policy, rollout: Rollout) -> None:
        """Step the environments and record the results."""
        actions = rollout.actions[t].squeeze(-1).numpy()
        live = self.live
        if live is not None and live.is_watched:
            live.show(self._env, policy, self._observer.inputs, ~self._blocked, actions)
        obs, rewards, terminated, truncated, info = self._env.step(actions)
        dones = terminated | truncated
        decisions = decisions_taken(info, self._sizes.n_envs)
        rollout.rewards[t] = rewards
        rollout.dones[t] = dones
        np.power(self._gamma, decisions, out=rollout.discounts[t])
        check_finite("reward", rollout.rewards[t], self.tracker.steps + 1)
        rollout.bootstrap[t] = 0.0
        cut_short = np.flatnonzero(truncated & ~terminated)
        if len(cut_short):
            values = policy.judge(self._observer.final(info["final_obs"], cut_short, actions, decisions))
            rollout.bootstrap[t, cut_short] = values * policy.value_moments.std + policy.value_moments.mean
        self.env_steps += int(decisions.sum())
        self.tracker.record(rollout.rewards[t], decisions, dones, info)
        if live is not None:
            live.follow_first(rewards, dones, info)
        self._observer.follow(obs, dones, actions, decisions)
        self._read_masks(info)

    def _read_masks(self, info: Info) -> None:
        self._blocked[:] = blocked_actions(info, self._sizes.n_envs, self._sizes.n_actions)
        check_finite("observation", self._observer.inputs.features, self.tracker.steps)
