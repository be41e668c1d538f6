"""Rules of the player, one small situation per test."""

import math

import numpy as np
import pytest

from soulslab.arena.fight_table import ticks
from soulslab.arena.player_rules import hurt_player
from soulslab.arena.vocabulary import FIRST_ROLL, HEAVY_ATTACK, LIGHT_ATTACK, N_ACTIONS, NOTHING, PARRY
from support.stage import KNIGHT, KNOCK_BACKS, Stage, shipped

MOVES, ROLLS, ATTACKS = slice(0, 8), slice(8, 16), slice(16, 19)
BACK_ROLL = FIRST_ROLL + 4
SCALE = shipped("judge").damage_scale[0]


def falls(stage):
    """Play until the duel ends, at most 3 s; return whether it ended by a fall."""
    for _ in range(30):
        stage.decide()
        if stage.d.over:
            return stage.d.p_z <= stage.f.death_z
    return False


# --- stamina ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("action", "cost"), [(FIRST_ROLL, 20), (LIGHT_ATTACK, 18), (HEAVY_ATTACK, 30), (PARRY, 12)])
def test_an_action_costs_stamina(action, cost):
    stage = Stage()
    stage.decide(action)
    assert stage.d.p_sp == 95 - cost


@pytest.mark.parametrize("action", [0, 3, NOTHING])
def test_walking_and_standing_cost_none(action):
    stage = Stage()
    stage.decide(action)
    assert stage.d.p_sp == 95


def test_stamina_comes_back_40_a_second_a_quarter_of_a_second_after_the_action():
    stage = Stage()
    stage.tick(1, BACK_ROLL, press=True)
    stage.tick(ticks(0.75 + 0.25) - 1)
    assert stage.d.p_sp == 75
    stage.tick(6)
    assert stage.d.p_sp == pytest.approx(75 + 4)
    stage.tick(60)
    assert stage.d.p_sp == 95


def test_an_action_may_use_up_the_rest_but_then_rolls_attacks_and_parry_are_shut():
    stage = Stage()
    stage.d.p_sp = 5.0
    mask = stage.decide(BACK_ROLL, 8)
    assert stage.d.p_sp == 0
    assert mask[MOVES].all()
    assert mask[NOTHING]
    assert not mask[ROLLS].any()
    assert not mask[ATTACKS].any()
    mask = stage.decide(NOTHING, 3)
    assert 0 < stage.d.p_sp < 5
    assert mask.all()


# --- lock times ---------------------------------------------------------------------------------------------

_RUNS_ON = ("AttackRightHeavy1Sta", "AttackRightHeavy1Sub", "AttackRightHeavy2Sta")


@pytest.mark.parametrize("name", [name for name in KNIGHT.animations if name not in _RUNS_ON])
def test_each_kind_of_action_opens_at_the_first_decision_after_its_lock(name):
    stage = Stage()
    stage.d.p_anim, stage.d.p_ticks = KNIGHT.number(name), 0
    locks = KNIGHT.locks_s[name]
    last = max(1, math.ceil(round(max(locks) * 10, 6)))
    for n in range(1, last + 1):
        mask = stage.decide()
        expected = [n / 10 >= lock - 1e-9 for lock in locks]
        opened = [mask[ATTACKS].all(), mask[ROLLS].all(), mask[MOVES].all()]
        assert opened == expected, f"after {n} decisions"
        assert [mask[ATTACKS].any(), mask[ROLLS].any(), mask[MOVES].any()] == expected
        assert mask[NOTHING]


