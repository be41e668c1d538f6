"""The 74 features: their names, their scaling, and the same numbers from a state as from a duel."""

import math

import numpy as np
import pytest

from soulslab.arena.boss_file import boss_names
from soulslab.arena.duel_state import DUEL_FIELDS, DUEL_STATE
from soulslab.arena.features import (
    BOSS_BINS,
    FEATURE_NAMES,
    N_FEATURES,
    PLAYER_BINS,
    feature_bounds,
    features_of_state,
)
from soulslab.arena.vocabulary import BOSS_ANIMATIONS, N_ACTIONS
from support.stage import KNIGHT, Stage, make_simulator


def features(stage):
    """Return the features by name after a decision with the action "nothing"."""
    stage.decide()
    return dict(zip(FEATURE_NAMES, stage.simulator.features[0].tolist(), strict=True))


def from_state(simulator, place=0):
    """Return the features of a duel's `DUEL_STATE` record."""
    out = np.zeros(N_FEATURES, np.float32)
    fight = simulator.fight[0]
    features_of_state(simulator.states[place], fight.low.copy(), fight.extent.copy(), out)
    return out


def test_there_are_74_of_different_names():
    assert N_FEATURES == len(FEATURE_NAMES) == len(set(FEATURE_NAMES)) == 74
    assert (len(PLAYER_BINS), len(BOSS_BINS)) == (31, 25)


@pytest.mark.parametrize(
    ("bin_", "names"),
    [
        ("AddDamage", "AddDamageDefault AddDamageStartLeft AddDamageStartRight AddDamageStartFront AddDamageStartBack"),
        ("Move", "Idle Move None RunStopFront RunStopBack RunStopLeft RunStopRight"),
        ("QuickTurn", "QuickTurnLeft180 QuickTurnRight180"),
        ("Land", "LandLow Land"),
        ("LandFace", "LandFaceUp LandFaceDown"),
        (
            "Fall",
            "FallStart FallStartFaceUp FallStartFaceDown FallLoop FallLoopFaceUp FallLoopFaceDown FallAttackStart",
        ),
    ],
)
def test_player_animations_that_share_a_bin(bin_, names):
    for name in KNIGHT.animations:
        simulator = Stage().simulator
        simulator.states[0].player_animation = KNIGHT.number(name)
        lit = from_state(simulator)[18:49]
        assert lit.sum() == 1
        assert (PLAYER_BINS[int(lit.argmax())] == bin_) == (name in names.split())


def test_boss_walks_and_turns_share_a_bin_and_the_unknown_has_none():
    simulator = Stage().simulator
    for number in range(-1, len(BOSS_ANIMATIONS)):
        simulator.states[0].boss_animation = number
        lit = from_state(simulator)[49:]
        assert lit.sum() == (number >= 0)
        if number >= 0:
            name = BOSS_ANIMATIONS[number]
            walks = name.startswith(("Walk", "TurnBattle"))
            assert BOSS_BINS[int(lit.argmax())] == ("Walk" if walks else name)


def test_scaling():
    stage = Stage(gap_m=10)
    d = stage.d
    d.phase, d.p_hp, d.p_sp, d.b_hp = 2, 227.0, 95.0, 1037 / 4
    d.p_anim, d.p_ticks = KNIGHT.number("LandFaceUp"), 24
    found = features(stage)
    expected = {
        "player_hp": 0.5,
        "player_sp": 1.0,
        "boss_hp": 0.25,
        "distance": (10 + 0.4 + 0.9) / 50,
        "player_x": (142 - 110) / 80,
        "player_y": (594 - 540) / 100,
        "player_z": (-68.8 + 73) / 18,
        "boss_y": (594 + 11.3 - 540) / 100,
        "boss_z": (-68.8 + 73) / 18,
        # The player looks along +y, which is the angle pi; the boss back at it, which is 0.
        "player_sin": 0.0,
        "player_cos": -1.0,
        "boss_sin": 0.0,
        "boss_cos": 1.0,
        "camera_sin": 0.0,
        "camera_cos": 1.0,
        "player_animation_duration": 0.5,
        "player_animation=LandFace": 1.0,
        "boss_animation=Walk": 1.0,
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=1e-6), name


