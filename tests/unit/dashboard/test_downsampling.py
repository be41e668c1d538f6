"""Reduction of long series."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from soulslab.dashboard.downsampling import important_points

SERIES = arrays(np.float64, st.integers(1, 3000), elements=st.floats(-1e9, 1e9))


@given(SERIES, st.integers(4, 500))
def test_extremes_and_ends_are_kept(values, n_points):
    index = important_points(values, n_points)
    assert len(index) <= n_points
    assert index[0] == 0
    assert index[-1] == len(values) - 1
    assert (np.diff(index) > 0).all()
    assert values[index].min() == values.min()
    assert values[index].max() == values.max()


@given(SERIES)
def test_short_series_are_complete(values):
    assert important_points(values, len(values)).tolist() == list(range(len(values)))


def test_spike_of_one_value_in_fifty_million_steps_is_kept():
    values = np.zeros(500_000)
    values[123_457], values[400_001] = 9.0, -9.0
    index = important_points(values, 480)
    assert {123_457, 400_001} <= set(index.tolist())
