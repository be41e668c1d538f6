"""The rig: limbs keep their lengths, hands and tips are where a pose sets them, and no value is NaN."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulslab.arena.window.figures.knight_poses import KNIGHT, key_poses
from soulslab.arena.window.figures.pose import Row, blend, foot_of, key, play
from soulslab.arena.window.figures.rig import PARTS, Place, place_parts, tip_of

RIGHT_ARM, RIGHT_FOREARM = PARTS.index("right_upper_arm"), PARTS.index("right_forearm")
WEAPON = PARTS.index("weapon")

REST = key_poses()["rest"]


def check_is_rotation(place: Place) -> None:
    """Check that the axes of a coordinate system are finite, orthonormal and right-handed."""
    axes = np.array(place[:3])
    assert np.isfinite(np.array(place[3])).all()
    np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-6)
    assert np.linalg.det(axes) == pytest.approx(1.0, abs=1e-6)


numbers = st.floats(-3.0, 3.0, allow_nan=False)


@given(st.lists(numbers, min_size=3 * len(Row), max_size=3 * len(Row)))
def test_any_pose_has_places_that_are_rotations(values: list[float]) -> None:
    pose = np.array(values).reshape(len(Row), 3)
    pose[Row.EXTRA] = np.clip(pose[Row.EXTRA], 0.0, 1.0)
    places, stretch = place_parts(KNIGHT, pose)
    for place in places:
        check_is_rotation(place)
    assert math.isfinite(stretch)
    assert stretch > 0.0


def test_limbs_keep_their_lengths() -> None:
    places, _ = place_parts(KNIGHT, REST)
    shoulder, elbow = (np.array(places[part][3]) for part in (RIGHT_ARM, RIGHT_FOREARM))
    palm = np.array(places[WEAPON][3])
    assert np.linalg.norm(elbow - shoulder) == pytest.approx(KNIGHT.upper_arm)
    assert np.linalg.norm(palm - elbow) == pytest.approx(KNIGHT.forearm)


def test_a_hand_within_reach_is_where_the_pose_wants_it() -> None:
    pose = key(REST, right_hand=(0.3, 0.3, 1.2))
    places, _ = place_parts(KNIGHT, pose)
    assert places[WEAPON][3] == pytest.approx((0.3, 0.3, 1.2))


def test_a_tip_of_full_weight_is_where_the_pose_wants_it() -> None:
    pose = REST.copy()
    pose[Row.TIP] = (0.4, 2.4, 0.3)
    pose[Row.EXTRA, 2] = 1.0
    assert tip_of(KNIGHT, pose) == pytest.approx((0.4, 2.4, 0.3))


def test_a_tumbling_body_turns_about_its_middle() -> None:
    upside_down = key(REST, tumble=(math.pi, 0.0, 0.0))
    head = PARTS.index("head")
    (_, _, up, _), (_, _, turned_up, place) = (place_parts(KNIGHT, pose)[0][head] for pose in (REST, upside_down))
    assert up[2] == pytest.approx(-turned_up[2])
    assert place[2] < KNIGHT.pivot


def test_blending_and_playing_end_at_their_keys() -> None:
    other = key(REST, hips=(0.0, 0.0, 0.5))
    np.testing.assert_array_equal(blend(REST, other, 0.0), REST)
    np.testing.assert_array_equal(blend(REST, other, 1.0), other)
    keys = [(2.0, REST), (6.0, other)]
    np.testing.assert_array_equal(play(keys, 0.0), REST)
    np.testing.assert_array_equal(play(keys, 9.0), other)
    np.testing.assert_allclose(play(keys, 4.0), (REST + other) / 2)


def test_a_foot_on_the_ground_does_not_slide() -> None:
    stride = 2.0
    for phase in np.linspace(0.01, 0.48, 12):
        ahead, height = foot_of(float(phase), stride, 0.1)
        assert height == 0.0
        # The body has gone on by phase * stride since the foot came down.
        assert ahead + float(phase) * stride == pytest.approx(stride / 4.0)


def test_the_swinging_foot_leaves_the_ground() -> None:
    ahead, height = foot_of(0.75, 2.0, 0.1)
    assert ahead == pytest.approx(0.0)
    assert height == pytest.approx(0.1)
    assert REST[Row.RIGHT_FOOT, 2] == 0.0
