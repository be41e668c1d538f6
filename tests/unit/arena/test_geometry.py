"""Random numbers and rotations, which all rules use."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulslab.arena.fight_table import ticks
from soulslab.arena.geometry import direction, turn_towards, uniform
from soulslab.arena.simulator import spread_seeds
from support.stage import make_simulator

ANGLES = st.floats(-math.pi, math.pi)


def xorshift64(x):
    """The generator of Marsaglia 2003 with Python integers."""
    x ^= x << 13 & (2**64 - 1)
    x ^= x >> 7
    return x ^ (x << 17 & (2**64 - 1))


@given(st.integers(1, 2**64 - 1))
def test_uniform_is_xorshift64(seed):
    d = make_simulator().duels[0]
    d.rng = seed
    for _ in range(3):
        seed = xorshift64(seed)
        assert uniform(d) == (seed >> 11) / 2**53
        assert d.rng == seed


def test_uniform_is_uniform():
    d = make_simulator().duels[0]
    drawn = np.array([uniform(d) for _ in range(4000)])
    assert drawn.min() >= 0
    assert drawn.max() < 1
    counts = np.histogram(drawn, 10, (0, 1))[0]
    assert np.abs(counts - 400).max() < 5 * math.sqrt(400)


def test_seeds_are_spread_and_never_zero():
    # Steele, Lea and Flood 2014: splitmix64 of 1234567 and of what becomes zero.
    assert spread_seeds(np.array([1234567], np.uint64))[0] == 6457827717110365317
    zero = np.array([2**64 - 0x9E3779B97F4A7C15], np.uint64)
    assert spread_seeds(zero)[0] == 1
    spread = spread_seeds(np.arange(10_000, dtype=np.uint64))
    assert len(set(spread.tolist())) == 10_000


@given(ANGLES, ANGLES, st.floats(0.001, 3.0))
def test_turning_takes_the_short_way_and_no_more_than_a_step(start, target, step):
    fx, fy = turn_towards(
        math.cos(start), math.sin(start), math.cos(target), math.sin(target), math.cos(step), math.sin(step)
    )
    assert math.hypot(fx, fy) == pytest.approx(1)
    way = math.remainder(target - start, 2 * math.pi)
    gone = math.remainder(math.atan2(fy, fx) - start, 2 * math.pi)
    assert abs(gone) == pytest.approx(min(abs(way), step), abs=1e-6)
    if 1e-6 < abs(way) < math.pi - 1e-6:
        assert gone * way > 0


@given(st.floats(-100, 100), st.floats(-100, 100))
def test_direction_is_a_unit_vector_even_of_nothing(dx, dy):
    ux, uy, length = direction(dx, dy, 1.0, 0.0)
    assert math.hypot(ux, uy) == pytest.approx(1)
    assert length == pytest.approx(math.hypot(dx, dy), abs=1e-8)


@pytest.mark.parametrize(("seconds", "n"), [(0.0, 0), (0.1, 6), (0.73, 44), (0.75, 45), (1 / 60, 1), (0.017, 2)])
def test_ticks_round_up_but_not_for_float_noise(seconds, n):
    assert ticks(seconds) == n
