"""The one frame that positions are given in: x, y on the ground and the height, in metres.

Both games store x, height, y. Angles are in radians, as ``player.angle`` has them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Position = tuple[float, float, float]
"""x, y and height, m."""


def from_memory(stored: Sequence[float] | NDArray[np.float64]) -> Position:
    """Return x, y, height for what a game stores."""
    x, height, y = (float(number) for number in stored)
    return x, y, height


def to_memory(position: Position) -> NDArray[np.float64]:
    """Return what a game stores for x, y, height."""
    x, y, height = position
    return np.array([x, height, y])
