"""Boundaries from walks: round the edge, all over the ground, with teleports, from a recording."""

import numpy as np
import pytest

from soulslab.arena.binding import Binding
from soulslab.envs.wrappers import Boundary, WalkOptions, boundary_of_recording, boundary_of_walk
from soulslab.errors import EnvironmentUsageError, RecordingError
from soulslab.games.arena import PROFILE_PATH
from soulslab.siphon.profile import load_profile
from soulslab.siphon.recording.hdf5 import Layout, RecordingFile, Sample

CENTRE = np.array([142.0, 594.0])


def round_walk(radius_m=20.0, n=400):
    angles = np.linspace(0.0, 2.0 * np.pi, n)
    return CENTRE + radius_m * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def spiral(first_m, last_m, n=6000):
    """Return a spiral walk over a ring of ground, with 1 m between its turns."""
    radii = np.linspace(first_m, last_m, n)
    angles = 2.0 * np.pi * radii
    return CENTRE + radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def check_like_circle(boundary, radius_m, tolerance_m=0.25):
    places = CENTRE + np.random.default_rng(0).uniform(-30, 30, (300, 2))
    circle = Boundary.circle(CENTRE, radius_m)
    np.testing.assert_allclose(boundary.distance(places), circle.distance(places), atol=tolerance_m)


def test_a_walk_round_the_edge_is_enough():
    boundary = boundary_of_walk(round_walk(), WalkOptions(reach_m=0.5))
    assert len(boundary.rings) == 1
    check_like_circle(boundary, 20.5)


def test_a_walk_all_over_the_ground_with_heights():
    walk = np.column_stack([spiral(0.2, 15.0), np.full(6000, -68.8)])
    check_like_circle(boundary_of_walk(walk), 15.0, 0.75)  # the last turn ends 1 m further out than it begins


def test_an_area_without_a_walk_is_an_optional_hole():
    walk = spiral(6.0, 15.0)
    assert len(boundary_of_walk(walk).rings) == 1
    ground = boundary_of_walk(walk, WalkOptions(hole_m2=50.0))
    assert len(ground.rings) == 2
    assert ground.distance(CENTRE) == pytest.approx(-5.5, abs=0.4)
    assert len(boundary_of_walk(walk, WalkOptions(hole_m2=200.0)).rings) == 1


def test_parts_are_not_joined_by_a_teleport_and_the_largest_one_is_used():
    walk = np.concatenate([round_walk(), CENTRE + (80.0, 0.0) + 3.0 * (round_walk() - CENTRE) / 20.0])
    boundary = boundary_of_walk(walk)
    check_like_circle(boundary, 20.5)


def test_a_gap_is_bridged():
    walk = round_walk()[10:-10]  # 6 m are missing
    assert boundary_of_walk(walk, WalkOptions(bridge_m=0.0)).distance(CENTRE) < 0
    assert boundary_of_walk(walk, WalkOptions(bridge_m=8.0)).distance(CENTRE) > 15


def test_positions_that_are_not_finite_are_ignored():
    walk = round_walk()
    walk[100] = np.nan
    check_like_circle(boundary_of_walk(walk), 20.5)


@pytest.mark.parametrize(
    ("walk", "options", "problem"),
    [
        (np.zeros((3, 4)), {}, r"\(N, 2\) or \(N, 3\)"),
        (np.full((3, 2), np.nan), {}, "no finite position"),
        ([[0, 0], [10_000, 0]], {}, "too much for cells of 0.1 m"),
        ([[0, 0]], {"cell_m": 0.0}, "cell_m must be greater than 0"),
        ([[0, 0]], {"bridge_m": -1.0}, "bridge_m must be 0 or more"),
    ],
)
def test_wrong_walks(walk, options, problem):
    with pytest.raises(EnvironmentUsageError, match=problem):
        boundary_of_walk(walk, WalkOptions(**options))


def record(path, walk):
    """Write a recording of a walk, with one unreadable sample."""
    profile = load_profile(PROFILE_PATH)
    binding = Binding(profile.duel, profile.attributes)
    names = ("player.position", "player.hp", "player.angle")
    file = RecordingFile(
        path,
        Layout(
            attributes={name: profile.attributes[name] for name in names},
            frame_shape=None,
            is_compressed=False,
            facts={},
        ),
    )
    for i, (x, y) in enumerate(walk):
        position = binding.encode("player.position", (x, y, -68.8))
        values = {} if i == 7 else {"player.position": position, "player.hp": x, "player.angle": y}
        file.append(Sample(float(i), float(i), values, frozenset(), None, [0.0] * 5, 0.0, 0.0))
    file.commit()
    file.close()


def test_a_recorded_walk(tmp_path):
    path = tmp_path / "walk.h5"
    record(path, round_walk())
    check_like_circle(boundary_of_recording(path), 20.5)
    check_like_circle(boundary_of_recording(path, ("player.hp", "player.angle")), 20.5)  # two attributes: x and y
    with pytest.raises(EnvironmentUsageError, match=r"no attribute 'player.positon'; did you mean 'player.position'"):
        boundary_of_recording(path, ("player.positon",))
    with pytest.raises(EnvironmentUsageError, match="and axes such as"):
        boundary_of_recording(path, axes="xy")
    with pytest.raises(EnvironmentUsageError, match="two with one number each"):
        boundary_of_recording(path, ("player.hp",))


def test_a_missing_recording(tmp_path):
    with pytest.raises(RecordingError):
        boundary_of_recording(tmp_path / "none.h5")


def test_a_walk_with_too_few_positions_is_refused():
    corners = CENTRE + 10.0 * np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]])
    with pytest.raises(EnvironmentUsageError, match=r"no two consecutive positions .* within jump_m \(3.0 m\)"):
        boundary_of_walk(corners)
    square = boundary_of_walk(corners, WalkOptions(jump_m=11.0))
    assert square.distance(CENTRE + 5.0) == pytest.approx(5.0 + 0.5, abs=0.25)


def test_a_single_position_is_a_small_ground():
    check_like_circle(boundary_of_walk(CENTRE[None], WalkOptions(reach_m=2.0)), 2.0)
