"""Pixels in the networks of PPO and Rainbow: convolutions that encode them, and random shifts for learning.

Shapes: B batch, H height, W width, C channels of the stacked frames.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soulslab.errors import EnvironmentUsageError
from soulslab.learn.replay.numba_kernel import kernel

_PER_LEVEL: Final = 1.0 / 255.0


class EncoderSize(NamedTuple):
    """Number of parameters and of outputs of an encoder."""

    n_parameters: int
    n_outputs: int


class PixelEncoder(nn.Module):
    """A stack of convolutions over pixels.

    Attributes:
        n_outputs: Number of outputs.
    """

    def __init__(self, pixels: tuple[int, int, int], convolutions: tuple[tuple[int, int, int], ...]) -> None:
        """Build the convolutions from their channels, kernels (px) and strides (px), for pixels (H, W, C).

        Raises EnvironmentUsageError if the pixels are too small.
        """
        super().__init__()
        self.n_outputs = stack_size(pixels, convolutions).n_outputs
        layers: list[nn.Module] = []
        n_in = pixels[2]
        for n_out, kernel_px, stride_px in convolutions:
            layers += [nn.Conv2d(n_in, n_out, kernel_px, stride_px), nn.ReLU()]
            n_in = n_out
        self.layers = nn.Sequential(*layers, nn.Flatten())

    def forward(self, pixels: Tensor) -> Tensor:
        """Encode pixels, uint8 (B, H, W, C), as float32 (B, n_outputs)."""
        result: Tensor = self.layers(_scaled(pixels))
        return result


class ImpalaEncoder(nn.Module):
    """Residual convolutions over pixels: Espeholt et al. 2018, "IMPALA", figure 3, the large network.

    Attributes:
        n_outputs: Number of outputs.
    """

    def __init__(self, pixels: tuple[int, int, int], channels: tuple[int, ...]) -> None:
        """Build the stages for pixels (H, W, C); each halves height and width.

        Raises EnvironmentUsageError if the pixels are too small.
        """
        super().__init__()
        self.n_outputs = residual_size(pixels, channels).n_outputs
        self.stages = nn.ModuleList(_Stage(*sizes) for sizes in pairwise((pixels[2], *channels)))

    def forward(self, pixels: Tensor) -> Tensor:
        """Encode pixels, uint8 (B, H, W, C), as float32 (B, n_outputs)."""
        seen = _scaled(pixels)
        for stage in self.stages:
            seen = stage(seen)
        return torch.relu(seen).flatten(1)


class _Stage(nn.Module):
    """A convolution, max pooling with stride 2, and two residual blocks."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.entry = nn.Conv2d(n_in, n_out, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Conv2d(n_out, n_out, 3, padding=1) for _ in range(4))

    def forward(self, seen: Tensor) -> Tensor:
        seen = nn.functional.max_pool2d(self.entry(seen), 3, stride=2, padding=1)
        for i in (0, 2):
            inner = self.blocks[i + 1](torch.relu(self.blocks[i](torch.relu(seen))))
            seen = seen + inner
        return seen


def stack_size(pixels: tuple[int, int, int], convolutions: tuple[tuple[int, int, int], ...]) -> EncoderSize:
    """Return the size of a `PixelEncoder` with these arguments, without building it.

    Raises EnvironmentUsageError if the pixels are too small.
    """
    height_px, width_px, n_in = pixels
    n_parameters = 0
    for n_out, kernel_px, stride_px in convolutions:
        height_px, width_px = (height_px - kernel_px) // stride_px + 1, (width_px - kernel_px) // stride_px + 1
        if height_px < 1 or width_px < 1:
            raise EnvironmentUsageError(
                f"pixels of {pixels[0]}x{pixels[1]} are too small for network.convolutions = {convolutions}; use "
                "larger frames, or smaller kernels and strides"
            )
        n_parameters += (n_in * kernel_px**2 + 1) * n_out
        n_in = n_out
    return EncoderSize(n_parameters, n_in * height_px * width_px)


def residual_size(pixels: tuple[int, int, int], channels: tuple[int, ...]) -> EncoderSize:
    """Return the size of an `ImpalaEncoder` with these arguments, without building it.

    Raises EnvironmentUsageError if the pixels are too small.
    """
    height_px, width_px, n_first = pixels
    if min(height_px, width_px) < 2 ** len(channels):
        raise EnvironmentUsageError(
            f"pixels of {height_px}x{width_px} are too small for {len(channels)} stages of network.channels; use "
            "larger frames or fewer stages"
        )
    n_parameters = 0
    for n_in, n_out in pairwise((n_first, *channels)):
        height_px, width_px = (height_px + 1) // 2, (width_px + 1) // 2
        n_parameters += (9 * n_in + 1) * n_out + 4 * (9 * n_out + 1) * n_out
    return EncoderSize(n_parameters, height_px * width_px * channels[-1])


def shift_pixels(pixels: Tensor, offsets: Tensor) -> Tensor:
    """Return pixels that are shifted by whole pixels; their edges are replicated where the picture ends.

    This is the crop of a padded picture: Kostrikov, Yarats & Fergus 2021, "Image augmentation is all you need", section
    3.1. All channels of a row, and therefore all of its stacked frames, have the same offset.

    Args:
        pixels: Pixels on the CPU, uint8 (..., H, W, C), with n rows in the leading axes together.
        offsets: Place in the picture of the result's first row and column (px), int64 (B, 2). Row i of the n uses
            offset ``i % B``, so the steps of B sequences have the same one if they are ordered by step.
    """
    shifted = torch.empty_like(pixels, memory_format=torch.contiguous_format)
    rows, out = (each.view(-1, *pixels.shape[-3:]).numpy() for each in (pixels.contiguous(), shifted))
    _shift(rows, offsets.numpy(), out)
    return shifted


def _scaled(pixels: Tensor) -> Tensor:
    """Return pixels (B, H, W, C) in 0..1, float32 (B, C, H, W)."""
    # A view with the channels second and unchanged memory (channels last), as the convolutions expect it.
    return pixels.permute(0, 3, 1, 2).to(torch.float32).mul_(_PER_LEVEL)


# Selecting the pixels with an index tensor takes ten times as long.
@kernel
def _shift(pixels: NDArray[Any], offsets: NDArray[Any], out: NDArray[Any]) -> None:
    """Write ``out[i, y, x] = pixels[i, y + dy, x + dx]`` for pixels (n, H, W, C), with the nearest place inside."""
    n_rows, height, width, n_channels = pixels.shape
    for i in range(n_rows):
        dy, dx = offsets[i % len(offsets)]
        for y in range(height):
            from_y = min(max(y + dy, 0), height - 1)
            for x in range(width):
                from_x = min(max(x + dx, 0), width - 1)
                for channel in range(n_channels):
                    out[i, y, x, channel] = pixels[i, from_y, from_x, channel]
