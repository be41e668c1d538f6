"""A policy: features and pixels in, masked action out; usable alone, saved in one file.

The file is a safetensors archive (:mod:`soulslab.learn.archive`): the network's weights, the moments of the
observation and value normalisers, and a header that says what the policy was trained on and by which
soulslab.
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
_READ_VERSIONS: Final = (1, FORMAT_VERSION)  # version 1 knew no pixels
MAX_NORMALISED: Final = 10.0
"""Normalised features are clipped to this many standard deviations, so that a rare one drowns no other."""

_VALUE_MEMORY: Final = 1_000_000.0
"""Transitions after which the value normaliser forgets; returns grow while the policy learns."""


class PolicyHeader(Header, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What an actor-critic policy is and where it comes from; see also :class:`soulslab.learn.player.Header`.

    Attributes:
        format: Kind of file, ``FORMAT``.
        version: Version of the format.
        network: Shape of the network.
    """

    format: str = FORMAT
    version: int = FORMAT_VERSION
    network: NetworkSettings


class Policy:
    """An actor-critic network with the normalisers that its inputs and outputs need.

    Attributes:
        header: What it is and where it comes from.
        network: The actor-critic network.
        observation_moments: Mean and variance of the observations, shape (F,).
        value_moments: Mean and variance of the returns; the critic answers in these units.
    """

    def __init__(self, header: PolicyHeader, generator: torch.Generator | None = None) -> None:
        """Make an untrained policy.

        Args:
            header: What it is.
            generator: Source of the initial weights; by default a fresh one with seed 0.
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
            out: Where to write the result, float32 (B, F).

        Returns:
            float32 (B, F), within ``MAX_NORMALISED`` of 0.
        """
        centred = torch.sub(torch.from_numpy(obs), self._shift, out=out)
        return centred.mul_(self._scale).clamp_(-MAX_NORMALISED, MAX_NORMALISED)

    def judge(self, inputs: Inputs) -> NDArray[np.float32]:
        """Return the critic's normalised values of a batch, float32 (B,)."""
        with torch.inference_mode():
            values: NDArray[np.float32] = self.network.value(*self._tensors(inputs)).numpy()
        return values

    def act(
        self, obs: NDArray[np.float32] | Inputs, mask: NDArray[np.bool_] | None = None, *, deterministic: bool = True
    ) -> NDArray[np.int64]:
        """Choose an action per observation.

        Args:
            obs: Features as the environment gives them, float32 (B, F) or (F,), or what an
                :class:`soulslab.learn.inputs.Observer` made of its observations.
            mask: True where an action is allowed, bool (B, A) or (A,); None allows everything.
            deterministic: Take the likeliest allowed action; otherwise draw one (see :meth:`seed`).

        Returns:
            Actions, int64 (B,); for one observation, an array without axes.
        """
        inputs = obs if isinstance(obs, Inputs) else Inputs(np.atleast_2d(np.asarray(obs, np.float32)))
        with torch.inference_mode():
            logits = self.network.logits(*self._tensors(inputs))
            blocked = (
                torch.zeros_like(logits, dtype=torch.bool)
                if mask is None
                else torch.from_numpy(~np.atleast_2d(np.asarray(mask, np.bool_)))
            )
            log_probs = masked_log_probs(logits, blocked)
            chosen = log_probs.argmax(-1) if deterministic else sample(log_probs, self._generator).squeeze(-1)
        actions: NDArray[np.int64] = chosen.numpy()
        return actions if isinstance(obs, Inputs) else actions.reshape(np.shape(obs)[:-1])

    def scores(self, inputs: Inputs, mask: NDArray[np.bool_] | None = None) -> ActionScores:
        """Return the probability of each action; see :class:`soulslab.learn.player.Player`."""
        with torch.inference_mode():
            logits = self.network.logits(*self._tensors(inputs))
            blocked = torch.zeros_like(logits, dtype=torch.bool) if mask is None else torch.from_numpy(~mask)
            return ActionScores("probability", masked_log_probs(logits, blocked).exp().numpy())

    def seed(self, seed: int) -> None:
        """Seed the draws of :meth:`act`."""
        self._generator.manual_seed(seed)

    def state(self) -> Tensors:
        """Return all tensors of the policy by name, as copies."""
        tensors: Tensors = {
            f"network/{name}": tensor.numpy().copy() for name, tensor in self.network.state_dict().items()
        }
        for prefix, moments in self._moments().items():
            tensors |= {f"{prefix}/{name}": array for name, array in moments.state().items()}
        return tensors

    def load_state(self, tensors: Mapping[str, NDArray[Any]], path: str | Path = "policy") -> None:
        """Take over tensors from :meth:`state`.

        Args:
            tensors: The tensors by name; others may be among them.
            path: Where they come from, for the message.

        Raises:
            IncompatibleCheckpointError: A tensor is missing or has another shape than the header says.
        """
        check_shapes(tensors, self.state(), path)
        self.network.load_state_dict(
            {name: torch.from_numpy(tensors[f"network/{name}"].copy()) for name in self.network.state_dict()}
        )
        for prefix, moments in self._moments().items():
            moments.load({name: tensors[f"{prefix}/{name}"] for name in moments.state()})
        self._refresh()

    def save(self, path: Path) -> None:
        """Write the policy to one file, atomically.

        Raises:
            CheckpointError: The file could not be written.
        """
        write_archive(path, self.state(), msgspec.to_builtins(self.header))

    @classmethod
    def load(cls, path: Path) -> Policy:
        """Read a policy from its file.

        Raises:
            CheckpointError: There is no such file.
            CorruptCheckpointError: The file is truncated or altered.
            IncompatibleCheckpointError: It is no policy, or one of a format that this soulslab does not know.
        """
        tensors, raw = read_archive(path)
        return cls.from_tensors(raw, tensors, path)

    @classmethod
    def from_tensors(cls, raw: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], path: Path) -> Policy:
        """Build a policy from the header and the tensors of a file.

        Args:
            raw: The header as the file holds it.
            tensors: From :meth:`state`; others may be among them.
            path: The file, for messages.

        Raises:
            CorruptCheckpointError: The header is malformed, or a number is NaN or infinite.
            IncompatibleCheckpointError: The header is of another format, or does not describe the tensors.
        """
        header = read_header(raw, path)
        sizes = (header.n_features, header.n_actions, header.network, header.stacked_pixels)
        with header_errors(path):
            check_n_parameters(tensors, count_parameters(*sizes), path)
        policy = cls(header)
        policy.load_state(tensors, path)
        return policy

    def _tensors(self, inputs: Inputs) -> tuple[Tensor, Tensor | None]:
        """Return what the network takes."""
        pixels = None if inputs.pixels is None else torch.from_numpy(inputs.pixels)
        if (pixels is None) != (self.header.pixels is None):
            shown = "features alone" if pixels is None else "pixels"
            raise EnvironmentUsageError(
                f"a policy that looks at {self.header.pixels or 'no'} pixels was shown {shown}; give it what an "
                "Observer made of its environment's observations"
            )
        return self.normalise(inputs.features), pixels

    def _moments(self) -> dict[str, RunningMoments]:
        return {"observation": self.observation_moments, "value": self.value_moments}

    def _refresh(self) -> None:
        self._shift = torch.from_numpy(self.observation_moments.mean.astype(np.float32))
        self._scale = torch.from_numpy((1.0 / self.observation_moments.std).astype(np.float32))


def read_header(raw: Mapping[str, Any], path: Path) -> PolicyHeader:
    """Check and parse the header of a policy's file.

    Raises:
        CorruptCheckpointError: A field is missing or malformed.
        IncompatibleCheckpointError: It is no policy, or one of a format that this soulslab does not know.
    """
    return parse_header(raw, path, PolicyHeader, _READ_VERSIONS)
