"""The policy of PPO: features and pixels in, masked action out; works without the training code.

The file is a safetensors archive (:mod:`soulslab.learn.archive`) with the weights of the network, the moments of the
observation and value normalisers, and a header that describes the training environment and the version of soulslab.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from soulslab.errors import EnvironmentUsageError
from soulslab.learn.archive import Tensors, check_n_parameters, check_shapes, read_archive, write_archive
from soulslab.learn.inputs import Inputs
from soulslab.learn.network import ActorCritic, count_parameters, masked_log_probs, sample
from soulslab.learn.normalise import RunningMoments
from soulslab.learn.player import ActionScores, Header, header_errors, parse_header
from soulslab.learn.settings import NetworkSettings

FORMAT: Final = "soulslab-policy"
FORMAT_VERSION: Final = 2
_READ_VERSIONS: Final = (1, FORMAT_VERSION)  # version 1 had no pixels
MAX_NORMALISED: Final = 10.0
"""Normalised features are clipped to this many standard deviations, so that rare large values do not dominate."""

_VALUE_MEMORY: Final = 1_000_000.0
"""Weight of the past in the value normaliser, in transitions; limited, because returns grow during training."""


class PolicyHeader(Header, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Header of an actor-critic policy; see also :class:`soulslab.learn.player.Header`.

    Attributes:
        format: Name of the file format, ``FORMAT``.
        version: Version of the format.
        network: Settings of the network.
    """

    format: str = FORMAT
    version: int = FORMAT_VERSION
    network: NetworkSettings


