import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from soulslab.siphon.process.window import around, bounds, overlap

SIDE = 12
RECTANGLES = st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(1, 4), st.integers(1, 4))


def pixels(rectangle):
    """The rectangle painted on a small plane."""
    plane = np.zeros((SIDE, SIDE), bool)
    left, top, width, height = rectangle
    plane[top : top + height, left : left + width] = True
    return plane


@given(RECTANGLES, RECTANGLES)
def test_overlap_equals_that_of_the_pixels(one, other):
    shared = pixels(one) & pixels(other)
    found = overlap(one, other)
    assert found[2] * found[3] == shared.sum()
    if shared.any():
        assert (pixels(found) == shared).all()
    assert (overlap(one, other) == other) == (shared == pixels(other)).all()


@given(st.lists(RECTANGLES))
def test_bounds_are_the_smallest_rectangle_around_all(parts):
    found = bounds(parts)
    rows, columns = np.nonzero(sum((pixels(part) for part in parts), np.zeros((SIDE, SIDE), bool)))
    if not parts:
        assert found == (0, 0, 0, 0)
    else:
        assert found[:2] == (columns.min(), rows.min())
        assert (found[0] + found[2], found[1] + found[3]) == (columns.max() + 1, rows.max() + 1)


@given(st.tuples(st.integers(-20, 30), st.integers(-20, 30), st.integers(1, 20), st.integers(1, 20)))
def test_around_covers_everything_except_the_screen(rectangle):
    is_on_screen = overlap((0, 0, 10, 8), rectangle) == rectangle
    assert is_on_screen != any(all(overlap(rectangle, part)[2:]) for part in around(10, 8))
