import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from soulslab.learn.network_policy import MIN_STD, RunningMoments


@given(st.lists(st.integers(0, 40), min_size=1, max_size=8), st.floats(-1e4, 1e4), st.integers(0, 99))
def test_batches_merge_to_the_moments_of_all(sizes, offset, seed):
    rng = np.random.default_rng(seed)
    batches = [rng.normal(offset, 3.0, (size, 5)) for size in sizes]
    moments = RunningMoments((5,))
    for batch in batches:
        moments.update(batch)
    together = np.concatenate(batches)
    if len(together) == 0:
        assert moments.count == 0.0
        return
    assert moments.count == len(together)
    np.testing.assert_allclose(moments.mean, together.mean(0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(moments.var, together.var(0), rtol=1e-6, atol=1e-9)


def test_float32_batches_far_from_zero_keep_their_variance():
    rng = np.random.default_rng(0)
    batch = rng.normal(1000.0, 0.5, (4000, 1)).astype(np.float32)
    moments = RunningMoments((1,))
    for part in np.split(batch, 40):
        moments.update(part)
    np.testing.assert_allclose(moments.var, batch.astype(np.float64).var(0), rtol=1e-9)


def test_a_capped_count_follows_a_stream_that_drifts():
    moments = RunningMoments((), max_count=100.0)
    moments.update(np.zeros(10_000))
    for _ in range(20):
        moments.update(np.full(50, 7.0))
    assert abs(float(moments.mean) - 7.0) < 0.01


def test_a_feature_that_never_changed_has_the_least_std():
    moments = RunningMoments((2,))
    moments.update(np.ones((10, 2)))
    np.testing.assert_array_equal(moments.std, [MIN_STD, MIN_STD])


def test_state_goes_on_exactly():
    rng = np.random.default_rng(1)
    first, second = RunningMoments((3,)), RunningMoments((3,))
    first.update(rng.normal(size=(10, 3)))
    second.load(first.state())
    batch = rng.normal(size=(10, 3))
    first.update(batch)
    second.update(batch)
    for name, array in first.state().items():
        np.testing.assert_array_equal(array, second.state()[name])