def test_poses_face_each_other_as_in_the_facts():
    """The direction of a pose with the angle a is (-sin a, -cos a)."""
    stage = Stage()
    stage.decide()
    state = stage.simulator.states[0]
    for pose, way in ((state.player_pose, (0, 1)), (state.boss_pose, (0, -1))):
        assert (-math.sin(pose[3]), -math.cos(pose[3])) == pytest.approx(way, abs=1e-9)


def test_the_time_of_walks_and_turns_runs_on_from_one_to_the_next():
    stage = Stage(gap_m=8)
    stage.f.b_walk = 0.01
    stage.decide()
    first = stage.simulator.states[0].copy()
    stage.d.b_fy, stage.d.b_fx = 0.0, 1.0
    stage.decide()
    second = stage.simulator.states[0].copy()
    assert BOSS_ANIMATIONS[first.boss_animation] == "WalkFrontBattle"
    assert BOSS_ANIMATIONS[second.boss_animation].startswith("TurnBattle")
    assert second.boss_animation_duration < second.boss_bin_duration
    assert second.boss_bin_duration == pytest.approx(first.boss_bin_duration + 0.1)


def test_animation_times_stop_at_10_seconds():
    stage = Stage(gap_m=1.5)
    stage.decide()
    stage.d.p_ticks = stage.d.b_bin_ticks = stage.d.b_anim_ticks = 10**6
    found = features(stage)
    assert found["player_animation_duration"] == found["boss_animation_duration"] == 10
    assert stage.simulator.states[0].boss_animation_duration == 10


@pytest.mark.parametrize("boss", boss_names())
@pytest.mark.parametrize("phase", ["full", "2"])
def test_features_of_a_state_are_those_of_the_duel_along_whole_fights(boss, phase):
    n = 6
    simulator = make_simulator(boss, range(n), states=True, random_pose=True, phase=phase, autoreset="next_step")
    rng = np.random.default_rng(3)
    low, high = feature_bounds()
    seen = {"lock lost": False, "falling": False, "change of phase": False}
    for t in range(400):
        actions = rng.integers(0, N_ACTIONS, n)
        if phase == "full":
            simulator.duels["b_hp"][-1] = simulator.fight[0].phase_two_hp  # one is always changing its phase
            simulator.duels["p_hp"][-1] = 454
        if t == 200:
            # One whose camera looks the wrong way, one that is blown outwards to where the cliff may be.
            wrong, blown, ground = simulator.duels[0], simulator.duels[1], simulator.boss.ground
            wrong.c_fx, wrong.c_fy = -wrong.c_fx, -wrong.c_fy
            blown.p_x = ground.centre_m[0] + ground.radius_m * math.cos(ground.cliff_rad)
            blown.p_y = ground.centre_m[1] + ground.radius_m * math.sin(ground.cliff_rad)
            blown.p_push_ticks, blown.p_push_x = 12, math.cos(ground.cliff_rad) / 3
            blown.p_push_y = math.sin(ground.cliff_rad) / 3
        simulator.step(actions)
        for place in range(n):
            np.testing.assert_allclose(from_state(simulator, place), simulator.features[place], atol=1e-6)
        assert (simulator.features >= low).all()
        assert (simulator.features <= high).all()
        seen["lock lost"] |= bool((simulator.states["lock_on"] == 0).any())
        seen["falling"] |= bool((simulator.duels["p_falling"] == 1).any())
        seen["change of phase"] |= bool((simulator.states["boss_animation"] == -1).any())
    expected = {"lock lost": True, "falling": boss != "frost_beast", "change of phase": phase == "full"}
    assert seen == expected


def test_the_duel_state_has_the_15_fields_of_the_facts():
    names = (
        "phase player_hp player_max_hp player_sp player_max_sp boss_hp boss_max_hp player_pose boss_pose camera_pose "
        "player_animation player_animation_duration boss_animation boss_animation_duration lock_on"
    )
    assert tuple(field.name for field in DUEL_FIELDS) == tuple(names.split())
    assert DUEL_STATE.names == (*names.split(), "boss_bin_duration")
    assert [field.size for field in DUEL_FIELDS if field.size > 1] == [4, 4, 6]
