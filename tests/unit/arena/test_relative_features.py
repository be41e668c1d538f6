"""Relative features: signs and units, and invariance under turns and shifts of the duel."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulslab.arena.boss_file import boss_names
from soulslab.arena.duel_state import DUEL_STATE
from soulslab.arena.features import FEATURE_NAMES
from soulslab.arena.relative_features import (
    N_RELATIVE,
    RELATIVE_NAMES,
    RELATIVE_SCALARS,
    relative_bounds,
    relative_of_state,
)
from soulslab.arena.vocabulary import ACTIONS, N_ACTIONS
from support.stage import KNIGHT, Stage, make_simulator

LOW, EXTENT, FLOOR = np.array([-40.0, -50.0, -3.0]), np.array([80.0, 100.0, 18.0]), 1.0


def by_name(row):
    return dict(zip(RELATIVE_NAMES, row.tolist(), strict=True))


def from_state(state, low=LOW, extent=EXTENT, floor=FLOOR):
    """Return the features of a `DUEL_STATE` record."""
    out = np.full(N_RELATIVE, np.nan, np.float32)
    relative_of_state(state, low, extent, floor, out)
    return out


def angle_of(x, y):
    """Return the angle of the pose that looks along (x, y)."""
    return math.atan2(-x, -y)


def make_state(player=(0.0, 0.0), boss=(0.0, 5.0), height=FLOOR, looks=((0, 1), (0, -1), (0, 1))):
    """Return a duel with these positions, and these directions of player, boss and camera."""
    state = np.zeros(1, DUEL_STATE)[0]
    state.phase, state.player_hp, state.player_max_hp = 1, 100.0, 400
    state.player_sp, state.player_max_sp, state.boss_hp, state.boss_max_hp = 30.0, 60, 700.0, 1000
    state.player_pose[:] = (*player, height, angle_of(*looks[0]))
    state.boss_pose[:] = (*boss, FLOOR, angle_of(*looks[1]))
    state.camera_pose[3:] = (*looks[2], -0.3)
    state.player_animation, state.player_animation_duration = KNIGHT.number("LandFaceUp"), 0.5
    state.boss_animation, state.boss_animation_duration, state.boss_bin_duration = 3, 0.25, 1.5
    return state


def test_the_animations_are_those_of_the_features():
    assert N_RELATIVE == len(RELATIVE_NAMES) == len(set(RELATIVE_NAMES)) == 73
    assert len(RELATIVE_SCALARS) == 17
    assert RELATIVE_NAMES[15:] == FEATURE_NAMES[16:]
    assert RELATIVE_NAMES[:3] == FEATURE_NAMES[:3]


def test_units_and_signs():
    # The boss is along +x of the player; left of that is +y.
    looks = ((0, 1), (0, 1), (1, 0))
    found = by_name(from_state(make_state((10.0, 20.0), (15.0, 20.0), FLOOR + 2.0, looks)))
    expected = {
        "player_hp": 0.25,
        "player_sp": 0.5,
        "boss_hp": 0.7,
        "distance": 0.5,
        "log_distance": math.log(5.0) / 2,
        # The player looks to the left of the boss; the boss, who looks the same way, to the right of the player.
        "player_facing_cos": 0.0,
        "player_facing_sin": 1.0,
        "boss_facing_cos": 0.0,
        "boss_facing_sin": -1.0,
        "camera_view_cos": 1.0,
        "camera_view_sin": 0.0,
        "place_ahead": 10 / 40,
        "place_left": 20 / 40,
        "place_distance": math.hypot(10, 20) / 40,
        "player_height": 0.2,
        "player_animation_duration": 0.5,
        "boss_animation_duration": 1.5,
        "player_animation=LandFace": 1.0,
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=1e-6), name
    assert sum(value for name, value in found.items() if "=" in name) == 2


def test_left_is_where_the_action_left_goes():
    """A step to the left, relative to a camera that faces the boss, increases the coordinate "left"."""
    stage = Stage(gap_m=10, relative=True)
    stage.decide()
    before = by_name(stage.simulator.features[0])
    stage.decide(ACTIONS.index(("left",)))
    after = by_name(stage.simulator.features[0])
    assert after["place_left"] > before["place_left"] + 0.001


def test_both_fighters_face_each_other_at_the_start():
    simulator = make_simulator("judge", range(20), random_pose=True, relative=True)
    columns = {name: simulator.features[:, i] for i, name in enumerate(RELATIVE_NAMES)}
    for name in ("player_facing_cos", "boss_facing_cos", "camera_view_cos"):
        np.testing.assert_allclose(columns[name], 1.0, atol=1e-6)
    for name in ("player_facing_sin", "boss_facing_sin", "camera_view_sin", "player_height"):
        np.testing.assert_allclose(columns[name], 0.0, atol=1e-6)


@pytest.mark.parametrize("way", [(1, 0), (0, 1), (-0.6, 0.8)])
def test_at_the_same_position_ahead_is_the_facing_of_the_player(way):
    found = by_name(from_state(make_state((3.0, 4.0), (3.0, 4.0), looks=(way, way, (0, 0)))))
    assert all(math.isfinite(value) for value in found.values())
    assert (found["distance"], found["log_distance"]) == (0.0, pytest.approx(math.log(0.1) / 2))
    assert (found["player_facing_cos"], found["boss_facing_cos"]) == pytest.approx((1.0, -1.0), abs=1e-6)
    assert found["place_ahead"] == pytest.approx((3 * way[0] + 4 * way[1]) / 40, abs=1e-6)
    # A camera that looks straight down has no view on the ground.
    assert (found["camera_view_cos"], found["camera_view_sin"]) == (0.0, 0.0)


def test_an_unknown_animation_lights_nothing():
    state = make_state()
    state.player_animation = state.boss_animation = -1
    assert from_state(state)[len(RELATIVE_SCALARS) :].sum() == 0


ANGLE = st.floats(-math.pi, math.pi)
PLACE = st.tuples(st.floats(-25, 25), st.floats(-25, 25))


@given(PLACE, PLACE, st.tuples(ANGLE, ANGLE, ANGLE), ANGLE, st.tuples(*[st.floats(-500, 500)] * 3))
def test_turning_and_moving_the_whole_duel_changes_nothing(player, boss, angles, turn, shift):
    """Turn poses, camera and ground about the ground's centre; only the extents of the ground's limits matter."""
    if math.dist(player, boss) < 0.01:  # there the way to the boss is a matter of rounding
        boss = (player[0] + 1.0, player[1])
    middle = LOW[:2] + EXTENT[:2] / 2

    def ways(by):
        return tuple((math.cos(angle + by), math.sin(angle + by)) for angle in angles)

    def turned(place):
        x, y = place
        cos, sin = math.cos(turn), math.sin(turn)
        return x * cos - y * sin + middle[0] + shift[0], x * sin + y * cos + middle[1] + shift[1]

    def at(place):
        return place[0] + middle[0], place[1] + middle[1]

    here = from_state(make_state(at(player), at(boss), FLOOR + 0.5, ways(0.0)))
    state = make_state(turned(player), turned(boss), FLOOR + 0.5 + shift[2], ways(turn))
    there = from_state(state, LOW + np.array(shift), EXTENT, FLOOR + shift[2])
    np.testing.assert_allclose(there, here, atol=1e-5)


@pytest.mark.parametrize("boss", boss_names())
def test_features_of_a_state_are_those_of_the_duel_along_whole_fights(boss):
    n = 6
    options = {"states": True, "relative": True, "random_pose": True, "autoreset": "next_step"}
    simulator = make_simulator(boss, range(n), **options)
    rng = np.random.default_rng(3)
    fight = simulator.fight[0]
    ground = fight.low.copy(), fight.extent.copy(), float(fight.floor)
    low, high = relative_bounds(*ground)
    cliff = simulator.boss.ground
    has_fallen = False
    for t in range(300):
        if t == 100:  # one stands where the cliff may be, and is blown outwards
            blown = simulator.duels[1]
            blown.p_x = cliff.centre_m[0] + cliff.radius_m * math.cos(cliff.cliff_rad)
            blown.p_y = cliff.centre_m[1] + cliff.radius_m * math.sin(cliff.cliff_rad)
            blown.p_push_ticks, blown.p_push_x = 12, math.cos(cliff.cliff_rad) / 3
            blown.p_push_y = math.sin(cliff.cliff_rad) / 3
        simulator.step(rng.integers(0, N_ACTIONS, n))
        for place in range(n):
            found = from_state(simulator.states[place], *ground)
            np.testing.assert_allclose(found, simulator.features[place], atol=1e-6)
        assert (simulator.features >= low).all()
        assert (simulator.features <= high).all()
        has_fallen |= bool((simulator.features[:, RELATIVE_NAMES.index("player_height")] < 0).any())
    assert has_fallen == (boss != "frost_beast")
