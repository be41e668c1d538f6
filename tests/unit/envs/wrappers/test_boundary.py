"""Distances to an edge: known geometry, and properties of distances."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from soulslab.envs.wrappers import Boundary, draw_boundary, load_boundary, save_boundary
from soulslab.errors import ConfigError, EnvironmentUsageError

SQUARE = [[0.0, 0.0], [10.0, 0.0], [10.0, 10.0], [0.0, 10.0]]
PILLAR = [[4.0, 4.0], [6.0, 4.0], [6.0, 6.0], [4.0, 6.0]]
places = st.tuples(st.floats(-30, 40), st.floats(-30, 40)).map(np.array)


@st.composite
def stars(draw):
    """Return a ring around the origin with increasing angles, which does not intersect itself."""
    n = draw(st.integers(3, 12))
    radii = np.array(draw(st.lists(st.floats(1.0, 20.0), min_size=n, max_size=n)))
    angles = np.linspace(0.0, 2.0 * np.pi, n, endpoint=False) + draw(st.floats(0.0, 1.0))
    return np.stack([np.cos(angles), np.sin(angles)], axis=1) * radii[:, None]


def test_a_square():
    square = Boundary([SQUARE])
    assert square.distance((5, 5)) == 5.0
    assert square.distance((1, 5)) == 1.0
    assert square.distance((-3, -4)) == -5.0
    assert square.distance((0, 5)) == 0.0
    np.testing.assert_array_equal(square.normal((1, 5)), (1, 0))
    np.testing.assert_array_equal(square.normal((-3, 5)), (1, 0))
    np.testing.assert_allclose(square.normal((-3, -4)), (0.6, 0.8))
    np.testing.assert_array_equal(square.normal((10, 5)), (-1, 0))  # on the edge it is the normal of the edge
    assert square.depth_m == pytest.approx(5.0, abs=0.05)


@given(place=places)
def test_a_circle(place):
    circle = Boundary.circle((3.0, -2.0), 12.0)
    assert circle.distance(place) == pytest.approx(12.0 - np.hypot(*(place - (3.0, -2.0))), abs=12.0 * 2e-4)


def test_a_ring_within_a_ring_is_a_hole():
    ground = Boundary([SQUARE, PILLAR])
    assert ground.distance((5, 5)) == -1.0
    assert ground.distance((3, 5)) == 1.0
    np.testing.assert_array_equal(ground.normal((4.5, 5)), (-1, 0))


@given(ring=stars(), one=places, two=places)
def test_distances_change_at_most_by_the_length_of_a_step(ring, one, two):
    boundary = Boundary([ring])
    assert abs(boundary.distance(one) - boundary.distance(two)) <= np.hypot(*(one - two)) + 1e-9


@given(ring=stars(), place=places)
def test_a_step_along_the_normal_is_a_step_inwards(ring, place):
    boundary = Boundary([ring])
    distance, way = boundary.distance(place), boundary.normal(place)
    assert np.hypot(*way) == pytest.approx(1.0)
    assume(distance < -1e-3)  # inside, the step may pass the medial axis
    assert boundary.distance(place + 1e-4 * way) == pytest.approx(distance + 1e-4, abs=1e-7)


@given(ring=stars(), angle=st.floats(-np.pi, np.pi))
def test_distant_positions_are_outside(ring, angle):
    far = 100.0 * np.array([np.cos(angle), np.sin(angle)])
    assert Boundary([ring]).distance(far) < -70.0


@given(ring=stars(), share=st.floats(0.01, 0.99), corner=st.integers(0, 11))
def test_positions_between_the_centre_and_a_corner_are_inside(ring, share, corner):
    assume(len(ring) > 3)  # angles between corners are then at most 90 degrees, so the centre is inside
    assert Boundary([ring]).distance(share * ring[corner % len(ring)]) > -1e-9


@settings(max_examples=30)
@given(ring=stars(), place=places, margin=st.floats(0.0, 0.9))
def test_the_nearest_position_inside_has_the_margin(ring, place, margin):
    boundary = Boundary([ring])
    wanted = margin * boundary.depth_m
    inside = boundary.nearest_inside(place, wanted)
    assert boundary.distance(inside) >= wanted - 1e-9
    if boundary.distance(place) >= wanted:
        np.testing.assert_array_equal(inside, place)
    else:  # no position of a grid is nearer, except at corners
        xs, ys, field = boundary.distance_grid(0.5)
        grid = np.stack(np.meshgrid(xs, ys), axis=-1)[field >= wanted]
        nearest = np.hypot(*(grid - place).T).min() if len(grid) else np.inf
        assert np.hypot(*(inside - place)) <= nearest + 2.0 * wanted + 1.0


def test_a_margin_larger_than_the_ground_is_refused():
    with pytest.raises(EnvironmentUsageError, match=r"no position is 6.0 m.*largest distance is 5.0"):
        Boundary([SQUARE]).nearest_inside((5, 5), 6.0)


def test_many_positions_equal_single_ones():
    boundary = Boundary([SQUARE, PILLAR])
    many = np.random.default_rng(0).uniform(-5, 15, (5000, 2))
    distances, ways = boundary.distance(many), boundary.normal(many)
    for i in (0, 17, 4097, 4999):
        assert distances[i] == boundary.distance(many[i])
        np.testing.assert_array_equal(ways[i], boundary.normal(many[i]))
    x, y, field = boundary.distance_grid(0.5)
    assert field[3, 7] == boundary.distance((x[7], y[3]))


@pytest.mark.parametrize(
    ("rings", "problem"),
    [
        ([], "at least one ring"),
        ([[[0, 0], [1, 1]]], "K at least 3"),
        ([[[0, 0], [1, 1], [2, 2]]], "no area"),
        ([[[0, 0], [1, 0], [np.nan, 1]]], "finite"),
        ([["a", "b", "c"]], "pairs of numbers"),
        ([SQUARE, [[0, 0, 0]] * 3], r"rings\[1\]"),
    ],
)
def test_wrong_rings(rings, problem):
    with pytest.raises(EnvironmentUsageError, match=problem):
        Boundary(rings)


def test_wrong_positions():
    with pytest.raises(EnvironmentUsageError, match=r"\(N, 2\)"):
        Boundary([SQUARE]).distance((1, 2, 3))


@pytest.mark.parametrize("suffix", [".toml", ".npz"])
def test_a_loaded_boundary_equals_the_saved_one(tmp_path, suffix):
    boundary = Boundary([Boundary.circle((1 / 3, 2.0), 7.0).rings[0], PILLAR])
    path = tmp_path / f"edge{suffix}"
    save_boundary(boundary, path)
    again = load_boundary(str(path))
    assert len(again.rings) == 2
    for old, new in zip(boundary.rings, again.rings, strict=True):
        np.testing.assert_array_equal(old, new)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.toml", "format = 2\n", "not a boundary of format 1"),
        ("a.toml", "format = [", "is not valid TOML"),
        ("a.toml", "format = 1\nrings = 3\n", "must be tables"),
        ("a.toml", "format = 1\n[[rings]]\npoints = [[0, 0], [1, 1]]\n", "K at least 3"),
        ("a.npz", "not a zip", "cannot be read"),
        ("a.json", "{}", "has to end in"),
    ],
)
def test_files_without_a_boundary(tmp_path, name, text, problem):
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=problem) as error:
        load_boundary(tmp_path / name)
    assert error.value.source == str(tmp_path / name)


def test_a_file_with_objects_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", format=np.array([1]), ring_0=np.array([{}], dtype=object))
    with pytest.raises(ConfigError, match="Object arrays cannot be loaded"):
        load_boundary(tmp_path / "a.npz")


def test_missing_files(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        load_boundary(tmp_path / "none.npz")
    with pytest.raises(ConfigError, match="cannot be written"):
        save_boundary(Boundary([SQUARE]), tmp_path / "no" / "a.toml")


def test_a_picture(tmp_path):
    import cv2  # noqa: PLC0415

    draw_boundary(Boundary([SQUARE, PILLAR]), tmp_path / "a.png", walk=SQUARE, title="square")
    picture = cv2.imread(str(tmp_path / "a.png"))
    assert picture.shape[0] > 300
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 20
