"""Masked proximal policy optimisation, told from top to bottom.

Schulman et al. 2017, "Proximal policy optimization algorithms". One iteration:

1. Play T steps in N environments with the current policy (:mod:`soulslab.learn.collect`).
2. Say how much better each action was than expected: the advantages (:mod:`soulslab.learn.rollout`).
3. Go over the T * N transitions a few times in shuffled minibatches. Make better actions likelier, but take
   back the incentive once an action's probability has changed by more than ``clip``; the old data says
   nothing about policies further away. Train the critic on the returns. Keep some entropy, so that
   exploration lasts.

The masks of the environment hold in playing and in learning alike: a forbidden action has probability 0 in
the ratio, in the entropy and in the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soulslab.errors import DivergedError
from soulslab.learn.archive import Tensors
from soulslab.learn.collect import Collector
from soulslab.learn.network import masked_log_probs
from soulslab.learn.policy import Policy
from soulslab.learn.rollout import Minibatch, Rollout, generalised_advantages
from soulslab.learn.settings import PPOSettings
from soulslab.learn.telemetry import UpdateStats

_ADAM_EPSILON: Final = 1e-5
_MIN_STD: Final = 1e-8
_ADAM_STATE: Final = ("step", "exp_avg", "exp_avg_sq")


class _Weights(NamedTuple):
    """What the schedules say for one update."""

    lr: float
    entropy: float


class PPO:
    """The learner: a policy, its optimiser, and the memory of one rollout."""

    def __init__(self, settings: PPOSettings, policy: Policy, n_envs: int, generator: torch.Generator) -> None:
        """Set up the learner.

        Args:
            settings: How it learns.
            policy: What is trained.
            n_envs: N.
            generator: Source of the action draws and of the shuffling.
        """
        self._settings = settings
        self._policy = policy
        self._generator = generator
        header = policy.header
        self._rollout = Rollout(settings.n_steps, n_envs, header.n_features, header.n_actions, header.stacked_pixels)
        self._order = torch.empty(self._rollout.n_transitions, dtype=torch.int64)
        self._parameters = list(policy.network.parameters())
        self._optimiser = torch.optim.Adam(self._parameters, lr=settings.lr, eps=_ADAM_EPSILON, fused=True)

    def iterate(self, collector: Collector, progress: float) -> UpdateStats:
        """Play one rollout and learn from it.

        Args:
            collector: The environments.
            progress: How far the run is, 0..1; the schedules follow it.

        Returns:
            What the update did.

        Raises:
            NonFiniteError: An environment gave NaN or infinity.
            DivergedError: A gradient was NaN or infinite, and so are the weights now.
        """
        collector.collect(self._policy, self._rollout, self._generator)
        explained_variance = self._judge()
        weights = self._schedule(progress)
        means = self._update(weights)
        if not math.isfinite(means["grad_norm"]):
            raise DivergedError(collector.env_steps, means["grad_norm"])
        return UpdateStats(
            env_steps=collector.env_steps,
            explained_variance=explained_variance,
            lr=weights.lr,
            entropy_coef=weights.entropy,
            **means,
        )

    def _judge(self) -> float:
        """Fill in advantages and value targets; return the share of the returns that the critic foresaw."""
        rollout, moments = self._rollout, self._policy.value_moments
        advantages = generalised_advantages(rollout, self._settings.gae_lambda)
        returns = advantages + rollout.values[:-1]
        old = (float(moments.mean), float(moments.std))
        moments.update(returns.reshape(-1))
        new = (float(moments.mean), float(moments.std))
        self._policy.network.rescale_critic(old, new)
        rollout.returns.copy_(torch.from_numpy((returns - new[0]) / new[1]))
        normalised = (advantages - advantages.mean()) / (advantages.std() + _MIN_STD)
        rollout.advantages.copy_(torch.from_numpy(normalised))
        return 1.0 - float(advantages.var() / max(returns.var(), _MIN_STD))

    def _schedule(self, progress: float) -> _Weights:
        settings = self._settings
        lr = settings.lr + (settings.lr_end - settings.lr) * progress
        for group in self._optimiser.param_groups:
            group["lr"] = lr
        return _Weights(lr, settings.entropy + (settings.entropy_end - settings.entropy) * progress)

    def _update(self, weights: _Weights) -> dict[str, float]:
        """Go over the rollout ``n_epochs`` times; return the means of the measurements by name."""
        measurements: list[dict[str, Tensor]] = []
        for _ in range(self._settings.n_epochs):
            epoch: list[dict[str, Tensor]] = []
            for batch in self._minibatches():
                loss, measured = self._loss(batch, weights)
                self._optimiser.zero_grad(set_to_none=True)
                torch.autograd.backward(loss)
                measured["grad_norm"] = nn.utils.clip_grad_norm_(self._parameters, self._settings.max_grad_norm)
                self._optimiser.step()
                epoch.append(measured)
            measurements += epoch
            moved = sum(float(measured["approx_kl"]) for measured in epoch) / len(epoch)
            if 0.0 < self._settings.target_kl < moved:
                break
        names = measurements[0]
        return {name: float(torch.stack([m[name] for m in measurements]).mean()) for name in names}

    def _minibatches(self) -> Iterator[Minibatch]:
        """Yield the rollout in shuffled parts of equal size."""
        n_transitions = self._rollout.n_transitions
        torch.randperm(n_transitions, generator=self._generator, out=self._order)
        n_parts = max(1, round(n_transitions / self._settings.minibatch_size))
        for index in self._order.tensor_split(n_parts):
            yield self._rollout.select(index)

    def _loss(self, batch: Minibatch, weights: _Weights) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of a minibatch, and what was measured on the way."""
        logits, values = self._policy.network(batch.obs, batch.pixels)
        log_probs = masked_log_probs(logits, batch.blocked)
        # Equation 7 of Schulman et al. 2017, negated: the worse of the plain and the clipped objective.
        log_ratio = log_probs.gather(-1, batch.actions).squeeze(-1) - batch.log_probs
        ratio = log_ratio.exp()
        clip = self._settings.clip
        clipped = ratio.clamp(1.0 - clip, 1.0 + clip)
        policy_loss = -torch.minimum(ratio * batch.advantages, clipped * batch.advantages).mean()
        value_loss = nn.functional.mse_loss(values, batch.returns)
        entropy = -(log_probs.exp() * log_probs).sum(dim=-1).mean()
        loss = policy_loss + self._settings.value_coef * value_loss - weights.entropy * entropy
        with torch.no_grad():
            measured = {
                "policy_loss": policy_loss.detach(),
                "value_loss": value_loss.detach(),
                "entropy": entropy.detach(),
                "approx_kl": (ratio - 1.0 - log_ratio).mean(),
                "clip_fraction": ((ratio - 1.0).abs() > clip).float().mean(),
            }
        return loss, measured

    def state(self) -> Tensors:
        """Return copies of the optimiser's and the random generator's state.

        The policy has its own.
        """
        tensors: Tensors = {"generator": self._generator.get_state().numpy().copy()}
        for i, parameter in enumerate(self._parameters):
            for name, tensor in self._optimiser.state[parameter].items():
                tensors[f"adam/{i}/{name}"] = tensor.numpy().copy()
        return tensors

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what :meth:`state` returned."""
        self._generator.set_state(torch.from_numpy(np.array(state["generator"])))
        for i, parameter in enumerate(self._parameters):
            is_fresh = not any(f"adam/{i}/{name}" in state for name in _ADAM_STATE)
            names = () if is_fresh else _ADAM_STATE
            stored = {name: torch.from_numpy(np.array(state[f"adam/{i}/{name}"])) for name in names}
            # The fused step walks memory: moments must lie there as their parameter does.
            self._optimiser.state[parameter] = {
                name: tensor.reshape(())
                if name == "step"
                else torch.empty_like(parameter, requires_grad=False).copy_(tensor)
                for name, tensor in stored.items()
            }
