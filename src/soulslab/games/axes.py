"""The coordinate system of positions: x and y on the ground, then the height, in metres.

Both games store x, height, y. Angles are in radians, as in ``player.angle``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Position = tuple[float, float, float]
"""x, y and height, m."""


def from_memory(stored: Sequence[float] | NDArray[np.float64]) -> Position:
    """Return x, y, height from the order in which a game stores them."""
    x, height, y = (float(number) for number in stored)
    return x, y, height


def to_memory(position: Position) -> NDArray[np.float64]:
    """Return a position in the order in which a game stores it: x, height, y."""
    x, y, height = position
    return np.array([x, height, y])
