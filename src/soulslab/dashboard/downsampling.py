"""Reduction of long series to the points that a chart can show."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def important_points(values: NDArray[np.float64], n_points: int) -> NDArray[np.intp]:
    """Return the indices of at most ``n_points`` values, in order, that keep every visible extreme.

    The series is divided into ``n_points / 4`` parts of equal length. Of each, the first, the smallest, the largest and
    the last value are kept, so that the drawn line has the same outline: Jugel et al. 2014, "M4: a visualization-
    oriented time series data aggregation". The smallest and the largest value of the whole series are always kept.

    Args:
        values: Finite values, (T,).
        n_points: Largest number of points, at least 4.
    """
    n = len(values)
    if n <= n_points:
        return np.arange(n)
    edges = np.linspace(0, n, n_points // 4 + 1).astype(np.intp)
    starts, ends = edges[:-1], edges[1:]
    kept = [starts, ends - 1]
    parts = [values[start:end] for start, end in zip(starts, ends, strict=True)]
    kept.append(starts + np.array([part.argmin() for part in parts]))
    kept.append(starts + np.array([part.argmax() for part in parts]))
    return np.unique(np.concatenate(kept))
