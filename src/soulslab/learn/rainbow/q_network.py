"""The network of action values: quantiles of the return for each action.

Shapes: B batch, T steps, F features, H W C pixels, A actions, Q quantiles, M units of the recurrent layer, I inputs of
the hidden layers.

The gradients of the hidden layers and the head are computed without autograd, in preallocated memory. For networks
this small, autograd takes longer for its bookkeeping than the computation itself (measured: 2.5 times as many updates
per second without it). A test compares each gradient with that of autograd.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, Final, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soulslab.learn.pixel_encoding import ImpalaEncoder, residual_size
from soulslab.learn.rainbow.rainbow_settings import QNetworkSettings
from soulslab.learn.replay.numba_kernel import kernel
from soulslab.learn.torch_device import CPU

_NORM_EPSILON: Final = 1e-5
_HEAD_SHARE: Final = 0.1
"""Factor of the head's initial weights, so that the initial values are small compared to rewards."""


class _Kept(NamedTuple):
    """Values of a hidden layer's forward pass that its backward pass needs."""

    inputs: Tensor
    linear: Tensor
    moments: list[Tensor]  # mean and scale of the normalisation, if any
    outputs: Tensor


class QNetwork(nn.Module):
    """A multi-layer perceptron with quantile heads; pixels first pass through residual convolutions.

    With ``network.memory`` a gated recurrent unit (Cho et al. 2014, "Learning phrase representations using RNN
    encoder-decoder", section 2.3) reads the features and what the convolutions saw; the perceptron reads these inputs
    and its state.

    All parameters are in one flat tensor, and their gradients in another, so that a step of the optimiser, a copy to
    the target network and a message to an actor are one operation each.

    Attributes:
        parameters_flat: All parameters, float32 (P,).
        gradients_flat: Their gradients, float32 (P,), overwritten by :meth:`backward`.
        taus: Levels of the quantiles, float32 (Q,): Dabney et al. 2018, lemma 2.
    """

    def __init__(
        self,
        n_features: int,
        n_actions: int,
        settings: QNetworkSettings,
        generator: torch.Generator,
        *,
        pixels: tuple[int, int, int] | None = None,
        device: torch.device = CPU,
    ) -> None:
        """Build the network; raises EnvironmentUsageError if the pixels (H, W, C) are too small.

        ``n_features`` includes soft bins. The generator draws the initial weights, which do not depend on the device.
        """
        super().__init__()
        self._settings = settings
        self.eye = ImpalaEncoder(pixels, settings.channels) if pixels is not None else None
        n_seen = n_features + (self.eye.n_outputs if self.eye else 0)
        self.memory = nn.GRUCell(n_seen, settings.memory) if settings.memory else None
        widths = (n_seen + settings.memory, *settings.widths)
        self._layers = [nn.Linear(*sizes) for sizes in pairwise(widths)]
        self._norms = [nn.LayerNorm(width) for width in settings.widths if settings.has_layer_norm]
        self.hidden, self.norms = nn.ModuleList(self._layers), nn.ModuleList(self._norms)
        n_heads = (n_actions + 1 if settings.is_dueling else n_actions) * settings.n_quantiles
        self.head = nn.Linear(widths[-1], n_heads)
        self.taus = (torch.arange(settings.n_quantiles) + 0.5) / settings.n_quantiles
        self.parameters_flat, self.gradients_flat = self._flatten(device)
        self._kept: list[_Kept] = []
        self._seen: Tensor | None = None
        self._initialise(generator)

    def forward(self, features: Tensor, pixels: Tensor | None = None) -> Tensor:
        """Estimate quantiles, float32 (B, A, Q), from normalised features (B, F) and pixels, uint8 (B, H, W, C)."""
        return self.estimate(self.see(features, pixels)[0])

    def see(
        self, features: Tensor, pixels: Tensor | None = None, memory: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the inputs of the hidden layers, float32 (B, I), and the next state of the recurrent layer.

        ``memory`` is its state before the observations, float32 (B, M), if there is such a layer.
        """
        seen = self._join(features, pixels)
        if self.memory is None:
            return seen, None
        memory = self.memory(seen, memory)
        return torch.cat((seen, memory), dim=-1), memory

    def see_steps(
        self, features: Tensor, pixels: Tensor | None, memory: Tensor, is_first: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the results of :meth:`see` for T consecutive steps of B sequences, (T * B, I) and (B, M).

        Args:
            features: Normalised features, float32 (T * B, F), all sequences of a step together.
            pixels: Pixels, uint8 (T * B, H, W, C), or None.
            memory: State of the recurrent layer before the first step, float32 (B, M).
            is_first: Whether an observation is the first one of an episode, bool (T, B, 1).
        """
        if self.memory is None:
            raise TypeError("the network has no recurrent layer")
        joined, states = self._join(features, pixels), []
        for one, begins in zip(torch.split(joined, len(memory)), is_first, strict=True):
            memory = self.memory(one, memory.masked_fill(begins, 0.0))
            states.append(memory)
        return torch.cat((joined, torch.cat(states)), dim=-1), memory

    def estimate(self, seen: Tensor) -> Tensor:
        """Estimate quantiles, float32 (B, A, Q), from the inputs of the hidden layers, (B, I)."""
        return self._combine(self._read_out(self._trunk(seen)))

    def hidden_layers(self, seen: Tensor) -> list[Tensor]:
        """Return the outputs of each hidden layer, (B, width), for its inputs (B, I); for display."""
        layers = [seen]
        for i, layer in enumerate(self._layers):
            linear = layer(layers[-1])
            layers.append(torch.relu(self._norms[i](linear) if self._norms else linear))
        return layers[1:]

    def read_out(self, hidden: Tensor) -> Tensor:
        """Return the quantiles for the last hidden layer, float32 (B, A, Q)."""
        return self._combine(self._read_out(hidden))

    def forward_both(self, features: Tensor, pixels: Tensor | None, n: int) -> Tensor:
        """Estimate quantiles like :meth:`forward`, and store what :meth:`backward` needs for the first n rows."""
        if self.eye is None or pixels is None:
            return self._estimate_both(features, n)
        with torch.enable_grad():
            seen = self._join(features[:n], pixels[:n])
        return self.estimate_both(seen, self._join(features[n:], pixels[n:]) if len(pixels) > n else features[:0])

    def estimate_both(self, seen: Tensor, more: Tensor) -> Tensor:
        """Estimate quantiles like :meth:`estimate`, for inputs (n, I) with a gradient and further ones without.

        What :meth:`backward` needs is stored for the first n.
        """
        both = torch.cat((seen.detach(), more)) if len(more) else seen.detach()
        return self._estimate_both(both, len(seen), seen)

    def backward(self, gradient: Tensor, actions: Tensor) -> None:
        """Write the gradients of a loss from its gradient with respect to the quantiles of the actions taken.

        ``gradient`` is float32 (n, Q), for the n rows of :meth:`forward_both` or :meth:`estimate_both`; ``actions``
        int64 (n, 1); both on the CPU.
        """
        by_head = torch.empty(len(gradient), self.head.out_features)
        _spread(gradient.numpy(), actions.numpy(), self._settings.is_dueling, by_head.numpy())
        by_head = by_head.to(self.parameters_flat.device)
        last = self._kept[-1].outputs
        torch.mm(by_head.t(), last, out=_grad(self.head.weight))
        torch.sum(by_head, 0, out=_grad(self.head.bias))
        by_hidden = torch.mm(by_head, self.head.weight)
        for i in reversed(range(len(self._kept))):
            by_hidden = self._hidden_backward(i, by_hidden)
        if self._seen is not None:
            for module in (self.eye, self.memory):
                if module is not None:
                    module.zero_grad(set_to_none=False)
            torch.autograd.backward(self._seen, by_hidden)

    @torch.no_grad()
    def _initialise(self, generator: torch.Generator) -> None:
        """Draw the weights, uniformly as torch does by default, with smaller ones for the head.

        They are drawn on the CPU, so that all devices get the same.
        """

        def draw_uniform(parameter: Tensor, bound: float) -> None:
            parameter.copy_(torch.empty(parameter.shape).uniform_(-bound, bound, generator=generator))

        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                bound = 1.0 / math.sqrt(module.weight[0].numel())
                share = _HEAD_SHARE if module is self.head else 1.0
                draw_uniform(module.weight, bound * share)
                if module.bias is not None:
                    draw_uniform(module.bias, bound * share)
            elif isinstance(module, nn.GRUCell):
                for parameter in module.parameters():
                    draw_uniform(parameter, 1.0 / math.sqrt(module.hidden_size))
            elif isinstance(module, nn.LayerNorm):
                module.weight.fill_(1.0)
                module.bias.zero_()

    def _join(self, features: Tensor, pixels: Tensor | None) -> Tensor:
        """Return encoded pixels and features, float32 (B, n)."""
        if self.eye is not None and pixels is not None:
            return torch.cat((self.eye(pixels), features), dim=-1)
        return features

    def _estimate_both(self, seen: Tensor, n: int, with_gradient: Tensor | None = None) -> Tensor:
        self._kept.clear()
        self._seen = with_gradient
        return self._combine(self._read_out(self._trunk(seen, n)))

    def _trunk(self, hidden: Tensor, n_kept: int = 0) -> Tensor:
        """Return the last hidden layer; store what the backward pass needs for the first rows."""
        for i, layer in enumerate(self._layers):
            inputs, linear = hidden, torch.addmm(layer.bias, hidden, layer.weight.t())
            normed = linear
            moments: list[Tensor] = []
            if self._norms:
                norm = self._norms[i]
                shape = norm.normalized_shape
                normed, *moments = torch.native_layer_norm(linear, shape, norm.weight, norm.bias, _NORM_EPSILON)
            hidden = torch.relu(normed)
            if n_kept:
                moments = [moment[:n_kept] for moment in moments]
                self._kept.append(_Kept(inputs[:n_kept], linear[:n_kept], moments, hidden[:n_kept]))
        return hidden

    def _read_out(self, hidden: Tensor) -> Tensor:
        """Return the head's outputs, float32 (B, heads * Q)."""
        return torch.addmm(self.head.bias, hidden, self.head.weight.t())

    def _combine(self, heads: Tensor) -> Tensor:
        """Return quantiles from the head's outputs, float32 (B, A, Q): Wang et al. 2016, equation 9."""
        heads = heads.view(len(heads), -1, self._settings.n_quantiles)
        if not self._settings.is_dueling:
            return heads
        value, advantages = heads[:, :1], heads[:, 1:]
        return advantages + (value - advantages.mean(1, keepdim=True))

    def _hidden_backward(self, i: int, by_outputs: Tensor) -> Tensor:
        """Write the gradients of hidden layer i; return the gradient by its inputs, if a layer before it needs it."""
        kept, layer = self._kept[i], self._layers[i]
        by_linear = torch.ops.aten.threshold_backward(by_outputs, kept.outputs, 0.0)
        if kept.moments:
            norm = self._norms[i]
            arguments = (kept.linear, norm.normalized_shape, *kept.moments, norm.weight, norm.bias, [True, True, True])
            by_linear, by_weight, by_bias = torch.ops.aten.native_layer_norm_backward(by_linear, *arguments)
            _grad(norm.weight).copy_(by_weight)
            _grad(norm.bias).copy_(by_bias)
        torch.mm(by_linear.t(), kept.inputs, out=_grad(layer.weight))
        torch.sum(by_linear, 0, out=_grad(layer.bias))
        return torch.mm(by_linear, layer.weight) if i > 0 or self._seen is not None else by_linear

    def _flatten(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Move parameters and gradients into two flat tensors on a device; those of the modules become views."""
        parameters = list(self.to(device).parameters())
        sizes = [parameter.numel() for parameter in parameters]
        flat = torch.empty(sum(sizes), device=device)
        gradients = torch.zeros_like(flat)
        parts = zip(parameters, torch.split(flat, sizes), torch.split(gradients, sizes), strict=True)
        for parameter, data, grad in parts:
            parameter.data = data.view(parameter.shape)
            parameter.grad = grad.view(parameter.shape)
        return flat, gradients


def count_parameters(
    n_features: int, n_actions: int, settings: QNetworkSettings, pixels: tuple[int, int, int] | None = None
) -> int:
    """Return the number of parameters of a `QNetwork` with these arguments, without building it."""
    n_eye, n_inputs = 0, n_features
    if pixels is not None:
        n_eye, n_seen = residual_size(pixels, settings.channels)
        n_inputs += n_seen
    n_memory = 3 * settings.memory * (n_inputs + settings.memory + 2)
    n_inputs += settings.memory
    n_hidden = sum((n_in + 1) * n_out for n_in, n_out in pairwise((n_inputs, *settings.widths)))
    n_norms = 2 * sum(settings.widths) if settings.has_layer_norm else 0
    n_heads = (n_actions + 1 if settings.is_dueling else n_actions) * settings.n_quantiles
    return n_eye + n_memory + n_hidden + n_norms + (settings.widths[-1] + 1) * n_heads


def _grad(parameter: Tensor) -> Tensor:
    """Return a parameter's part of the flat gradients."""
    assert parameter.grad is not None  # noqa: S101  (set once in `_flatten`)
    return parameter.grad


@kernel
def _spread(gradient: NDArray[Any], actions: NDArray[Any], is_dueling: bool, by_head: NDArray[Any]) -> None:
    """Write the gradient by the head's outputs (n, heads * Q), from that by the chosen quantiles (n, Q)."""
    n_rows, n_quantiles = gradient.shape
    n_heads = by_head.shape[1] // n_quantiles
    first = 1 if is_dueling else 0
    n_actions = n_heads - first
    for row in range(n_rows):
        chosen = (actions[row, 0] + first) * n_quantiles
        for k in range(n_quantiles):
            slope = gradient[row, k]
            for head in range(n_heads):
                by_head[row, head * n_quantiles + k] = -slope / n_actions if is_dueling else 0.0
            if is_dueling:
                by_head[row, k] = slope
            by_head[row, chosen + k] += slope
