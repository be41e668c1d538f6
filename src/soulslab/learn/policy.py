"""The policy of PPO: its network, features and pixels in, masked action out; works without the training code.

The file is a safetensors archive (:mod:`soulslab.learn.archive`) with the weights of the network, the moments of the
observation and value normalisers, and a header that describes the training environment and the version of soulslab.

Shapes: B batch, T steps, F features, H W C pixels, A actions, M units of the recurrent layer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soulslab.learn.archive import Tensors
from soulslab.learn.inputs import Inputs
from soulslab.learn.network_policy import Choice, NetworkPolicy, RunningMoments
from soulslab.learn.pixel_encoding import ImpalaEncoder, PixelEncoder, residual_size, stack_size
from soulslab.learn.policy_header import ActionScores, NetworkHeader, parse_header
from soulslab.learn.policy_view import PolicyView, attribute, gradients, to_array
from soulslab.learn.settings import NetworkSettings
from soulslab.learn.torch_device import CPU

BLOCKED_LOGIT: Final = -1e9
"""Logit of a forbidden action; its probability is 0 in float32, and the gradient stays finite."""

_ACTIVATIONS: Final[dict[str, type[nn.Module]]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "silu": nn.SiLU}
_HIDDEN_GAIN: Final = math.sqrt(2.0)
_HEAD_GAIN: Final = 0.01

Layer = TypeVar("Layer", nn.Linear, nn.Conv2d)


class Estimate(NamedTuple):
    """Unmasked scores of the actions, float32 (B, A), and normalised expected returns, float32 (B,)."""

    logits: Tensor
    values: Tensor


class ActorCritic(nn.Module):
    """Separate perceptrons for actor and critic, or one with two heads; pixels first pass through convolutions.

    With ``network.memory`` a gated recurrent unit (Cho et al. 2014, "Learning phrase representations using RNN
    encoder-decoder", section 2.3) reads the inputs, and the perceptrons read the inputs and its state.

    Some features may be for the critic alone: Pinto et al. 2018, "Asymmetric actor critic for image-based robot
    learning". The actor and the recurrent unit read 0 instead of them.

    The weights are orthogonal, and those of the heads so small that the initial policy is nearly uniform and the
    initial values are nearly 0: Engstrom et al. 2020, "Implementation matters"; Andrychowicz et al. 2021, "What matters
    in on-policy reinforcement learning?", section 3.2.
    """

    def __init__(
        self,
        n_features: int,
        n_actions: int,
        settings: NetworkSettings,
        generator: torch.Generator,
        *,
        pixels: tuple[int, int, int] | None = None,
        critic_features: Sequence[int] = (),
    ) -> None:
        """Build the network; ``critic_features`` are the indices of the features that only the critic reads.

        Raises EnvironmentUsageError if the pixels (H, W, C) are too small.
        """
        super().__init__()
        self.eye = _encoder(pixels, settings, generator) if pixels is not None else None
        n_seen = n_features + (self.eye.n_outputs if self.eye else 0)
        self.memory = _recurrent(n_seen, settings.memory, generator) if settings.memory else None
        n_inputs = n_seen + settings.memory
        self.trunk = _trunk(n_inputs, settings, generator)
        self.critic_trunk = None if settings.shared else _trunk(n_inputs, settings, generator)
        self.actor = _initialised(nn.Linear(settings.widths[-1], n_actions), _HEAD_GAIN, generator)
        self.critic = _initialised(nn.Linear(settings.widths[-1], 1), _HEAD_GAIN, generator)
        self._for_critic: Tensor | None
        for_critic = torch.zeros(n_inputs, dtype=torch.bool)
        for_critic[[n_seen - n_features + i for i in critic_features]] = True
        self.register_buffer("_for_critic", for_critic if critic_features else None, persistent=False)

    def forward(self, obs: Tensor, pixels: Tensor | None = None) -> Estimate:
        """Estimate actions and values from normalised features, float32 (B, F), and pixels, uint8 (B, H, W, C)."""
        return self.estimate(self.see(obs, pixels)[0])

    def unroll(self, obs: Tensor, pixels: Tensor | None, memory: Tensor, is_first: Tensor) -> Estimate:
        """Estimate actions and values of T consecutive steps, with gradients through all of them.

        Args:
            obs: Normalised features, float32 (T, B, F).
            pixels: Pixels, uint8 (T, B, H, W, C), or None.
            memory: State of the recurrent layer before the first step, float32 (B, M).
            is_first: Whether an observation is the first one of an episode, bool (T, B, 1).
        """
        if self.memory is None:
            raise TypeError("the network has no recurrent layer")
        joined = self._join(obs.flatten(0, 1), pixels.flatten(0, 1) if pixels is not None else None)
        seen, states = joined.view(*obs.shape[:2], -1), []
        for one, begins in zip(self.actor_inputs(seen), is_first, strict=True):
            memory = self.memory(one, memory.masked_fill(begins, 0.0))
            states.append(memory)
        return self.estimate(torch.cat((seen, torch.stack(states)), dim=-1))

    def see(
        self, obs: Tensor, pixels: Tensor | None = None, memory: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the inputs of the hidden layers, float32 (B, n_inputs), and the next state of the recurrent layer.

        ``memory`` is its state before the observations, float32 (B, M), if there is such a layer.
        """
        seen = self._join(obs, pixels)
        if self.memory is None:
            return seen, None
        memory = self.memory(self.actor_inputs(seen), memory)
        return torch.cat((seen, memory), dim=-1), memory

    def estimate(self, seen: Tensor) -> Estimate:
        """Estimate actions and values from the result of :meth:`see`."""
        hidden: Tensor = self.trunk(self.actor_inputs(seen))
        critic_hidden = self.critic_trunk(seen) if self.critic_trunk is not None else hidden
        return Estimate(self.actor(hidden), self.critic(critic_hidden).squeeze(-1))

    def logits(self, seen: Tensor) -> Tensor:
        """Return the actor's logits alone, float32 (B, A), for the result of :meth:`see`."""
        result: Tensor = self.actor(self.trunk(self.actor_inputs(seen)))
        return result

    def value(self, seen: Tensor) -> Tensor:
        """Return the critic's normalised values alone, float32 (B,), for the result of :meth:`see`."""
        result: Tensor = self.critic((self.critic_trunk or self.trunk)(seen)).squeeze(-1)
        return result

    def actor_inputs(self, seen: Tensor) -> Tensor:
        """Return the result of :meth:`see`, also without the recurrent layer, with 0 for what only the critic reads."""
        if self._for_critic is None:
            return seen
        return seen.masked_fill(self._for_critic[: seen.shape[-1]], 0.0)

    def _join(self, obs: Tensor, pixels: Tensor | None) -> Tensor:
        """Return features and encoded pixels, float32 (B, n)."""
        if self.eye is not None and pixels is not None:
            return torch.cat((self.eye(pixels), obs), dim=-1)
        return obs

    @torch.no_grad()
    def rescale_critic(self, old: tuple[float, float], new: tuple[float, float]) -> None:
        """Replace the mean and standard deviation of the critic's normalisation, without changing its values.

        PopArt: van Hasselt et al. 2016, "Learning values across many orders of magnitude", equation 9.
        """
        (old_mean, old_std), (new_mean, new_std) = old, new
        self.critic.weight.mul_(old_std / new_std)
        self.critic.bias.mul_(old_std).add_(old_mean - new_mean).div_(new_std)


def count_parameters(
    n_features: int, n_actions: int, settings: NetworkSettings, pixels: tuple[int, int, int] | None = None
) -> int:
    """Return the number of parameters of an `ActorCritic` with these arguments, without building it."""
    n_eye, n_inputs = 0, n_features
    if pixels is not None:
        channels, convolutions = settings.channels, settings.convolutions
        n_eye, n_seen = residual_size(pixels, channels) if channels else stack_size(pixels, convolutions)
        n_inputs += n_seen
    n_memory = 3 * settings.memory * (n_inputs + settings.memory + 2)
    n_inputs += settings.memory
    n_trunk = sum((n_in + 1) * n_out for n_in, n_out in pairwise((n_inputs, *settings.widths)))
    return n_eye + n_memory + n_trunk * (1 if settings.shared else 2) + (settings.widths[-1] + 1) * (n_actions + 1)


def masked_log_probs(logits: Tensor, blocked: Tensor) -> Tensor:
    """Return log-probabilities, float32 (B, A), in which forbidden actions have probability exactly 0.

    Masking the logits gives the policy gradient of the masked policy: Huang & Ontanon 2022, "A closer look at invalid
    action masking in policy gradient algorithms", proposition 1. A row that forbids all actions is uniform.
    """
    return torch.log_softmax(logits.masked_fill(blocked, BLOCKED_LOGIT), dim=-1)


def sample(log_probs: Tensor, generator: torch.Generator) -> Tensor:
    """Draw one action per row, int64 (B, 1), by inverting the cumulative distribution.

    The threshold is in (0, total], so the first action that reaches it has a probability above 0. A forbidden action is
    therefore never drawn, regardless of rounding. This is five times faster than drawing a number per action.
    """
    cumulative = log_probs.exp().cumsum(dim=-1)
    uniform = torch.rand(len(log_probs), 1, generator=generator)
    threshold = (1.0 - uniform) * cumulative[:, -1:]
    return torch.searchsorted(cumulative, threshold)


def _encoder(
    pixels: tuple[int, int, int], settings: NetworkSettings, generator: torch.Generator
) -> PixelEncoder | ImpalaEncoder:
    encoder: PixelEncoder | ImpalaEncoder
    if settings.channels:
        # Each residual block adds its outputs to its inputs, so with a larger gain they grow from block to block.
        encoder, gain = ImpalaEncoder(pixels, settings.channels), 1.0
    else:
        encoder, gain = PixelEncoder(pixels, settings.convolutions), _HIDDEN_GAIN
    for layer in encoder.modules():
        if isinstance(layer, nn.Conv2d):
            _initialised(layer, gain, generator)
            layer.weight = nn.Parameter(layer.weight.detach().contiguous(memory_format=torch.channels_last))
    return encoder


def _trunk(n_features: int, settings: NetworkSettings, generator: torch.Generator) -> nn.Sequential:
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise((n_features, *settings.widths)):
        layers += [_initialised(nn.Linear(n_in, n_out), _HIDDEN_GAIN, generator), _ACTIVATIONS[settings.activation]()]
    return nn.Sequential(*layers)


def _recurrent(n_in: int, n_units: int, generator: torch.Generator) -> nn.GRUCell:
    layer = nn.GRUCell(n_in, n_units)
    for weights in (*layer.weight_ih.chunk(3), *layer.weight_hh.chunk(3)):  # of the two gates and the new state
        nn.init.orthogonal_(weights, generator=generator)
    nn.init.zeros_(layer.bias_ih)
    nn.init.zeros_(layer.bias_hh)
    return layer


def _initialised(layer: Layer, gain: float, generator: torch.Generator) -> Layer:
    """Set the weights of a layer to an orthogonal matrix, and its biases to 0."""
    nn.init.orthogonal_(layer.weight, gain, generator=generator)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


FORMAT: Final = "soulslab-policy"
FORMAT_VERSION: Final = 5
# Version 1 had no pixels, 2 no memory, 3 no features for the critic alone, and 4 no residual convolutions.
_READ_VERSIONS: Final = (1, 2, 3, 4, FORMAT_VERSION)
MAX_NORMALISED: Final = 10.0
"""Normalised features are clipped to this many standard deviations, so that rare large values do not dominate."""

_VALUE_MEMORY: Final = 1_000_000.0
"""Weight of the past in the value normaliser, in transitions; limited, because returns grow during training."""


class PolicyHeader(NetworkHeader, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Header of an actor-critic policy; see also :class:`soulslab.learn.policy_header.Header`."""

    has_log_probs: ClassVar[bool] = True

    format: str = FORMAT
    version: int = FORMAT_VERSION
    network: NetworkSettings


class Policy(NetworkPolicy[PolicyHeader]):
    """An actor-critic network with the normalisers of its inputs, with moments (F,), and of the critic's outputs."""

    network: ActorCritic

    def __init__(
        self, header: PolicyHeader, generator: torch.Generator | None = None, device: torch.device = CPU
    ) -> None:
        """Make an untrained policy; without a generator, the initial weights are drawn with seed 0."""
        super().__init__(header, device)
        self._hidden_features = header.find_hidden_features()
        critic_features = self._hidden_features if header.network.critic_sees_hidden else []
        self._ignored_features = [] if critic_features else self._hidden_features
        self.network = ActorCritic(
            header.n_features,
            header.n_actions,
            header.network,
            generator or torch.Generator().manual_seed(0),
            pixels=header.stacked_pixels,
            critic_features=critic_features,
        ).to(device)
        self.observation_moments = RunningMoments((header.n_features,))
        self.value_moments = RunningMoments((), max_count=_VALUE_MEMORY)
        self._refresh()

    def observe(self, obs: NDArray[np.float32]) -> None:
        """Update the observation normaliser with a batch, float32 (B, F)."""
        self.observation_moments.update(obs)
        self._refresh()

    def normalise(self, obs: NDArray[np.float32], out: Tensor | None = None) -> Tensor:
        """Return observations (B, F) in units of their standard deviation, within `MAX_NORMALISED` of 0.

        Features that neither actor nor critic sees are 0, even if they are NaN.
        """
        centred = torch.sub(torch.from_numpy(obs), self._shift, out=out)
        normalised = centred.mul_(self._scale).clamp_(-MAX_NORMALISED, MAX_NORMALISED)
        if self._ignored_features:
            normalised[:, self._ignored_features] = 0.0
        return normalised

    def estimate(self, obs: Tensor, pixels: Tensor | None, inputs: Inputs | None = None) -> Estimate:
        """Return logits and normalised values on the CPU, for normalised features (B, F) and pixels or None.

        A recurrent policy reads its memory from ``inputs``, and writes the next one there.
        """
        on_device = pixels.to(self.device) if pixels is not None else None
        logits, values = self.network.estimate(self._see(obs.to(self.device), on_device, inputs))
        return Estimate(logits.cpu(), values.cpu())

    def judge(self, inputs: Inputs) -> NDArray[np.float32]:
        """Return the normalised values of the critic, float32 (B,)."""
        with torch.inference_mode():
            values: NDArray[np.float32] = self.network.value(self._see_all(inputs)).cpu().numpy()
        return values

    def scores(self, inputs: Inputs, mask: NDArray[np.bool_] | None = None) -> ActionScores:
        """Return the probability of each action; see :class:`soulslab.learn.policy_header.Player`."""
        with torch.inference_mode():
            log_probs = self._log_probs(inputs, self._blocked(len(inputs.features), mask))
            return ActionScores("probability", log_probs.exp().numpy())

    def view(self, inputs: Inputs, mask: NDArray[np.bool_], action: int) -> PolicyView:
        """Compute a decision again, for display; see :class:`soulslab.learn.policy_header.Player`."""
        network = self.network
        with gradients():
            obs = self.normalise(inputs.features).to(self.device).requires_grad_()
            # Not `_see`: the next memory stays that of the batch that acted, whose last bits differ.
            seen, following = network.see(obs, self._pixels(inputs), self._memory(inputs))
            layer = network.actor_inputs(seen)
            hidden = [to_array(following)] if following is not None else []
            for module in network.trunk:
                layer = module(layer)
                if not isinstance(module, nn.Linear):
                    hidden.append(to_array(layer))
            critic_hidden = network.critic_trunk(seen) if network.critic_trunk is not None else layer
            log_probs = masked_log_probs(network.actor(layer).cpu(), self._blocked(1, mask))
            value = float(network.critic(critic_hidden).detach())
            attribution = attribute(log_probs[0, action], obs)
            attribution[self._hidden_features] = 0.0  # also if they are NaN
        return PolicyView(
            kind="probability",
            scores=to_array(log_probs.exp()),
            quantiles=np.zeros((self.header.n_actions, 0), np.float32),
            value=value * float(self.value_moments.std) + float(self.value_moments.mean)
            if math.isfinite(value)
            else None,
            hidden=hidden,
            attribution=attribution,
        )

    def explore(
        self,
        inputs: Inputs,
        mask: NDArray[np.bool_],
        epsilon: float,  # noqa: ARG002 (the policy explores by itself)
        rng: np.random.Generator,  # noqa: ARG002 (see :meth:`seed`)
    ) -> Choice:
        """Draw an action from the policy for each observation; see `NetworkPolicy.explore`."""
        with torch.inference_mode():
            log_probs = self._log_probs(inputs, self._blocked(len(inputs.features), mask))
            actions = sample(log_probs, self._generator)
            chosen = log_probs.gather(-1, actions)
        return Choice(actions.squeeze(-1).numpy(), chosen.squeeze(-1).numpy())

    def weights(self) -> Tensors:
        """Return copies of all tensors of the policy."""
        return self.state()

    def load_weights(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Load the result of :meth:`weights` of a policy with the same header."""
        self.load_state(tensors)

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
        return masked_log_probs(self.network.logits(self._see_all(inputs)).cpu(), blocked)

    def _see_all(self, inputs: Inputs) -> Tensor:
        """Return the inputs of the hidden layers on the device."""
        pixels = self._pixels(inputs)
        return self._see(self.normalise(inputs.features).to(self.device), pixels, inputs)

    def _see(self, obs: Tensor, pixels: Tensor | None, inputs: Inputs | None) -> Tensor:
        """Return the inputs of the hidden layers; a recurrent policy writes its next memory to ``inputs``.

        Raises EnvironmentUsageError if ``inputs`` do not have the memory of the policy.
        """
        seen, following = self.network.see(obs, pixels, self._memory(inputs))
        if inputs is not None and inputs.next_memory is not None and following is not None:
            inputs.next_memory[:] = following.detach().cpu().numpy()
        return seen

    def _moments(self) -> dict[str, RunningMoments]:
        return {"observation": self.observation_moments, "value": self.value_moments}

    def _refresh(self) -> None:
        self._shift = torch.from_numpy(self.observation_moments.mean.astype(np.float32))
        self._scale = torch.from_numpy((1.0 / self.observation_moments.std).astype(np.float32))
