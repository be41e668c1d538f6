"""The row of a step: a record of fixed size, the same in memory, in files and between processes.

Shapes: F features, A actions, H height, W width, C channels of one frame, K frames stacked.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.learn.inputs import PixelShape

if TYPE_CHECKING:
    from torch import Tensor


class Outcome(enum.IntEnum):
    """How a step ended; the column ``outcome`` of a row."""

    GOES_ON = 0
    """The next row of the same stream follows it."""
    TERMINATED = 1
    """The episode terminated; the value after it is 0."""
    TRUNCATED = 2
    """The episode was truncated; the next row of the same stream is a `FINAL` one with the final observation."""
    FINAL = 3
    """Not a step: the final observation of a truncated episode, for the bootstrap. It is never drawn itself."""


class StepShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Sizes of a step; features include the extra inputs, and each of the K frames is stored once.

    ``n_memory`` is the number of units of the recurrent layer, 0 without one.
    ``has_log_probs`` is whether rows hold the log-probability of their action, ``has_values`` whether they hold the
    values with which it was chosen.
    """

    n_features: int
    n_actions: int
    pixels: PixelShape | None = None
    frame_stack: int = 1
    n_memory: int = 0
    has_log_probs: bool = False
    has_values: bool = False


@cache
def row_type(shape: StepShape) -> np.dtype[Any]:
    """Return the record type of a row.

    ``features`` f4 (F,) are the observation before the step. Then come ``reward`` f4, ``action`` i2, ``n_decisions`` u2
    (game decisions that the step took), ``stream`` u2 (number of the environment), ``outcome`` u1 (`Outcome`) and
    ``is_first`` u1 (whether the row before it is not its predecessor: at the start of an episode, or after lost steps).
    ``blocked`` u1 (ceil(A / 8),) are the forbidden actions of the observation, packed with ``numpy.packbits``.
    ``pixels`` u1 (H, W, C), if any, belong to the observation. ``memory`` f4 (M,), if any, is the recurrent layer's
    state before the observation. ``log_prob`` f4, if any, is the logarithm of the probability with which the action was
    chosen. ``action_value`` f4 and ``best_value`` f4, if any, are the values of the action and of the best allowed
    action in that decision, and ``is_valued`` u1 is whether they are known.

    The numbers are aligned, which costs a few bytes per row and allows reading a column as an ordinary array.
    """
    columns: list[Any] = [("features", "<f4", (shape.n_features,)), ("reward", "<f4"), ("action", "<i2")]
    columns += [("n_decisions", "<u2"), ("stream", "<u2"), ("outcome", "u1"), ("is_first", "u1")]
    columns.append(("blocked", "u1", (-(-shape.n_actions // 8),)))
    if shape.pixels is not None:
        pixels = shape.pixels
        columns.append(("pixels", "u1", (pixels.height_px, pixels.width_px, pixels.n_channels)))
    if shape.n_memory:
        columns.append(("memory", "<f4", (shape.n_memory,)))
    if shape.has_log_probs:
        columns.append(("log_prob", "<f4"))
    if shape.has_values:
        columns += [("is_valued", "u1"), ("action_value", "<f4"), ("best_value", "<f4")]
    return np.dtype(columns, align=True)


def as_bytes(rows: NDArray[Any]) -> NDArray[np.uint8]:
    """Return contiguous rows (n,) as their bytes, uint8 (n, bytes of a row), which share their memory."""
    return rows.view(np.uint8).reshape(len(rows), rows.dtype.itemsize)


def pick_rows(rows: NDArray[Any], which: NDArray[Any]) -> NDArray[Any]:
    """Return a copy of the rows of a mask or of indices.

    Each row is copied as one piece; numpy would copy each column separately, which takes five times as long.
    """
    picked: NDArray[Any] = _opaque(rows)[which].view(rows.dtype)
    return picked


def join_rows(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the rows of at least one array, one after another; each row is copied as one piece."""
    return np.concatenate([_opaque(part) for part in parts]).view(parts[0].dtype)


def _opaque(rows: NDArray[Any]) -> NDArray[Any]:
    return rows.view(np.dtype((np.void, rows.dtype.itemsize)))


Column = TypeVar("Column")


class Transitions(NamedTuple, Generic[Column]):
    """Transitions for an update as columns, allocated once and overwritten by each draw.

    A transition leads from an observation over n steps to the next one; over fewer if the episode ended before, or if
    the newest step is reached.

    Attributes:
        features: float32 (B, F); ``next_features`` are those of the next observation.
        pixels: uint8 (B, H, W, C * K), oldest frame first; None without pixels. ``next_pixels`` accordingly.
        blocked: True for forbidden actions, bool (B, A); ``next_blocked`` accordingly.
        actions: int64 (B, 1).
        rewards: Discounted sum over the n steps, float32 (B,): ``r_1 + gamma**k_1 * r_2 + ...`` if step i took k_i
            decisions.
        discounts: Discounts of the value of the next observation, float32 (B,): ``gamma**(k_1 + ... + k_n)``, 0 if the
            episode terminated.
        weights: Importance weights, float32 (B,), at most 1.
        places: Places of the transitions in their buffer, int64 (B,), for ``ReplayBuffer.set_priorities``.
    """

    features: Column
    pixels: Column | None
    blocked: Column
    actions: Column
    rewards: Column
    discounts: Column
    next_features: Column
    next_pixels: Column | None
    next_blocked: Column
    weights: Column
    places: Column

    def part(self, rows: slice) -> Transitions[Column]:
        """Return some transitions as views."""
        columns: tuple[Any, ...] = self
        return Transitions(*(column[rows] if column is not None else None for column in columns))


#: Transitions as tensors on the CPU.
Batch: TypeAlias = "Transitions[Tensor]"
