"""Collecting rollouts in N environments, without a Python loop over the environments."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from soulslab.learn.actor_critic import masked_log_probs, sample
from soulslab.learn.archive import Tensors
from soulslab.learn.environment import (
    Info,
    blocked_actions,
    check_finite,
    decisions_taken,
    layout,
    sizes,
)
from soulslab.learn.inputs import Observer
from soulslab.learn.policy import Policy
from soulslab.learn.ppo.episode_tracker import EpisodeTracker
from soulslab.learn.ppo.rollout import Rollout


class Collector:
    """N environments and their state between two rollouts.

    Attributes:
        tracker: Statistics of the episodes.
        env_steps: Number of game decisions so far, all environments together.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], gamma: float, frame_stack: int = 1) -> None:
        """Make a collector; :meth:`reset` or :meth:`load` must follow.

        Args:
            env: From :func:`soulslab.learn.environment.make_vector`.
            gamma: Discount per game decision.
            frame_stack: Number of last frames of each environment that the policy sees.

        Raises:
            EnvironmentUsageError: Frames are to be stacked, but the observations have no pixels.
        """
        self._env = env
        self._gamma = gamma
        self._sizes = sizes(env)
        n_envs = self._sizes.n_envs
        self.tracker = EpisodeTracker(n_envs)
        self.env_steps = 0
        self._observer = Observer(layout(env), n_envs, frame_stack)
        self._blocked = np.zeros((n_envs, self._sizes.n_actions), np.bool_)

    def reset(self, seed: int) -> None:
        """Start new episodes; environment i is seeded with ``seed + i``."""
        obs, info = self._env.reset(seed=seed)
        self.tracker.forget_running()
        self._observer.begin(obs)
        self._look(info)

    def collect(self, policy: Policy, rollout: Rollout, generator: torch.Generator) -> None:
        """Take T steps and record them.

        Args:
            policy: Chooses the actions; its observation normaliser is updated.
            rollout: Overwritten, except for advantages and returns.
            generator: Random generator of the action draws.

        Raises:
            NonFiniteError: A reward or an observation is NaN or infinite.
        """
        mean, std = float(policy.value_moments.mean), float(policy.value_moments.std)
        with torch.inference_mode():
            for t in range(len(rollout.rewards)):
                values = self._act(t, policy, rollout, generator)
                np.multiply(values, std, out=rollout.values[t])
                rollout.values[t] += mean
                self._step(t, policy, rollout)
            rollout.values[-1] = policy.judge(self._observer.inputs) * std + mean

    def state(self) -> Tensors:
        """Return copies of everything that :meth:`load` needs, without the state of the environment."""
        tracker = {f"tracker/{name}": array for name, array in self.tracker.state().items()}
        return {
            **self._observer.state(),
            "blocked": self._blocked.copy(),
            "env_steps": np.array([self.env_steps]),
            **tracker,
        }

    def load(self, state: Tensors) -> None:
        """Continue from what :meth:`state` returned.

        Raises:
            ValueError: The state is invalid.
        """
        self._observer.load(state)
        self._blocked[:] = state["blocked"]
        if self._blocked.all(axis=1).any():
            raise ValueError("an environment has no allowed action")
        self.env_steps = int(state["env_steps"][0])
        self.tracker.load({name: state[f"tracker/{name}"] for name in self.tracker.state()})

    def _act(self, t: int, policy: Policy, rollout: Rollout, generator: torch.Generator) -> NDArray[np.float32]:
        """Choose and record the actions of step t; return the normalised values of the critic, float32 (N,)."""
        features, frames = self._observer.inputs
        policy.observe(features)
        obs = policy.normalise(features, out=rollout.obs[t])
        pixels = None
        if frames is not None and rollout.pixels is not None:
            pixels = rollout.pixels[t].copy_(torch.from_numpy(frames))
        blocked = rollout.blocked[t].copy_(torch.from_numpy(self._blocked))
        logits, values = policy.estimate(obs, pixels)
        log_probs = masked_log_probs(logits, blocked)
        actions = sample(log_probs, generator)
        rollout.actions[t] = actions
        rollout.log_probs[t] = log_probs.gather(-1, actions).squeeze(-1)
        result: NDArray[np.float32] = values.numpy()
        return result

    def _step(self, t: int, policy: Policy, rollout: Rollout) -> None:
        """Step the environments and record the results."""
        actions = rollout.actions[t].squeeze(-1).numpy()
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
            values = policy.judge(self._observer.final(info["final_obs"], cut_short))
            rollout.bootstrap[t, cut_short] = values * policy.value_moments.std + policy.value_moments.mean
        self.env_steps += int(decisions.sum())
        self.tracker.record(rollout.rewards[t], decisions, dones, info)
        self._observer.follow(obs, dones)
        self._look(info)

    def _look(self, info: Info) -> None:
        self._blocked[:] = blocked_actions(info, self._sizes.n_envs, self._sizes.n_actions)
        check_finite("observation", self._observer.inputs.features, self.tracker.steps)
