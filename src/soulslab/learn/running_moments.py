"""Running mean and variance, for observations and for the critic's targets."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

MIN_STD: Final = 1e-4
"""Smallest standard deviation, so that a feature that was constant is not scaled up when it changes."""


class RunningMoments:
    """Running mean and variance over batches, merged with Chan's parallel form of Welford's update.

    Source: Chan, Golub & LeVeque 1979, "Updating formulae and a pairwise algorithm for computing sample
    variances", equation 2.1. All arithmetic is float64.

    Attributes:
        mean: Mean so far, float64, shape ``shape``.
        var: Population variance so far, float64, shape ``shape``.
        count: Number of samples so far, at most ``max_count``.
    """

    def __init__(self, shape: tuple[int, ...], max_count: float = float("inf")) -> None:
        """Start with mean 0 and variance 1, which the first batch replaces.

        Args:
            shape: Shape of one sample.
            max_count: Limit of the weight of earlier samples; a finite limit follows a distribution that drifts.
        """
        self.mean = np.zeros(shape, np.float64)
        self.var = np.ones(shape, np.float64)
        self.count = 0.0
        self._max_count = max_count

    def update(self, batch: NDArray[np.floating]) -> None:
        """Merge a batch of samples.

        Args:
            batch: Samples, shape (B, *shape); an empty batch changes nothing.
        """
        n_new = float(len(batch))
        if n_new == 0:
            return
        batch_mean = batch.mean(axis=0, dtype=np.float64)
        batch_var = np.square(batch - batch_mean).mean(axis=0)
        share = n_new / (self.count + n_new)
        delta = batch_mean - self.mean
        self.mean = self.mean + delta * share
        self.var = self.var * (1.0 - share) + batch_var * share + np.square(delta) * (share * (1.0 - share))
        self.count = min(self.count + n_new, self._max_count)

    @property
    def std(self) -> NDArray[np.float64]:
        """Standard deviation, float64, at least ``MIN_STD``."""
        return np.maximum(np.sqrt(self.var), MIN_STD)

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Return copies of everything that :meth:`load` needs."""
        return {"mean": self.mean.copy(), "var": self.var.copy(), "count": np.array([self.count])}

    def load(self, state: dict[str, NDArray[np.float64]]) -> None:
        """Continue from what :meth:`state` returned.

        Args:
            state: The arrays ``mean``, ``var`` (shape ``shape``) and ``count`` (1,).
        """
        self.mean = np.array(state["mean"], np.float64)
        self.var = np.array(state["var"], np.float64)
        self.count = float(state["count"][0])
