"""Reward terms of a profile."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulslab.envs.tasks.process.process_settings import RewardTerm
from soulslab.envs.tasks.process.process_task import ProfileReward


def amounts(kind, path, attribute="a", **facts):
    """Return the reward of a term for each step of a path of values."""
    rewards = ProfileReward({"t": RewardTerm(attribute=attribute, kind=kind, **facts)})
    names = (attribute,) if isinstance(attribute, str) else attribute
    steps = [dict(zip(names, value, strict=True)) if len(names) > 1 else {names[0]: value} for value in path]
    rewards.begin(steps[0])
    return [rewards(values)["t"] for values in steps[1:]]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("gain", [2, 0, 0]), ("loss", [0, 3, 0]), ("change", [2, -3, 0]), ("value", [5, 2, 2])],
)
def test_terms_of_a_number(kind, expected):
    assert amounts(kind, [3, 5, 2, 2]) == expected
    assert amounts(kind, [3, 5, 2, 2], weight=-0.5) == [-0.5 * amount for amount in expected]


def test_a_bit_is_a_number():
    assert amounts("gain", [False, True, True, False, True]) == [1, 0, 0, 1]


def test_distance_is_the_length_of_each_move():
    assert amounts("distance", [(0, 0), (3, 4), (0, 0)], ("x", "y")) == [5, 5]
    assert amounts("distance", [np.zeros(3), np.array([0, 0, 2.0])]) == [2]


def test_farthest_rewards_only_a_new_largest_distance():
    assert amounts("farthest", [(0, 0), (3, 4), (0, 0), (6, 8), (6, 8)], ("x", "y")) == [5, 0, 5, 0]


def test_explore_rewards_each_square_once():
    path = [(0, 0), (9, 9), (11, 0), (0, 0), (-1, 0), (12, 3)]
    assert amounts("explore", path, ("x", "y"), cell=10) == [0, 1, 0, 1, 0]


def test_begin_clears_the_state_of_the_last_episode():
    rewards = ProfileReward(
        {"far": RewardTerm(attribute="x", kind="farthest"), "new": RewardTerm(attribute="x", kind="explore")}
    )
    for _ in range(2):
        rewards.begin({"x": 0.0})
        assert rewards({"x": 3.0}) == {"far": 3.0, "new": 1.0}
        assert rewards({"x": 3.0}) == {"far": 0.0, "new": 0.0}


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=2, max_size=20))
def test_the_sum_of_farthest_is_the_largest_distance(path):
    greatest = max(float(np.hypot(x - path[0][0], y - path[0][1])) for x, y in path)
    assert sum(amounts("farthest", path, ("x", "y"))) == pytest.approx(greatest)
    # The squares of very small numbers are rounded.
    assert sum(amounts("distance", path, ("x", "y"))) >= greatest * (1 - 1e-9) - 1e-12
