"""Estimates: a value with an interval, in seconds for times that the rules round to ticks."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from soulslab.arena.records import TICKS_PER_S

#: Likelihood ratio at the ends of a 90 % interval of a limit, such as the greatest distance of a choice: the data show
#: nothing beyond a limit, so its likelihood falls from the outermost value exponentially.
LIMIT_RATIO = 0.1


class Estimate(msgspec.Struct, frozen=True):
    """A number and its 90 % interval."""

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"{self.low} is greater than {self.high}")

    @property
    def width(self) -> float:
        """Width of the interval."""
        return self.high - self.low


def exact(value: float, error: float = 0.0) -> Estimate:
    """Return a number that was measured up to an error."""
    return Estimate(value, value - error, value + error)


def seconds(ticks: Estimate) -> Estimate:
    """Return a time of the boss file, given the number of ticks to which the rules round it up."""
    value = max(ticks.value - 0.5, 0.0) / TICKS_PER_S
    return Estimate(round(value, 5), max(ticks.low - 1, 0.0) / TICKS_PER_S, ticks.high / TICKS_PER_S)


def between(low: float, high: float, share: float = 0.5) -> Estimate:
    """Return the estimate of a number of which only the limits are known."""
    high = max(low, high)
    return Estimate(low + share * (high - low), low, high)


def middle(values: ArrayLike) -> float:
    """Return the median."""
    return float(np.median(np.asarray(values, np.float64)))
