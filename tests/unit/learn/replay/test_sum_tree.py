"""The tree against cumulative sums."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from soulslab.learn.replay.samplers import SumTree

# Whole numbers, so that sums are exact in any order.
priorities = arrays(np.float64, st.integers(1, 70), elements=st.integers(0, 1000).map(float))


def tree_of(leaves):
    tree = SumTree(len(leaves))
    tree.load(leaves)
    return tree


@given(leaves=priorities, data=st.data())
def test_finds_where_the_cumulative_sum_passes_the_mass(leaves, data):
    tree = tree_of(leaves)
    assert tree.total == leaves.sum()
    if not tree.total:
        return
    masses = np.array(data.draw(st.lists(st.floats(0.0, tree.total, exclude_max=True), min_size=1)))
    places = np.empty(len(masses), np.int64)
    expected = np.searchsorted(np.cumsum(leaves), masses, side="right")
    tree.find(masses.copy(), places)
    np.testing.assert_array_equal(places, expected)


@given(leaves=priorities, data=st.data())
def test_is_the_same_however_it_was_filled(leaves, data):
    places = data.draw(st.lists(st.tuples(st.integers(0, len(leaves) - 1), st.integers(0, 9)), max_size=40))
    tree = tree_of(leaves)
    for cut in (places[:7], places[7:]):
        tree.set(np.array([p for p, _ in cut], np.int64), np.array([v for _, v in cut], np.float64))
    for place, value in places:
        leaves[place] = value
    np.testing.assert_array_equal(tree.leaves, leaves)
    np.testing.assert_array_equal(tree.nodes, tree_of(leaves).nodes)


@given(
    leaves=arrays(np.float64, st.integers(1, 70), elements=st.just(0.0) | st.floats(1e-6, 1e30)),
    shares=arrays(np.float64, 20, elements=st.floats(0.0, 1.0)),
)
def test_never_finds_a_priority_of_0(leaves, shares):
    tree = tree_of(leaves)
    if tree.total:
        places = np.empty(20, np.int64)
        tree.find(shares * tree.total, places)  # the total itself included, which rounding can give
        assert (tree.leaves[places] > 0.0).all()
