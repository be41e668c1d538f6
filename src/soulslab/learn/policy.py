"""The policy of PPO: features and pixels in, masked action out; works without the training code.

The file is a safetensors archive (:mod:`soulslab.learn.archive`) with the weights of the network, the moments of the
observation and value normalisers, and a header that describes the training environment and the version of soulslab.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from soulslab.learn.actor_critic import ActorCritic, Estimate, count_parameters, masked_log_probs, sample
from soulslab.learn.inputs import Inputs
from soulslab.learn.network_policy import NetworkPolicy
from soulslab.learn.policy_header import ActionScores, Header, parse_header
from soulslab.learn.running_moments import RunningMoments
from soulslab.learn.settings import NetworkSettings
from soulslab.learn.torch_device import CPU

FORMAT: Final = "soulslab-policy"
FORMAT_VERSION: Final = 2
_READ_VERSIONS: Final = (1, FORMAT_VERSION)  # version 1 had no pixels
MAX_NORMALISED: Final = 10.0
"""Normalised features are clipped to this many standard deviations, so that rare large values do not dominate."""

_VALUE_MEMORY: Final = 1_000_000.0
"""Weight of the past in the value normaliser, in transitions; limited, because returns grow during training."""


class PolicyHeader(Header, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Header of an actor-critic policy; see also :class:`soulslab.learn.policy_header.Header`.

    Attributes:
        format: Name of the file format, ``FORMAT``.
        version: Version of the format.
        network: Settings of the network.
    """

    format: str = FORMAT
    version: int = FORMAT_VERSION
    network: NetworkSettings


class Policy(NetworkPolicy[PolicyHeader]):
    """An actor-critic network with the normalisers of its inputs and outputs.

    Attributes:
        header: Header of the policy.
        network: The actor-critic network.
        observation_moments: Mean and variance of the observations, shape (F,).
        value_moments: Mean and variance of the returns, with which the outputs of the critic are normalised.
    """

    def __init__(
        self, header: PolicyHeader, generator: torch.Generator | None = None, device: torch.device = CPU
    ) -> None:
        """Make an untrained policy.

        Args:
            header: Header of the policy; it defines the network.
            generator: Random generator of the initial weights; None makes one with seed 0.
            device: Device of the network.
        """
        super().__init__(header, generator, device)
        self.network = ActorCritic(
            header.n_features,
            header.n_actions,
            header.network,
            generator or torch.Generator().manual_seed(0),
            pixels=header.stacked_pixels,
        ).to(device)
        self.observation_moments = RunningMoments((header.n_features,))
        self.value_moments = RunningMoments((), max_count=_VALUE_MEMORY)
        self._shift = torch.zeros(header.n_features)
        self._scale = torch.ones(header.n_features)

    def observe(self, obs: NDArray[np.float32]) -> None:
        """Update the observation normaliser with a batch, float32 (B, F)."""
        self.observation_moments.update(obs)
        self._refresh()

    def normalise(self, obs: NDArray[np.float32], out: Tensor | None = None) -> Tensor:
        """Return observations in units of their standard deviation, clipped.

        Args:
            obs: float32 (B, F).
            out: Array for the result, float32 (B, F); None allocates one.

        Returns:
            float32 (B, F), within ``MAX_NORMALISED`` of 0.
        """
        centred = torch.sub(torch.from_numpy(obs), self._shift, out=out)
        return centred.mul_(self._scale).clamp_(-MAX_NORMALISED, MAX_NORMALISED)

    def estimate(self, obs: Tensor, pixels: Tensor | None) -> Estimate:
        """Return logits and values for normalised observations; see :meth:`ActorCritic.forward`.

        Args:
            obs: Normalised features, float32 (B, F).
            pixels: uint8 (B, H, W, C), or None.

        Returns:
            Logits and normalised values, on the CPU.
        """
        on_device = pixels.to(self.device) if pixels is not None else None
        logits, values = self.network(obs.to(self.device), on_device)
        return Estimate(logits.cpu(), values.cpu())

    def judge(self, inputs: Inputs) -> NDArray[np.float32]:
        """Return the normalised values of the critic, float32 (B,)."""
        with torch.inference_mode():
            values: NDArray[np.float32] = self.network.value(*self._tensors(inputs)).cpu().numpy()
        return values

    def scores(self, inputs: Inputs, mask: NDArray[np.bool_] | None = None) -> ActionScores:
        """Return the probability of each action; see :class:`soulslab.learn.policy_header.Player`."""
        with torch.inference_mode():
            log_probs = self._log_probs(inputs, self._blocked(len(inputs.features), mask))
            return ActionScores("probability", log_probs.exp().numpy())

    @classmethod
    def read_header(cls, raw: Mapping[str, Any], path: Path) -> PolicyHeader:
        """Validate the header of a policy file; see :class:`soulslab.learn.network_policy.NetworkPolicy`."""
        return parse_header(raw, path, PolicyHeader, _READ_VERSIONS)

    @classmethod
    def count_parameters(cls, header: PolicyHeader) -> int:
        """Return the number of parameters of the network that a header describes."""
        return count_parameters(header.n_features, header.n_actions, header.network, header.stacked_pixels)

    def _choose(self, inputs: Inputs, blocked: Tensor, *, deterministic: bool) -> Tensor:
        log_probs = self._log_probs(inputs, blocked)
        return log_probs.argmax(-1) if deterministic else sample(log_probs, self._generator).squeeze(-1)

    def _log_probs(self, inputs: Inputs, blocked: Tensor) -> Tensor:
        return masked_log_probs(self.network.logits(*self._tensors(inputs)).cpu(), blocked)

    def _tensors(self, inputs: Inputs) -> tuple[Tensor, Tensor | None]:
        """Return the inputs of the network."""
        pixels = self._pixels(inputs)
        return self.normalise(inputs.features).to(self.device), pixels

    def _network(self) -> ActorCritic:
        return self.network

    def _moments(self) -> dict[str, RunningMoments]:
        return {"observation": self.observation_moments, "value": self.value_moments}

    def _refresh(self) -> None:
        self._shift = torch.from_numpy(self.observation_moments.mean.astype(np.float32))
        self._scale = torch.from_numpy((1.0 / self.observation_moments.std).astype(np.float32))