def test_a_charged_attack_is_locked_until_the_blow_has_ended():
    stage = Stage()
    n_locked = ticks(1.0) + ticks(0.1) + ticks(0.53)
    mask = stage.decide(HEAVY_ATTACK, n_locked // 6)
    assert mask.sum() == 1
    assert stage.decide()[ATTACKS].all()


def test_a_masked_action_is_carried_out_as_nothing_and_counted():
    stages = [Stage(), Stage()]
    for stage in stages:
        stage.decide(LIGHT_ATTACK)
    for action in (0, BACK_ROLL, HEAVY_ATTACK, PARRY):
        stages[0].decide(action)
        stages[1].decide(NOTHING)
    assert (stages[0].d.s_masked, stages[1].d.s_masked) == (4, 0)
    stages[0].d.s_masked = 0
    assert stages[0].d.tobytes() == stages[1].d.tobytes()


# --- walking and rolling ------------------------------------------------------------------------------------


def way(direction):
    """Return the unit vector of one of the eight directions, clockwise from ahead, if the camera looks along +y."""
    return np.array([math.sin(direction * math.pi / 4), math.cos(direction * math.pi / 4)])


@pytest.mark.parametrize("direction", range(8))
def test_a_roll_moves_3_8_metres_its_way(direction):
    stage = Stage(gap_m=15)
    start = np.array([stage.d.p_x, stage.d.p_y])
    stage.decide(FIRST_ROLL + direction, 8)
    np.testing.assert_allclose([stage.d.p_x, stage.d.p_y] - start, 3.8 * way(direction), atol=1e-9)
    assert stage.animation == "RollingMedium"


def test_rolls_follow_the_camera_not_the_player():
    stage = Stage(gap_m=15)
    stage.d.p_fx, stage.d.p_fy = 1.0, 0.0
    stage.d.lock_on = 0
    stage.decide(FIRST_ROLL, 8)
    assert stage.d.p_x == pytest.approx(stage.f.centre_x)
    assert stage.d.p_y == pytest.approx(stage.f.centre_y + 3.8)


@pytest.mark.parametrize(
    ("direction", "speed"), [(0, 4.6), (1, 4.3), (2, 4.0), (3, 3.7), (4, 3.4), (5, 3.7), (6, 4.0), (7, 4.3)]
)
def test_walking_speeds_with_the_lock_on(direction, speed):
    stage = Stage(gap_m=20)
    start = np.array([stage.d.p_x, stage.d.p_y])
    stage.tick(1, direction)
    np.testing.assert_allclose([stage.d.p_x, stage.d.p_y] - start, speed / 60 * way(direction), atol=1e-9)
    assert stage.animation == "Move"
    stage.tick(1)
    assert stage.animation == "Idle"


def test_without_the_lock_the_player_turns_to_where_it_walks():
    stage = Stage(gap_m=20)
    stage.d.lock_on = 0
    stage.tick(20, 4)
    assert stage.d.p_fy == pytest.approx(-1, abs=1e-3)
    assert stage.d.p_y == pytest.approx(stage.f.centre_y - 20 * 4.6 / 60, abs=0.02)


def roll_starts_that_dodge(stage, window):
    """Return the start ticks of a roll on the spot that avoids an attack."""
    stage.stand_still("RollingMedium")
    window.advance = 0.0
    saved = stage.d.copy()
    dodging = []
    for start in range(window.start + 2):
        stage.simulator.duels[0] = saved
        stage.tick(start)
        stage.tick(1, FIRST_ROLL, press=True)
        stage.tick(window.start + 2 - start)
        if stage.d.s_hits_taken == 0:
            dodging.append(start)
    return dodging


def test_a_roll_protects_for_26_ticks():
    stage = Stage(gap_m=1)
    window = stage.begin("sweep_right")
    window.end = window.start + 1
    dodging = roll_starts_that_dodge(stage, window)
    assert len(dodging) / 60 == pytest.approx(0.43, abs=0.01)
    assert dodging == list(range(dodging[0], dodging[-1] + 1))
    # The first tick of a roll is bare: 0.03 s are two ticks.
    assert dodging[-1] == window.start - 2


def test_a_long_blow_needs_a_better_timed_roll():
    stage = Stage(gap_m=1)
    window = stage.begin("sweep_right")
    dodging = roll_starts_that_dodge(stage, window)
    assert 0 < len(dodging) <= 26 - 1


def test_who_does_not_roll_is_hit():
    stage = Stage(gap_m=1)
    stage.begin("sweep_right")
    stage.tick(45)
    assert stage.d.s_hits_taken == 1
    assert stage.d.p_hp == 454 - math.floor(118 * SCALE)


# --- attacks ------------------------------------------------------------------------------------------------


def test_light_attacks_make_a_combo_of_three():
    stage = Stage(gap_m=0.5)
    names, health = [], [stage.d.b_hp]
    for _ in range(4):
        stage.d.p_sp = 95
        stage.decide(LIGHT_ATTACK, 7)
        names.append(stage.animation)
        health.append(stage.d.b_hp)
    assert names == [f"AttackRightLight{n}" for n in (1, 2, 3, 1)]
    assert list(-np.diff(health)) == [40, 40, 46, 40]


def test_the_combo_starts_over_after_a_pause():
    stage = Stage()
    stage.decide(LIGHT_ATTACK, 15)
    assert stage.animation == "Idle"
    stage.decide(LIGHT_ATTACK)
    assert stage.animation == "AttackRightLight1"


def test_an_attack_out_of_a_roll_is_its_own():
    stage = Stage(gap_m=2)
    stage.stand_still("RollingMedium")
    stage.decide(FIRST_ROLL, 7)
    stage.decide(LIGHT_ATTACK, 8)
    assert stage.animation == "AttackRightLightStep"
    assert stage.d.b_hp == 1037 - 44
    stage.decide(LIGHT_ATTACK)
    assert stage.animation == "AttackRightLight2"


def test_heavy_attacks_are_charged_and_a_second_follows():
    stage = Stage(gap_m=1)
    seen = []
    stage.decide(HEAVY_ATTACK)
    for _ in range(16):
        seen.append(stage.animation)
        stage.decide()
    assert list(dict.fromkeys(seen)) == [f"AttackRightHeavy1{part}" for part in ("Sta", "Sub", "End")]
    assert stage.d.b_hp == 1037 - 105
    assert stage.d.p_sp == 65
    stage.decide(HEAVY_ATTACK)
    assert stage.animation == "AttackRightHeavy2Sta"
    stage.decide(NOTHING, 16)
    assert stage.animation == "AttackRightHeavy2End"
    assert stage.d.b_hp == 1037 - 105 - 120


def test_one_attack_hits_once():
    stage = Stage(gap_m=0.2)
    stage.decide(LIGHT_ATTACK, 10)
    assert stage.d.s_hits_dealt == 1


@pytest.mark.parametrize(("gap_m", "hits"), [(1.9, 1), (2.5, 1), (2.7, 0), (6.0, 0)])
def test_attacks_reach_so_far(gap_m, hits):
    stage = Stage(gap_m=gap_m)  # 1.9 m and a step of 0.7 m
    stage.decide(LIGHT_ATTACK, 8)
    assert stage.d.s_hits_dealt == hits


def test_an_attack_away_from_the_boss_misses():
    stage = Stage(gap_m=0.5)
    stage.d.p_fy, stage.d.lock_on = -1.0, 0
    stage.f.animations[KNIGHT.number("AttackRightLight1")].aim_to = 0
    stage.tick(1, LIGHT_ATTACK, press=True)
    stage.tick(25)
    assert stage.d.s_hits_dealt == 0


# --- being hit ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KNOCK_BACKS)
def test_a_hit_plays_its_animation_and_pushes(kind):
    stage = Stage()
    start = stage.d.p_x
    hurt_player(stage.d, stage.f, KNOCK_BACKS.index(kind), 10.0, 0, 1.0, 0.0)
    stage.tick(15)
    knock_back = KNIGHT.knock_backs[kind]
    assert stage.animation == knock_back.animation
    assert stage.d.p_x - start == pytest.approx(knock_back.push_m)
    assert stage.d.p_hp == 454 - math.floor(10 * SCALE)


@pytest.mark.parametrize("kind", ["down", "launch", "slam"])
def test_who_lies_on_the_ground_can_only_roll_first(kind):
    stage = Stage()
    hurt_player(stage.d, stage.f, KNOCK_BACKS.index(kind), 10.0, 0, 0.0, 0.0)
    roll_s = KNIGHT.locks_s[KNIGHT.knock_backs[kind].animation][1]
    mask = stage.decide(NOTHING, math.ceil(roll_s * 10))
    assert mask.nonzero()[0].tolist() == [*range(8, 16), NOTHING]
    stage.decide(BACK_ROLL)
    assert stage.animation == "RollingMedium"


@pytest.mark.parametrize(
    ("kind", "safe_s"), [("down", 1.9), ("launch", 2.1), ("slam", 1.6), ("fling", 0.6), ("small", 0.15)]
)
def test_who_was_knocked_down_is_not_hit_again_for_a_while(kind, safe_s):
    stage = Stage(gap_m=0.5)
    number = KNOCK_BACKS.index(kind)
    stage.f.knock_backs[number].push = 0.0
    hurt_player(stage.d, stage.f, number, 1.0, 0, 0.0, 0.0)
    window = stage.begin("spin_behind")
    window.start, window.end = 0, 10**6
    stage.f.moves[stage.move("spin_behind")].duration = 10**6
    hits_at = 0
    while stage.d.s_hits_taken == 1:
        stage.tick()
        hits_at += 1
    assert hits_at == ticks(safe_s)


def test_a_hit_breaks_the_streak_and_is_booked_on_its_move():
    stage = Stage()
    stage.d.streak = 3
    hurt_player(stage.d, stage.f, 0, 100.0, 4, 0.0, 0.0)
    assert stage.d.streak == 0
    assert stage.d.s_damage_by_move[4] == stage.d.s_damage_taken == math.floor(100 * SCALE)
    hurt_player(stage.d, stage.f, 0, 10_000.0, 5, 0.0, 0.0)
    assert stage.d.p_hp == 0
    assert stage.d.s_killed_by == 5
    assert stage.d.s_damage_taken == 454


# --- the edge -----------------------------------------------------------------------------------------------


def at_the_edge(angle, boss="judge"):
    """Return a stage whose player is one step from the edge and faces outwards, without lock-on."""
    stage = Stage(boss)
    x, y = math.cos(angle), math.sin(angle)
    stage.d.p_x = stage.f.centre_x + x * (stage.f.radius - 0.2)
    stage.d.p_y = stage.f.centre_y + y * (stage.f.radius - 0.2)
    stage.d.b_x, stage.d.b_y = stage.f.centre_x, stage.f.centre_y
    stage.d.p_fx = stage.d.c_fx = x
    stage.d.p_fy = stage.d.c_fy = y
    stage.d.lock_on = 0
    return stage


def test_over_the_cliff_is_death():
    stage = at_the_edge(0.35)
    stage.decide(0)
    assert stage.d.p_falling
    assert stage.animation == "FallStart"
    assert stage.simulator.masks[0].sum() == 1
    assert falls(stage)
    assert stage.animation == "FallLoop"
    assert (stage.d.p_hp, stage.d.won) == (0, 0)
    assert stage.simulator.results[0].terminated
    assert stage.simulator.reports[0].killed_by == -1


@pytest.mark.parametrize("boss", ["judge", "trickster", "frost_beast"])
def test_the_cliff_is_where_the_file_says_and_walls_hold_elsewhere(boss):
    for angle in np.linspace(-math.pi, math.pi, 25)[:-1]:
        stage = at_the_edge(angle, boss)
        ground = stage.simulator.boss.ground
        stage.decide(0)
        off = abs(math.remainder(angle - ground.cliff_rad, 2 * math.pi))
        assert bool(stage.d.p_falling) == (off < ground.cliff_width_rad / 2)
        if not stage.d.p_falling:
            distance = math.hypot(stage.d.p_x - stage.f.centre_x, stage.d.p_y - stage.f.centre_y)
            assert distance == pytest.approx(ground.radius_m)


def test_a_blow_can_push_over_the_cliff():
    stage = at_the_edge(0.35)
    hurt_player(stage.d, stage.f, KNOCK_BACKS.index("push"), 1.0, 0, math.cos(0.35), math.sin(0.35))
    assert falls(stage)


def test_nothing_hits_a_falling_player():
    stage = at_the_edge(0.35)
    stage.decide(0)
    window = stage.begin("ground_slam")
    window.start, window.reach = 0, 100.0
    stage.tick(10)
    assert stage.d.s_hits_taken == 0


def test_the_camera_of_the_fallen_stays_within_6_metres_of_the_floor():
    stage = at_the_edge(0.35)
    stage.f.floor = stage.d.p_z = -60.0
    stage.f.death_z = -63.5
    stage.d.p_push_ticks, stage.d.p_push_x = 12, 4.0 / 12
    assert falls(stage)
    state = stage.simulator.states[0]
    for pose in (state.camera_pose, state.player_pose):
        assert math.hypot(pose[0] - stage.f.centre_x, pose[1] - stage.f.centre_y) < stage.f.radius + 6


def test_the_mask_has_20_entries():
    assert Stage().simulator.masks.shape == (1, N_ACTIONS)