class Policy:
    """An actor-critic network with the normalisers of its inputs and outputs.

    Attributes:
        header: Header of the policy.
        network: The actor-critic network.
        observation_moments: Mean and variance of the observations, shape (F,).
        value_moments: Mean and variance of the returns, with which the outputs of the critic are normalised.
    """

    def __init__(self, header: PolicyHeader, generator: torch.Generator | None = None) -> None:
        """Make an untrained policy.

        Args:
            header: Header of the policy; it defines the network.
            generator: Random generator of the initial weights; None makes one with seed 0.
        """
        self.header = header
        self.network = ActorCritic(
            header.n_features,
            header.n_actions,
            header.network,
            generator or torch.Generator().manual_seed(0),
            pixels=header.stacked_pixels,
        )
        self.observation_moments = RunningMoments((header.n_features,))
        self.value_moments = RunningMoments((), max_count=_VALUE_MEMORY)
        self._generator = torch.Generator().manual_seed(0)
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

    def judge(self, inputs: Inputs) -> NDArray[np.float32]:
        """Return the normalised values of the critic, float32 (B,)."""
        with torch.inference_mode():
            values: NDArray[np.float32] = self.network.value(*self._tensors(inputs)).numpy()
        return values

    def act(
        self, obs: NDArray[np.float32] | Inputs, mask: NDArray[np.bool_] | None = None, *, deterministic: bool = True
    ) -> NDArray[np.int64]:
        """Choose an action for each observation.

        Args:
            obs: Features of the environment, float32 (B, F) or (F,), or the inputs of a
                :class:`soulslab.learn.inputs.Observer`.
            mask: True for allowed actions, bool (B, A) or (A,); None allows all actions.
            deterministic: Whether to choose the most probable allowed action; otherwise an action is drawn (see
                :meth:`seed`).

        Returns:
            Actions, int64 (B,); a scalar array for one observation.
        """
        inputs = obs if isinstance(obs, Inputs) else Inputs(np.atleast_2d(np.asarray(obs, np.float32)))
        with torch.inference_mode():
            logits = self.network.logits(*self._tensors(inputs))
            blocked = (
                torch.from_numpy(~np.atleast_2d(np.asarray(mask, np.bool_)))
                if mask is not None
                else torch.zeros_like(logits, dtype=torch.bool)
            )
            log_probs = masked_log_probs(logits, blocked)
            chosen = log_probs.argmax(-1) if deterministic else sample(log_probs, self._generator).squeeze(-1)
        actions: NDArray[np.int64] = chosen.numpy()
        return actions if isinstance(obs, Inputs) else actions.reshape(np.shape(obs)[:-1])

    def scores(self, inputs: Inputs, mask: NDArray[np.bool_] | None = None) -> ActionScores:
        """Return the probability of each action; see :class:`soulslab.learn.player.Player`."""
        with torch.inference_mode():
            logits = self.network.logits(*self._tensors(inputs))
            blocked = torch.from_numpy(~mask) if mask is not None else torch.zeros_like(logits, dtype=torch.bool)
            return ActionScores("probability", masked_log_probs(logits, blocked).exp().numpy())

    def seed(self, seed: int) -> None:
        """Seed the random draws of :meth:`act`."""
        self._generator.manual_seed(seed)

    def state(self) -> Tensors:
        """Return copies of all tensors of the policy by name."""
        tensors: Tensors = {
            f"network/{name}": tensor.numpy().copy() for name, tensor in self.network.state_dict().items()
        }
        for prefix, moments in self._moments().items():
            tensors |= {f"{prefix}/{name}": array for name, array in moments.state().items()}
        return tensors

    def load_state(self, tensors: Mapping[str, NDArray[Any]], path: str | Path = "policy") -> None:
        """Load the tensors of :meth:`state`.

        Args:
            tensors: The tensors by name; further ones are ignored.
            path: Source of the tensors, for error messages.

        Raises:
            IncompatibleCheckpointError: A tensor is missing or does not have the shape that the header defines.
        """
        check_shapes(tensors, self.state(), path)
        self.network.load_state_dict(
            {name: torch.from_numpy(tensors[f"network/{name}"].copy()) for name in self.network.state_dict()}
        )
        for prefix, moments in self._moments().items():
            moments.load({name: tensors[f"{prefix}/{name}"] for name in moments.state()})
        self._refresh()

    def save(self, path: Path) -> None:
        """Write the policy to a file, atomically.

        Raises:
            CheckpointError: The file could not be written.
        """
        write_archive(path, self.state(), msgspec.to_builtins(self.header))

    @classmethod
    def load(cls, path: Path) -> Policy:
        """Read a policy from a file.

        Raises:
            CheckpointError: The file does not exist.
            CorruptCheckpointError: The file is truncated or altered.
            IncompatibleCheckpointError: The file is not a policy, or has an unknown version.
        """
        tensors, raw = read_archive(path)
        return cls.from_tensors(raw, tensors, path)

    @classmethod
    def from_tensors(cls, raw: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], path: Path) -> Policy:
        """Build a policy from the header and the tensors of a file.

        Args:
            raw: The header as the file holds it.
            tensors: From :meth:`state`; further ones are ignored.
            path: The file, for error messages.

        Raises:
            CorruptCheckpointError: The header is malformed, or a number is NaN or infinite.
            IncompatibleCheckpointError: The header has another format, or does not match the tensors.
        """
        header = read_header(raw, path)
        sizes = (header.n_features, header.n_actions, header.network, header.stacked_pixels)
        with header_errors(path):
            check_n_parameters(tensors, count_parameters(*sizes), path)
        policy = cls(header)
        policy.load_state(tensors, path)
        return policy

    def _tensors(self, inputs: Inputs) -> tuple[Tensor, Tensor | None]:
        """Return the inputs of the network."""
        pixels = torch.from_numpy(inputs.pixels) if inputs.pixels is not None else None
        if (pixels is None) != (self.header.pixels is None):
            given = "pixels" if pixels is not None else "features alone"
            raise EnvironmentUsageError(
                f"a policy for {self.header.pixels or 'no'} pixels was given {given}; give it the inputs of an "
                "Observer of its environment"
            )
        return self.normalise(inputs.features), pixels

    def _moments(self) -> dict[str, RunningMoments]:
        return {"observation": self.observation_moments, "value": self.value_moments}

    def _refresh(self) -> None:
        self._shift = torch.from_numpy(self.observation_moments.mean.astype(np.float32))
        self._scale = torch.from_numpy((1.0 / self.observation_moments.std).astype(np.float32))


def read_header(raw: Mapping[str, Any], path: Path) -> PolicyHeader:
    """Validate the header of a policy file.

    Raises:
        CorruptCheckpointError: A field is missing or malformed.
        IncompatibleCheckpointError: The file is not a policy, or has an unknown version.
    """
    return parse_header(raw, path, PolicyHeader, _READ_VERSIONS)
