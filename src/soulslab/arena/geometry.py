"""Geometry and random numbers of the rules. Directions are unit vectors (see `soulslab.arena.records`)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from soulslab.arena.kernel import kernel
from soulslab.arena.records import Record

_S13, _S7, _S17, _S11 = (np.uint64(shift) for shift in (13, 7, 17, 11))


@kernel
def uniform(d: Record) -> float:
    """Draw from [0, 1) and advance the duel's generator (xorshift64, Marsaglia 2003, triple 13, 7, 17).

    The generator uses only shifts and exclusive ors, which numpy's scalars and compiled code compute alike and without
    overflow warnings.
    """
    x = d.rng
    x ^= x << _S13
    x ^= x >> _S7
    x ^= x << _S17
    d.rng = x
    return np.float64(x >> _S11) * (1.0 / 9007199254740992.0)


@kernel
def turn_towards(
    fx: float,
    fy: float,
    tx: float,
    ty: float,
    cos_step: float,
    sin_step: float,
) -> tuple[float, float]:
    """Turn the direction (fx, fy) towards (tx, ty) by at most the angle whose cosine and sine are given."""
    if fx * tx + fy * ty >= cos_step:
        return tx, ty
    if fx * ty - fy * tx < 0.0:
        sin_step = -sin_step
    return fx * cos_step - fy * sin_step, fx * sin_step + fy * cos_step


@kernel
def direction(dx: float, dy: float, fx: float, fy: float) -> tuple[float, float, float]:
    """Return the unit vector along (dx, dy) and its length; (fx, fy) and 0 if the length is below 1e-9."""
    distance = math.sqrt(dx * dx + dy * dy)
    if distance < 1e-9:
        return fx, fy, 0.0
    return dx / distance, dy / distance, distance


def angle_between(angles: NDArray[np.floating], other: float) -> NDArray[np.floating]:
    """Return the angles minus another one, in rad from -pi to pi."""
    difference = angles - other
    return np.arctan2(np.sin(difference), np.cos(difference))
