"""The policy of Rainbow: action values, of which the best allowed action is chosen; works without the training code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import torch
from msgspec import Meta
from numpy.typing import NDArray
from torch import Tensor

from soulslab.errors import IncompatibleCheckpointError
from soulslab.learn.archive import Tensors
from soulslab.learn.inputs import Inputs
from soulslab.learn.network_policy import Choice, NetworkPolicy, RunningMoments
from soulslab.learn.pixel_encoding import shift_pixels
from soulslab.learn.policy_header import ActionScores, NetworkHeader, header_errors, parse_header
from soulslab.learn.policy_view import PolicyView, attribute, gradients, to_array
from soulslab.learn.rainbow.feature_encoding import Encoding, check_bins, count_outputs
from soulslab.learn.rainbow.q_network import QNetwork, count_parameters
from soulslab.learn.rainbow.q_targets import BLOCKED_VALUE, masked_log_policy, mean_values
from soulslab.learn.rainbow.rainbow_settings import QNetworkSettings
from soulslab.learn.torch_device import CPU

FORMAT: Final = "soulslab-action-values"
FORMAT_VERSION: Final = 2
_READ_VERSIONS: Final = (1, FORMAT_VERSION)  # version 1 had no memory

_OBSERVED_AT_ONCE: Final = 4096
"""Number of rows that are expanded at once; bins make rows ten times as long."""


class QHeader(NetworkHeader, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Header of a policy of action values, with features of bins given by index.

    ``temperature`` is that of the softmax over the values, for drawn actions.
    """

    format: str = FORMAT
    version: int = FORMAT_VERSION
    network: QNetworkSettings
    temperature: Annotated[float, Meta(gt=0.0, le=1e6)] = 0.03


