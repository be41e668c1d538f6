import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulslab.errors import ConfigError
from soulslab.learn.evaluate import wilson_interval


@pytest.mark.parametrize(
    ("n_wins", "n_fights", "low", "high"),
    [
        # Brown, Cai & DasGupta's formula evaluated with R: prop.test(x, n, correct = FALSE)$conf.int
        (0, 10, 0.0, 0.2775327998628892),
        (10, 10, 0.7224672001371107, 1.0),
        (5, 10, 0.2365930905125640, 0.7634069094874360),
        (81, 263, 0.2552891342, 0.3662041012),
    ],
)
def test_known_values(n_wins, n_fights, low, high):
    assert wilson_interval(n_wins, n_fights) == pytest.approx((low, high), abs=1e-4)


@given(st.integers(1, 10_000), st.data())
def test_holds_the_share_and_stays_inside(n_fights, data):
    n_wins = data.draw(st.integers(0, n_fights))
    low, high = wilson_interval(n_wins, n_fights)
    assert 0.0 <= low <= n_wins / n_fights <= high <= 1.0


@pytest.mark.parametrize(("n_wins", "n_fights"), [(0, 0), (-1, 5), (6, 5)])
def test_no_share_is_an_error(n_wins, n_fights):
    with pytest.raises(ConfigError, match="not a proportion"):
        wilson_interval(n_wins, n_fights)
