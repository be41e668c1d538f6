"""The common part of policies with a network: inputs, normalisers, random draws and files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soulslab.errors import ConfigError, EnvironmentUsageError
from soulslab.learn import archive
from soulslab.learn.archive import Tensors
from soulslab.learn.environment import Sizes
from soulslab.learn.inputs import Inputs
from soulslab.learn.policy_header import ActionScores, Header, header_errors
from soulslab.learn.policy_view import PolicyView
from soulslab.learn.settings import AlgorithmSettings
from soulslab.learn.torch_device import CPU
from soulslab.version import VERSION

MIN_STD: Final = 1e-4
"""Smallest standard deviation, so that a feature that was constant is not scaled up when it changes."""


class RunningMoments:
    """Running mean and variance over batches, merged with Chan's parallel form of Welford's update.

    Source: Chan, Golub & LeVeque 1979, "Updating formulae and a pairwise algorithm for computing sample
    variances", equation 2.1. Mean and (population) variance are float64; ``count`` is at most ``max_count``.
    """

    def __init__(self, shape: tuple[int, ...], max_count: float = float("inf")) -> None:
        """Start with mean 0 and variance 1, which the first batch replaces.

        ``max_count`` limits the weight of earlier samples; a finite limit follows a distribution that drifts.
        """
        self.mean = np.zeros(shape, np.float64)
        self.var = np.ones(shape, np.float64)
        self.count = 0.0
        self._max_count = max_count

    def update(self, batch: NDArray[np.floating]) -> None:
        """Merge a batch of samples, shape (B, *shape); an empty batch changes nothing."""
        n_new = float(len(batch))
        if n_new == 0:
            return
        batch_mean = batch.mean(axis=0, dtype=np.float64)
        deviations = batch - batch_mean
        batch_var = np.square(deviations, out=deviations).mean(axis=0)  # without a second large array
        share = n_new / (self.count + n_new)
        delta = batch_mean - self.mean
        self.mean = self.mean + delta * share
        self.var = self.var * (1.0 - share) + batch_var * share + np.square(delta) * (share * (1.0 - share))
        self.count = min(self.count + n_new, self._max_count)

    @property
    def std(self) -> NDArray[np.float64]:
        """Standard deviation, float64, at least ``MIN_STD``."""
        return np.maximum(np.sqrt(self.var), MIN_STD)

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Return copies of everything that :meth:`load` needs."""
        return {"mean": self.mean.copy(), "var": self.var.copy(), "count": np.array([self.count])}

    def load(self, state: dict[str, NDArray[np.float64]]) -> None:
        """Continue from what :meth:`state` returned."""
        self.mean = np.array(state["mean"], np.float64)
        self.var = np.array(state["var"], np.float64)
        self.count = float(state["count"][0])


H = TypeVar("H", bound=Header)


def header_fields(settings: AlgorithmSettings, sizes: Sizes) -> dict[str, Any]:
    """Return the fields of a header that do not depend on the algorithm.

    Raises ConfigError if ``learner.shift_px`` is set for an environment without pixels, or with too small ones.
    """
    shift_px, pixels = settings.learner.shift_px, sizes.pixels
    if shift_px and pixels is None:
        raise ConfigError(
            f"is {shift_px}, but the observations of {settings.env.id} have no pixels; set it to 0",
            path="learner.shift_px",
        )
    if pixels is not None and shift_px >= (side_px := min(pixels.height_px, pixels.width_px)):
        raise ConfigError(
            f"is {shift_px}, but pixels of {pixels} can be shifted by {side_px - 1} at most", path="learner.shift_px"
        )
    return {
        "env_id": settings.env.id,
        "env_options": settings.env.options,
        "n_features": sizes.n_features,
        "n_actions": sizes.n_actions,
        "pixels": sizes.pixels,
        "frame_stack": settings.env.frame_stack,
        "soulslab": VERSION,
        "commit": archive.git_commit(),
        "n_envs": sizes.n_envs,
        "feature_names": sizes.feature_names,
    }


