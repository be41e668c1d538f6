"""Confidence intervals for win rates."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from soulslab.errors import ConfigError

Z_95: Final = 1.959963984540054
"""The 97.5 % point of the standard normal distribution, for two-sided 95 % intervals."""


class Interval(NamedTuple):
    """A confidence interval of a proportion.

    Attributes:
        low: Lower end, 0..1.
        high: Upper end, 0..1.
    """

    low: float
    high: float


def wilson_interval(n_wins: int, n_fights: int, z: float = Z_95) -> Interval:
    r"""Return the Wilson score interval of a win rate.

    .. math:: \frac{\hat p + z^2 / 2n \pm z \sqrt{\hat p (1 - \hat p) / n + z^2 / 4n^2}}{1 + z^2 / n}

    Unlike the normal approximation it stays inside 0..1 and keeps its coverage near 0 and 1. Source: Wilson 1927,
    "Probable inference, the law of succession, and statistical inference"; recommended by Brown, Cai & DasGupta 2001,
    "Interval estimation for a binomial proportion".

    Args:
        n_wins: Number of wins, 0..n_fights.
        n_fights: Number of fights, at least 1.
        z: Half-width in standard deviations of the normal distribution.

    Returns:
        The interval, 95 % by default.

    Raises:
        ConfigError: The numbers are not a valid proportion.
    """
    if not 0 <= n_wins <= n_fights or n_fights == 0:
        raise ConfigError(f"{n_wins} wins in {n_fights} fights is not a proportion; at least one fight is needed")
    share = n_wins / n_fights
    spread = z * math.sqrt(share * (1.0 - share) / n_fights + (z / (2.0 * n_fights)) ** 2)
    centre, scale = share + z * z / (2.0 * n_fights), 1.0 + z * z / n_fights
    # The share is inside the interval; at 0 and 1 rounding could exclude it.
    return Interval(min(share, max(0.0, (centre - spread) / scale)), max(share, min(1.0, (centre + spread) / scale)))
