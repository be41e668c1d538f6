"""One rollout in preallocated memory, and the advantages computed from it.

Shapes: T steps, N environments, F features, H W C pixels, A actions. The transitions are stored in (T, N, ...) arrays
and read by the learner as flat (T * N, ...) views; nothing is allocated per step.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Minibatch(msgspec.Struct, frozen=True):
    """Transitions selected from a rollout; the first axis of all arrays is B.

    Attributes:
        obs: Normalised features, float32 (B, F).
        pixels: uint8 (B, H, W, C), or None.
        blocked: Forbidden actions, bool (B, A).
        actions: Actions taken, int64 (B, 1).
        log_probs: Log-probability of the actions when they were taken, float32 (B,).
        advantages: Normalised advantages, float32 (B,).
        returns: Normalised value targets, float32 (B,).
    """

    obs: Tensor
    pixels: Tensor | None
    blocked: Tensor
    actions: Tensor
    log_probs: Tensor
    advantages: Tensor
    returns: Tensor

    def to(self, device: torch.device) -> Minibatch:
        """Return the transitions on a device; tensors that are there already are not copied."""
        columns: list[Any] = [
            column.to(device) if column is not None else None for column in msgspec.structs.astuple(self)
        ]
        return Minibatch(*columns)


class Rollout:
    """T steps of N environments.

    Attributes:
        obs: Normalised features, float32 (T, N, F).
        pixels: uint8 (T, N, H, W, C), or None.
        blocked: Forbidden actions, bool (T, N, A).
        actions: Actions taken, int64 (T, N, 1).
        log_probs: Log-probability of the action taken, float32 (T, N).
        rewards: float64 (T, N).
        discounts: ``gamma ** n_decisions``, float64 (T, N).
        dones: Whether the episode ended with this step, bool (T, N).
        values: Estimates of the critic in units of return, float64 (T + 1, N); the last row belongs to the observation
            after the rollout.
        bootstrap: Value of the final observation of truncated episodes, else 0; float64 (T, N).
        advantages: float32 (T, N), written by the learner.
        returns: float32 (T, N), written by the learner.
    """

    def __init__(
        self,
        n_steps: int,
        n_envs: int,
        n_features: int,
        n_actions: int,
        pixels: tuple[int, int, int] | None = None,
    ) -> None:
        shape = (n_steps, n_envs)
        self.n_transitions = n_steps * n_envs
        self.obs = torch.zeros(*shape, n_features)
        self.pixels = torch.zeros(*shape, *pixels, dtype=torch.uint8) if pixels is not None else None
        self.blocked = torch.zeros(*shape, n_actions, dtype=torch.bool)
        self.actions = torch.zeros(*shape, 1, dtype=torch.int64)
        self.log_probs = torch.zeros(shape)
        self.advantages = torch.zeros(shape)
        self.returns = torch.zeros(shape)
        self.rewards = np.zeros(shape)
        self.discounts = np.zeros(shape)
        self.dones = np.zeros(shape, np.bool_)
        self.values = np.zeros((n_steps + 1, n_envs))
        self.bootstrap = np.zeros(shape)

    def select(self, index: Tensor) -> Minibatch:
        """Return the transitions at flat positions ``index``, int64 (B,), each in 0..T*N-1."""
        return Minibatch(
            obs=self.obs.flatten(0, 1).index_select(0, index),
            pixels=self.pixels.flatten(0, 1).index_select(0, index) if self.pixels is not None else None,
            blocked=self.blocked.flatten(0, 1).index_select(0, index),
            actions=self.actions.flatten(0, 1).index_select(0, index),
            log_probs=self.log_probs.flatten().index_select(0, index),
            advantages=self.advantages.flatten().index_select(0, index),
            returns=self.returns.flatten().index_select(0, index),
        )


def generalised_advantages(rollout: Rollout, gae_lambda: float) -> NDArray[np.float64]:
    """Compute generalised advantage estimates.

    Schulman et al. 2016, "High-dimensional continuous control using generalized advantage estimation", equation 16, as
    the recursion A_t = delta_t + gamma * lambda * A_{t+1}. A step of k game decisions is discounted by gamma**k. A
    terminated episode does not bootstrap; a truncated one bootstraps from its final observation (Pardo et al. 2018,
    "Time limits in RL").

    Args:
        rollout: Rewards, discounts, dones, values and bootstrap values are used.
        gae_lambda: Decay per step, 0..1.

    Returns:
        Advantages in units of return, float64 (T, N). The value targets are the advantages plus
        ``rollout.values[:-1]``.
    """
    n_steps, n_envs = rollout.rewards.shape
    advantages = np.empty((n_steps, n_envs))
    carried = np.zeros(n_envs)
    for t in reversed(range(n_steps)):
        done = rollout.dones[t]
        next_value = np.where(done, rollout.bootstrap[t], rollout.values[t + 1])
        delta = rollout.rewards[t] + rollout.discounts[t] * next_value - rollout.values[t]
        carried = delta + np.where(done, 0.0, rollout.discounts[t] * gae_lambda * carried)
        advantages[t] = carried
    return advantages