class Choice(NamedTuple):
    """Actions, int64 (B,), and the numbers from which they were chosen.

    ``log_probs`` are the logarithms of the probabilities of the actions, float32 (B,), if ``Header.has_log_probs``.
    ``values`` are the values of all actions, float32 (B, A); None for a policy without values, and if all actions are
    random.
    """

    actions: NDArray[np.int64]
    log_probs: NDArray[np.float32] | None = None
    values: NDArray[np.float32] | None = None


class NetworkPolicy(ABC, Generic[H]):
    """A network on a device, with the normalisers of its inputs and outputs; inputs and results are on the CPU."""

    header: H
    network: nn.Module

    def __init__(self, header: H, device: torch.device = CPU) -> None:
        """Store the header and the device, and seed the random draws with 0."""
        self.header = header
        self.device = device
        self._generator = torch.Generator().manual_seed(0)

    def act(
        self, obs: NDArray[np.float32] | Inputs, mask: NDArray[np.bool_] | None = None, *, deterministic: bool = True
    ) -> NDArray[np.int64]:
        """Choose an action for each observation; see :class:`soulslab.learn.policy_header.Player`."""
        inputs = obs if isinstance(obs, Inputs) else Inputs(np.atleast_2d(np.asarray(obs, np.float32)))
        with torch.inference_mode():
            blocked = self._blocked(len(inputs.features), mask)
            actions: NDArray[np.int64] = self._choose(inputs, blocked, deterministic=deterministic).numpy()
        return actions if isinstance(obs, Inputs) else actions.reshape(np.shape(obs)[:-1])

    def seed(self, seed: int) -> None:
        """Seed the random draws of :meth:`act`."""
        self._generator.manual_seed(seed)

    @abstractmethod
    def explore(self, inputs: Inputs, mask: NDArray[np.bool_], epsilon: float, rng: np.random.Generator) -> Choice:
        """Choose actions for training.

        Args:
            inputs: Inputs of B observations.
            mask: True for allowed actions, bool (B, A).
            epsilon: Share of random actions, for a policy that does not explore by itself.
            rng: Source of the random actions.
        """

    @abstractmethod
    def scores(self, inputs: Inputs, mask: NDArray[np.bool_] | None = None) -> ActionScores:
        """Return the score of each action; see :class:`soulslab.learn.policy_header.Player`."""

    @abstractmethod
    def view(self, inputs: Inputs, mask: NDArray[np.bool_], action: int) -> PolicyView:
        """Compute a decision again, for display; see :class:`soulslab.learn.policy_header.Player`."""

    @abstractmethod
    def weights(self) -> Tensors:
        """Return copies of what an actor needs."""

    @abstractmethod
    def load_weights(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Load the result of :meth:`weights` of a policy with the same header."""

    def noise_state(self) -> NDArray[np.uint8]:
        """Return a copy of the state of the random generator of :meth:`explore`, uint8."""
        state: NDArray[np.uint8] = self._generator.get_state().numpy().copy()
        return state

    def load_noise(self, state: NDArray[np.uint8]) -> None:
        """Restore the state of the random generator from :meth:`noise_state`."""
        self._generator.set_state(torch.from_numpy(np.array(state)))

    def copy(self) -> Self:
        """Return a policy on the CPU with the same header, and copies of the weights."""
        policy = type(self)(self.header)
        policy.load_weights(self.weights())
        return policy

    def state(self) -> Tensors:
        """Return copies of all tensors of the policy by name."""
        network = {name: tensor.cpu().numpy().copy() for name, tensor in self.network.state_dict().items()}
        return archive.join_parts(
            {"network": network, **{name: each.state() for name, each in self._moments().items()}}
        )

    def load_state(self, tensors: Mapping[str, NDArray[Any]], path: str | Path = "policy") -> None:
        """Load the tensors of :meth:`state`; further ones are ignored, and ``path`` is named in errors.

        Raises IncompatibleCheckpointError for a missing tensor, or a shape that the header does not define.
        """
        archive.check_shapes(tensors, self.state(), path)
        parameters = {name: torch.from_numpy(tensors[f"network/{name}"].copy()) for name in self.network.state_dict()}
        self.network.load_state_dict(parameters)
        for name, moments in self._moments().items():
            moments.load(archive.take_part(tensors, name))
        self._refresh()

    def count_decisions(self, env_steps: int) -> dict[str, Any]:
        """Set the number of game decisions in the header; return the header as JSON-compatible values."""
        self.header = msgspec.structs.replace(self.header, env_steps=env_steps)
        header: dict[str, Any] = msgspec.to_builtins(self.header)
        return header

    def save(self, path: Path) -> None:
        """Write the policy to a file, atomically; raises CheckpointError if it cannot be written."""
        archive.write_archive(path, self.state(), msgspec.to_builtins(self.header))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a policy from a file; errors as in `soulslab.learn.players.load_player`."""
        tensors, raw = archive.read_archive(path)
        return cls.from_tensors(raw, tensors, path)

    @classmethod
    def from_tensors(cls, raw: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], path: Path) -> Self:
        """Build a policy from the header and the tensors of a file.

        Raises CorruptCheckpointError for a malformed header or NaN, IncompatibleCheckpointError for another format or a
        header that does not match the tensors.
        """
        header = cls.read_header(raw, path)
        with header_errors(path):
            archive.check_n_parameters(tensors, cls.count_parameters(header), path)
            policy = cls(header)
        policy.load_state(tensors, path)
        return policy

    @classmethod
    @abstractmethod
    def read_header(cls, raw: Mapping[str, Any], path: Path) -> H:
        """Validate the header of a policy file; see `soulslab.learn.policy_header.parse_header`."""

    @classmethod
    @abstractmethod
    def count_parameters(cls, header: H) -> int:
        """Return the number of parameters of the network that a header describes, without building it."""

    @abstractmethod
    def _moments(self) -> dict[str, RunningMoments]:
        """Return the moments of the normalisers, by their names in the file."""

    @abstractmethod
    def _refresh(self) -> None:
        """Use the present moments for normalising from now on."""

    @abstractmethod
    def _choose(self, inputs: Inputs, blocked: Tensor, *, deterministic: bool) -> Tensor:
        """Return an allowed action for each row of inputs, int64 (B,); see :meth:`act`."""

    def _blocked(self, n_rows: int, mask: NDArray[np.bool_] | None) -> Tensor:
        """Return the forbidden actions, bool (B, A); without a mask all actions are allowed."""
        if mask is None:
            return torch.zeros(n_rows, self.header.n_actions, dtype=torch.bool)
        return torch.from_numpy(~np.atleast_2d(np.asarray(mask, np.bool_)))

    def _memory(self, inputs: Inputs | None) -> Tensor | None:
        """Return the state of the recurrent layer, (B, M), on its device; None without such a layer.

        Raises EnvironmentUsageError if ``inputs`` do not have it.
        """
        if not self.header.n_memory:
            return None
        if inputs is None or inputs.memory is None or inputs.next_memory is None:
            raise EnvironmentUsageError(
                f"a policy with network.memory = {self.header.n_memory} needs to know the observations before this "
                "one; give it the inputs of an Observer with this memory"
            )
        return torch.from_numpy(inputs.memory).to(self.device)

    def _pixels(self, inputs: Inputs) -> Tensor | None:
        """Return the pixels on the device of the network; raises EnvironmentUsageError unless it expects them."""
        pixels = torch.from_numpy(inputs.pixels).to(self.device) if inputs.pixels is not None else None
        if (pixels is None) != (self.header.pixels is None):
            given = "pixels" if pixels is not None else "features alone"
            raise EnvironmentUsageError(
                f"a policy for {self.header.pixels or 'no'} pixels was given {given}; give it the inputs of an "
                "Observer of its environment"
            )
        return pixels
