"""What one step leaves behind: a row of fixed size, the same in memory, in a file and between two processes.

Shapes: F features, A actions, H height, W width, C channels of one frame, K frames stacked.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from soulslab.learn.inputs import PixelShape


class Outcome(enum.IntEnum):
    """What became of a step; the column ``outcome`` of a row."""

    GOES_ON = 0
    """The next row of the same stream is what followed."""
    TERMINATED = 1
    """The episode ended; nothing is worth anything after it."""
    TRUNCATED = 2
    """The episode was cut off; the next row of the same stream is a `FINAL` one that says where."""
    FINAL = 3
    """No step: the observation in which an episode was cut off, to bootstrap from. It is never sampled itself."""


class StepShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Sizes of what a step holds.

    Attributes:
        n_features: F, extra inputs included.
        n_actions: A.
        pixels: Size of one frame, as the environment gives it; None if there are none.
        frame_stack: K, frames that the network sees at once; each is stored once.
    """

    n_features: int
    n_actions: int
    pixels: PixelShape | None = None
    frame_stack: int = 1


def row_type(shape: StepShape) -> np.dtype[Any]:
    """Return the record type of a row.

    ``features`` f4 (F,) are the observation in which the step was decided. Then come ``reward`` f4, ``action`` i2,
    ``n_decisions`` u2 (game decisions that the step took), ``stream`` u2 (number of the environment), ``outcome`` u1
    (`Outcome`) and ``is_first`` u1 (whether an episode begins here; to be set too where steps before this one were
    lost, so that nobody takes the row before it for its predecessor). ``blocked`` u1 (ceil(A / 8),) tells which
    actions were forbidden in the observation, as ``numpy.packbits`` packs them. ``pixels`` u1 (H, W, C), where there
    are any, belong to the observation.

    The numbers are aligned, which costs a few bytes per row and lets a column be read as an ordinary array.
    """
    columns: list[Any] = [("features", "<f4", (shape.n_features,)), ("reward", "<f4"), ("action", "<i2")]
    columns += [("n_decisions", "<u2"), ("stream", "<u2"), ("outcome", "u1"), ("is_first", "u1")]
    columns.append(("blocked", "u1", (-(-shape.n_actions // 8),)))
    if shape.pixels is not None:
        pixels = shape.pixels
        columns.append(("pixels", "u1", (pixels.height_px, pixels.width_px, pixels.n_channels)))
    return np.dtype(columns, align=True)


def as_bytes(rows: NDArray[Any]) -> NDArray[np.uint8]:
    """Return rows (n,) without gaps between them as their bytes, uint8 (n, bytes of a row), on the same memory."""
    return rows.view(np.uint8).reshape(len(rows), rows.dtype.itemsize)


class Batch(NamedTuple):
    """Transitions to learn from; tensors on the CPU, allocated once and overwritten by each draw.

    A transition leads from an observation over at most n steps to the next one: over fewer where the episode ended
    before, or where the newest step is reached.

    Attributes:
        features: float32 (B, F).
        pixels: uint8 (B, H, W, C * K), the oldest frame first; None where there are none.
        blocked: Where an action was forbidden, bool (B, A).
        actions: int64 (B, 1).
        rewards: Discounted sum over the n steps, float32 (B,): ``r_1 + gamma**k_1 * r_2 + ...`` where step i took k_i
            decisions.
        discounts: What the value of the next observation counts, float32 (B,): ``gamma**(k_1 + ... + k_n)``, 0 where
            the episode terminated.
        next_features: float32 (B, F).
        next_pixels: uint8 (B, H, W, C * K), or None.
        next_blocked: Where an action is forbidden there, bool (B, A).
        weights: Importance weights, float32 (B,), at most 1.
        places: Where the transitions lie in their buffer, int64 (B,); names them to ``ReplayBuffer.set_priorities``.
    """

    features: Tensor
    pixels: Tensor | None
    blocked: Tensor
    actions: Tensor
    rewards: Tensor
    discounts: Tensor
    next_features: Tensor
    next_pixels: Tensor | None
    next_blocked: Tensor
    weights: Tensor
    places: Tensor

    def part(self, start: int, stop: int) -> Batch:
        """Return the transitions from ``start`` to ``stop`` as views."""
        columns: list[Any] = [None if column is None else column[start:stop] for column in self]
        return Batch(*columns)
