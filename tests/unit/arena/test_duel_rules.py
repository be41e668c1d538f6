"""The start of a duel, and the lock-on of the camera."""

import math

import numpy as np
import pytest

from soulslab.arena.boss_file import boss_names
from soulslab.arena.duel_rules import START_JITTER_M
from soulslab.arena.vocabulary import NOTHING
from support.stage import Stage, make_simulator


@pytest.mark.parametrize("boss", boss_names())
def test_a_fight_begins_face_to_face_locked_and_whole(boss):
    d = make_simulator(boss).duels[0]
    ux, uy = d.b_x - d.p_x, d.b_y - d.p_y
    distance = math.hypot(ux, uy)
    assert d.p_fx * ux + d.p_fy * uy == pytest.approx(distance)
    assert d.b_fx * ux + d.b_fy * uy == pytest.approx(-distance)
    assert (d.lock_on, d.p_hp, d.p_sp, d.phase, d.start_pose) == (1, 454, 95, 1, -1)
    assert 60 <= d.b_wait < 120


@pytest.mark.parametrize("boss", boss_names())
def test_random_starts_lie_around_the_poses_of_the_file(boss):
    simulator = make_simulator(boss, range(600), random_pose=True)
    poses = np.array(simulator.boss.ground.player_poses_random)[:, :2]
    drawn = simulator.duels["start_pose"]
    assert set(drawn.tolist()) == set(range(len(poses)))
    off = np.stack([simulator.duels["p_x"], simulator.duels["p_y"]], axis=1) - poses[drawn]
    assert np.abs(off).max() <= START_JITTER_M
    assert np.abs(off).max() > 0.9 * START_JITTER_M
    assert np.abs(off.mean(axis=0)).max() < 0.05


def test_without_random_pose_every_fight_begins_in_the_same_place():
    simulator = make_simulator("judge", range(5))
    assert set(simulator.duels["p_x"].tolist()) == {132.176}
    assert set(simulator.duels["p_y"].tolist()) == {575.064}


def test_the_camera_follows_the_boss_while_locked():
    stage = Stage(gap_m=4)
    for _ in range(60):
        stage.tick(1, 2)  # walk to the right, around the boss
        d = stage.d
        assert d.lock_on
        ux, uy = d.b_x - d.p_x, d.b_y - d.p_y
        assert d.c_fx * ux + d.c_fy * uy == pytest.approx(math.hypot(ux, uy), rel=1e-3)


def test_the_lock_is_lost_by_distance_and_comes_back():
    stage = Stage()
    stage.f.radius = 100.0
    d = stage.d
    d.b_y = d.p_y + 27.9
    stage.tick()
    assert d.lock_on
    d.b_y = d.p_y + 28.2
    stage.tick()
    assert not d.lock_on
    stage.tick(60)
    assert not d.lock_on
    d.b_y = d.p_y + 25.0
    stage.tick(60)
    assert not d.lock_on
    d.b_y = d.p_y + 23.0
    stage.tick()
    assert d.lock_on


def test_a_boss_that_gets_behind_faster_than_the_camera_turns_breaks_the_lock():
    stage = Stage(gap_m=2)
    d = stage.d
    d.b_y = d.p_y - 3.3
    stage.tick()
    assert not d.lock_on
    # From right behind, the camera needs (pi - 0.35) / 2.5 s.
    off_s = 1 / 60
    while not d.lock_on:
        stage.tick()
        off_s += 1 / 60
    assert off_s == pytest.approx((math.pi - 0.35) / 2.5, abs=0.1)


@pytest.mark.parametrize(("angle_rad", "locked"), [(1.1, True), (1.3, False)])
def test_up_to_1_2_rad_the_camera_holds_on(angle_rad, locked):
    stage = Stage(gap_m=2)
    stage.d.b_x = stage.d.p_x + 3.3 * math.sin(angle_rad)
    stage.d.b_y = stage.d.p_y + 3.3 * math.cos(angle_rad)
    stage.tick()
    assert bool(stage.d.lock_on) == locked


def test_a_lost_lock_stays_lost_for_half_a_second_at_least():
    stage = Stage(gap_m=2)
    d = stage.d
    d.b_y = d.p_y - 3.3
    stage.tick()
    d.b_y = d.p_y + 3.3
    stage.tick(29)
    assert not d.lock_on
    stage.tick()
    assert d.lock_on


def test_without_the_lock_the_player_does_not_turn_to_the_boss():
    stage = Stage(gap_m=2)
    stage.d.b_y = stage.d.p_y - 3.3
    stage.d.lock_on = 0
    stage.decide(NOTHING, 3)
    assert stage.d.p_fy == 1.0
    assert stage.simulator.states[0].lock_on == 0


def test_bodies_do_not_overlap():
    stage = Stage(gap_m=0.3)
    stage.tick(60, 0)
    d, f = stage.d, stage.f
    assert math.hypot(d.b_x - d.p_x, d.b_y - d.p_y) == pytest.approx(f.p_radius + f.b_radius)


def test_the_boss_stays_on_the_floor():
    stage = Stage()
    stage.d.b_y = stage.f.centre_y + 100
    stage.tick()
    assert stage.d.b_y == pytest.approx(stage.f.centre_y + stage.f.radius)