class QPolicy(NetworkPolicy[QHeader]):
    """Action values with the expansion and the normaliser of their inputs, whose moments have shape (O,)."""

    network: QNetwork

    def __init__(self, header: QHeader, generator: torch.Generator | None = None, device: torch.device = CPU) -> None:
        """Make an untrained policy; raises ConfigError if bins or hidden features of the header are unknown."""
        check_bins(header.network.bins, header.n_features, header.env_id)
        super().__init__(header, device)
        self.encoding = Encoding(header.n_inputs, header.network.bins, header.find_hidden_features())
        self._weights_generator = generator or torch.Generator().manual_seed(0)
        self.network = self._new_network()
        self.moments = RunningMoments((self.encoding.n_outputs,))

    def copy_network(self) -> QNetwork:
        """Return a network with a copy of the weights."""
        network = self._new_network()
        network.parameters_flat.copy_(self.network.parameters_flat)
        return network

    def _new_network(self) -> QNetwork:
        header, sizes = self.header, (self.encoding.n_outputs, self.header.n_actions)
        return QNetwork(
            *sizes, header.network, self._weights_generator, pixels=header.stacked_pixels, device=self.device
        )

    def place_pixels(
        self, pixels: Tensor | None, shift_px: int, n_samples: int, rng: np.random.Generator
    ) -> Tensor | None:
        """Return pixels for learning on the device of the network; None for None.

        Args:
            pixels: Pixels on the CPU, uint8 (n, H, W, C), or None.
            shift_px: Largest random shift; see `LearnerSettings`.
            n_samples: Number of shifts to draw; row i of the n has the shift ``i % n_samples``.
            rng: Source of the shifts; without pixels or with ``shift_px`` 0 it is not used.
        """
        if pixels is None:
            return None
        if shift_px:
            offsets = rng.integers(-shift_px, shift_px, (n_samples, 2), endpoint=True)
            pixels = shift_pixels(pixels, torch.from_numpy(offsets))
        return pixels.to(self.device)

    def observe(self, features: NDArray[np.float32]) -> None:
        """Update the normaliser with a batch, float32 (B, F)."""
        at_once = _OBSERVED_AT_ONCE if self.header.network.bins else max(1, len(features))
        for start in range(0, len(features), at_once):
            self.moments.update(self.encoding.expand(features[start : start + at_once]))
        self._refresh()

    def normalise(self, features: Tensor, out: Tensor | None = None) -> Tensor:
        """Return the normalised inputs of the network, float32 (B, O), from features and extra inputs (B, F)."""
        if out is None:
            out = torch.empty(len(features), self.encoding.n_outputs)
        self.encoding.normalise(features.numpy(), out.numpy())
        return out

    def values(self, inputs: Inputs) -> Tensor:
        """Return the expected return of each action, allowed or not, float32 (B, A).

        A recurrent policy reads its memory from ``inputs``, and writes the next one there.
        """
        pixels, memory = self._pixels(inputs), self._memory(inputs)
        with torch.no_grad():
            features = self.normalise(torch.from_numpy(inputs.features)).to(self.device)
            seen, following = self.network.see(features, pixels, memory)
            if inputs.next_memory is not None and following is not None:
                inputs.next_memory[:] = following.cpu().numpy()
            return mean_values(self.network.estimate(seen)).cpu()

    def scores(
        self,
        inputs: Inputs,
        mask: NDArray[np.bool_] | None = None,  # noqa: ARG002 (values do not depend on the mask)
    ) -> ActionScores:
        """Return the value of each action; see :class:`soulslab.learn.policy_header.Player`."""
        return ActionScores("value", self.values(inputs).numpy().copy())

    def view(
        self,
        inputs: Inputs,
        mask: NDArray[np.bool_],  # noqa: ARG002 (values do not depend on the mask)
        action: int,
    ) -> PolicyView:
        """Compute a decision again, for display; see :class:`soulslab.learn.policy_header.Player`."""
        with gradients():
            features = self.normalise(torch.from_numpy(inputs.features)).to(self.device).requires_grad_()
            seen, following = self.network.see(features, self._pixels(inputs), self._memory(inputs))
            hidden = self.network.hidden_layers(seen)
            quantiles = self.network.read_out(hidden[-1])
            values = mean_values(quantiles)
            attribution = self.encoding.fold(attribute(values[0, action], features))
        layers = [following, *hidden] if following is not None else hidden
        scores = to_array(values)
        return PolicyView(
            kind="value",
            scores=scores,
            quantiles=to_array(quantiles),
            value=float(scores[action]),
            hidden=[to_array(layer) for layer in layers],
            attribution=attribution,
        )

    def explore(self, inputs: Inputs, mask: NDArray[np.bool_], epsilon: float, rng: np.random.Generator) -> Choice:
        """Choose the best allowed actions, or random allowed ones with probability epsilon."""
        is_random = rng.random(len(mask)) < epsilon
        values = None
        if is_random.all() and not self.header.n_memory:  # a memory follows random actions, too
            actions = np.zeros(len(mask), np.int64)
        else:
            values = self.values(inputs)
            actions = _greedy(values, self._blocked(len(mask), mask)).numpy()
        if is_random.any():
            # The argmax of uniform numbers over the allowed actions is uniformly distributed.
            scores = rng.random(mask.shape) - ~mask
            actions[is_random] = scores.argmax(axis=1)[is_random]
        return Choice(actions, values=values.numpy() if values is not None else None)

    def weights(self) -> Tensors:
        """Return copies of what an actor needs: all parameters in one array, and the moments."""
        flat: NDArray[np.float32] = self.network.parameters_flat.cpu().numpy().copy()
        return {"parameters": flat, **self.moments.state()}

    def load_weights(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Load the result of :meth:`weights` of a policy with the same header."""
        self.network.parameters_flat.copy_(torch.from_numpy(tensors["parameters"]))
        self.moments.load({name: tensors[name] for name in ("mean", "var", "count")})
        self._refresh()

    @classmethod
    def read_header(cls, raw: Mapping[str, Any], path: Path) -> QHeader:
        """Validate the header of a policy file; see :class:`soulslab.learn.network_policy.NetworkPolicy`."""
        header = parse_header(_without_noise(raw, path), path, QHeader, _READ_VERSIONS)
        with header_errors(path):
            check_bins(header.network.bins, header.n_features, header.env_id)
        return header

    @classmethod
    def count_parameters(cls, header: QHeader) -> int:
        """Return the number of parameters of the network that a header describes."""
        n_outputs = count_outputs(header.n_inputs, header.network.bins)
        return count_parameters(n_outputs, header.n_actions, header.network, header.stacked_pixels)

    def _choose(self, inputs: Inputs, blocked: Tensor, *, deterministic: bool) -> Tensor:
        values = self.values(inputs)
        if deterministic:
            return _greedy(values, blocked)
        policy = masked_log_policy(values, blocked, self.header.temperature).exp_()
        return torch.multinomial(policy, 1, generator=self._generator).squeeze(1)

    def _moments(self) -> dict[str, RunningMoments]:
        return {"observation": self.moments}

    def _refresh(self) -> None:
        self.encoding.follow(self.moments)


def _greedy(values: Tensor, blocked: Tensor) -> Tensor:
    """Return the best allowed action of each row, int64 (B,)."""
    return values.masked_fill(blocked, BLOCKED_VALUE).argmax(1)


def _without_noise(raw: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    """Return a header without ``is_noisy``, which earlier commits wrote; raise if the policy has noisy layers."""
    network = raw.get("network")
    if not isinstance(network, Mapping) or "is_noisy" not in network:
        return raw
    if network["is_noisy"] is not False:
        raise IncompatibleCheckpointError(path, "has noisy layers, which soulslab no longer has; train a new policy")
    return {**raw, "network": {name: value for name, value in network.items() if name != "is_noisy"}}
