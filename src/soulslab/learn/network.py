"""The actor-critic network, and distributions over the actions that a mask allows.

Shapes: B batch, F features, A actions.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn

from soulslab.learn.settings import NetworkSettings

BLOCKED_LOGIT: Final = -1e9
"""Logit of a forbidden action: its probability is 0 in float32, and no infinity enters the gradient."""

_ACTIVATIONS: Final[dict[str, type[nn.Module]]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "silu": nn.SiLU}
_HIDDEN_GAIN: Final = math.sqrt(2.0)
_HEAD_GAIN: Final = 0.01


class Estimate(NamedTuple):
    """What the network says about a batch of observations.

    Attributes:
        logits: One score per action, unmasked, float32 (B, A).
        values: Expected return in the critic's normalised units, float32 (B,).
    """

    logits: Tensor
    values: Tensor


class ActorCritic(nn.Module):
    """Two multi-layer perceptrons, or one with two heads.

    Orthogonal weights, and heads so small that the first policy is nearly uniform and the first values nearly
    0, which leaves the first rollouts to the rewards: Engstrom et al. 2020, "Implementation matters";
    Andrychowicz et al. 2021, "What matters in on-policy reinforcement learning?", section 3.2.
    """

    def __init__(self, n_features: int, n_actions: int, settings: NetworkSettings, generator: torch.Generator) -> None:
        """Build the network.

        Args:
            n_features: F.
            n_actions: A.
            settings: Widths, activation, and whether actor and critic share their trunk.
            generator: Source of the initial weights.
        """
        super().__init__()
        self.trunk = _trunk(n_features, settings, generator)
        self.critic_trunk = None if settings.shared else _trunk(n_features, settings, generator)
        self.actor = _linear(settings.widths[-1], n_actions, _HEAD_GAIN, generator)
        self.critic = _linear(settings.widths[-1], 1, _HEAD_GAIN, generator)

    def forward(self, obs: Tensor) -> Estimate:
        """Estimate actions and values.

        Args:
            obs: Normalised observations, float32 (B, F).

        Returns:
            Logits and normalised values.
        """
        hidden: Tensor = self.trunk(obs)
        critic_hidden = hidden if self.critic_trunk is None else self.critic_trunk(obs)
        return Estimate(self.actor(hidden), self.critic(critic_hidden).squeeze(-1))

    def logits(self, obs: Tensor) -> Tensor:
        """Return the actor's logits alone, float32 (B, A), for normalised observations (B, F)."""
        result: Tensor = self.actor(self.trunk(obs))
        return result

    def value(self, obs: Tensor) -> Tensor:
        """Return the critic's normalised values alone, float32 (B,), for normalised observations (B, F)."""
        result: Tensor = self.critic((self.critic_trunk or self.trunk)(obs)).squeeze(-1)
        return result

    @torch.no_grad()
    def rescale_critic(self, old: tuple[float, float], new: tuple[float, float]) -> None:
        """Keep the critic's answers, in units of return, while the units of its output change.

        PopArt: van Hasselt et al. 2016, "Learning values across many orders of magnitude", equation 9.

        Args:
            old: Mean and standard deviation that the output was normalised with.
            new: Mean and standard deviation that it is normalised with from now on.
        """
        (old_mean, old_std), (new_mean, new_std) = old, new
        self.critic.weight.mul_(old_std / new_std)
        self.critic.bias.mul_(old_std).add_(old_mean - new_mean).div_(new_std)


def masked_log_probs(logits: Tensor, blocked: Tensor) -> Tensor:
    """Return log-probabilities in which forbidden actions have probability exactly 0.

    Masking the logits makes the policy gradient that of the masked policy: Huang & Ontanon 2022, "A closer
    look at invalid action masking in policy gradient algorithms", proposition 1.

    Args:
        logits: float32 (B, A).
        blocked: True where an action is forbidden, bool (B, A). A row that forbids everything becomes
            uniform.

    Returns:
        Log-probabilities, float32 (B, A).
    """
    return torch.log_softmax(logits.masked_fill(blocked, BLOCKED_LOGIT), dim=-1)


def sample(log_probs: Tensor, generator: torch.Generator) -> Tensor:
    """Draw one action per row by inverting the cumulative distribution.

    The threshold lies in (0, total], so the first action that reaches it has a probability above 0: a
    forbidden action is never drawn, whatever the rounding. Five times faster than drawing a number per
    action.

    Args:
        log_probs: float32 (B, A).
        generator: Source of the B uniform numbers.

    Returns:
        Actions, int64 (B, 1).
    """
    cumulative = log_probs.exp().cumsum(dim=-1)
    uniform = torch.rand(len(log_probs), 1, generator=generator)
    threshold = (1.0 - uniform) * cumulative[:, -1:]
    return torch.searchsorted(cumulative, threshold)


def _trunk(n_features: int, settings: NetworkSettings, generator: torch.Generator) -> nn.Sequential:
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise((n_features, *settings.widths)):
        layers += [_linear(n_in, n_out, _HIDDEN_GAIN, generator), _ACTIVATIONS[settings.activation]()]
    return nn.Sequential(*layers)


def _linear(n_in: int, n_out: int, gain: float, generator: torch.Generator) -> nn.Linear:
    layer = nn.Linear(n_in, n_out)
    nn.init.orthogonal_(layer.weight, gain, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer
