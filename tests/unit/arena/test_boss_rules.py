"""Rules of the boss, one small situation per test."""

import math

import numpy as np
import pytest

from soulslab.arena.boss_file import boss_names
from soulslab.arena.boss_rules import boss_tick, hurt_boss, start_move
from soulslab.arena.fight_table import ticks
from soulslab.arena.knight_file import load_knight
from soulslab.arena.records import ATTACKING, MAX_PROJECTILES, PARRIED, ROAMING, STAGGERED, THROWN
from soulslab.arena.vocabulary import BOSS_ANIMATIONS, FIRST_ROLL, LIGHT_ATTACK, NOTHING, PARRY
from support.stage import Stage, shipped

BACK = math.pi


def boss_animation(stage):
    return BOSS_ANIMATIONS[stage.d.b_anim] if stage.d.b_anim >= 0 else None


# --- choosing a move ----------------------------------------------------------------------------------------


def choices(stage, distance_m, bearing_rad=0.0, n=3000, ready=()):
    """Return how often the boss chose each move by name, with the player so far off and so far from its nose.

    ``ready`` are moves whose cooldown is not over.
    """
    d, f = stage.d, stage.f
    # The boss looks along -y; the vector from the player to the boss is turned back by the bearing.
    ux, uy = -math.sin(bearing_rad), math.cos(bearing_rad)
    counts = dict.fromkeys((move.id for move in stage.simulator.boss.moves), 0)
    names = list(counts)
    d.tick = 10_000
    for _ in range(n):
        d.b_mode, d.b_move, d.b_wait = ROAMING, -1, 0
        d.b_ready[:] = 0
        for name in ready:
            d.b_ready[stage.move(name)] = d.tick + 1
        boss_tick(d, f, ux, uy, distance_m)
        if d.b_move >= 0:
            counts[names[d.b_move]] += 1
    return {name: count for name, count in counts.items() if count}


def fitting(stage, distance_m, bearing_rad, phase, shut=()):
    """Return the shares of the moves by their weights in the file."""
    weights = {
        move.id: move.weight
        for move in stage.simulator.boss.moves
        if move.weight > 0
        and phase in move.phases
        and move.range_m[0] <= distance_m <= move.range_m[1]
        and move.bearing_rad[0] <= bearing_rad <= move.bearing_rad[1]
        and move.id not in shut
    }
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


@pytest.mark.parametrize("boss", boss_names())
@pytest.mark.parametrize("phase", ["1", "2"])
@pytest.mark.parametrize(("distance_m", "bearing_rad"), [(1.5, 0.1), (3.4, 0.3), (7.0, 0.4), (12.0, 0.0), (3.0, 2.5)])
def test_moves_are_drawn_by_weight_among_those_that_fit(boss, phase, distance_m, bearing_rad):
    stage = Stage(boss, phase=phase)
    expected = fitting(stage, distance_m, bearing_rad, int(phase))
    n = 3000
    counts = choices(stage, distance_m, bearing_rad, n)
    assert set(counts) == set(expected)
    for name, share in expected.items():
        assert abs(counts[name] - n * share) < 4.5 * math.sqrt(n * share * (1 - share)) + 1e-9, name


def test_a_move_that_cools_down_is_left_out():
    stage = Stage()
    counts = choices(stage, 3.0, n=300, ready=["overhead", "grab"])
    assert set(counts) == set(fitting(stage, 3.0, 0.0, 1, ["overhead", "grab"]))
    assert {"overhead", "grab"} <= set(fitting(stage, 3.0, 0.0, 1))


def test_the_cooldown_counts_from_the_start_of_the_move():
    stage = Stage()
    stage.d.tick = 500
    start_move(stage.d, stage.f, stage.move("grab"))
    assert stage.d.b_ready[stage.move("grab")] == 500 + ticks(8.0)


def test_where_nothing_fits_the_boss_waits():
    stage = Stage("frost_beast")
    assert choices(stage, 500.0, n=5) == {}
    assert stage.d.b_mode == ROAMING
    assert stage.d.b_wait > 0


@pytest.mark.parametrize(("distance_m", "share"), [(5.4, 0.6), (5.6, 0.0)])
def test_follow_ups_come_by_their_probability_and_within_their_distance(distance_m, share):
    stage = Stage()
    d, f, n = stage.d, stage.f, 3000
    first, second = stage.move("sweep_right"), stage.move("sweep_left")
    followed = 0
    for _ in range(n):
        start_move(d, f, first)
        d.b_ticks = f.moves[first].duration - 1
        boss_tick(d, f, 0.0, 1.0, distance_m)
        followed += d.b_move == second
        assert d.b_mode == (ATTACKING if d.b_move == second else ROAMING)
    assert abs(followed - n * share) <= 4.5 * math.sqrt(n * share * (1 - share))


@pytest.mark.parametrize(("phase", "follows"), [(1, False), (2, True)])
def test_a_follow_up_of_the_second_phase_waits_for_it(phase, follows):
    stage = Stage(phase=str(phase))
    d, f = stage.d, stage.f
    f.follow_ups["phases"] = 1 << 2
    f.follow_ups["probability"] = 1.0
    start_move(d, f, stage.move("sweep_right"))
    d.b_ticks = f.moves[d.b_move].duration - 1
    boss_tick(d, f, 0.0, 1.0, 3.0)
    assert (d.b_move == stage.move("sweep_left")) == follows


def test_without_a_follow_up_it_pauses_as_long_as_the_file_says():
    stage = Stage()
    d, f = stage.d, stage.f
    waits = []
    for _ in range(500):
        start_move(d, f, stage.move("leap"))
        d.b_ticks = f.moves[stage.move("leap")].duration - 1
        boss_tick(d, f, 0.0, 1.0, 10.0)
        waits.append(int(d.b_wait))
    low, high = stage.simulator.boss.pause_s[0]
    assert (min(waits), max(waits)) == (ticks(low), ticks(high))


# --- roaming ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gap_m", "animation", "towards_m_s"),
    [(12.0, "WalkFrontBattle", 5.2), (4.0, "WalkFrontBattle", 2.2), (0.5, "WalkBackBattle", -2.2)],
)
def test_it_comes_near_and_keeps_off(gap_m, animation, towards_m_s):
    stage = Stage(gap_m=gap_m)
    stage.f.b_walk, stage.f.b_run = 2.2 / 60, 5.2 / 60
    y = float(stage.d.b_y)
    stage.tick()
    assert boss_animation(stage) == animation
    assert (y - stage.d.b_y) * 60 == pytest.approx(towards_m_s)


@pytest.mark.parametrize(
    ("strafe", "animation", "x"), [(-1, "WalkLeftBattle", 1), (0, "IdleBattle", 0), (1, "WalkRightBattle", -1)]
)
def test_at_its_distance_it_stands_or_walks_sideways(strafe, animation, x):
    stage = Stage(gap_m=1.5)
    stage.f.b_walk = 2.2 / 60
    stage.d.b_strafe = strafe
    before = float(stage.d.b_x)
    stage.tick()
    assert boss_animation(stage) == animation
    assert np.sign(round(stage.d.b_x - before, 9)) == x  # it looks along -y, so its right is -x


@pytest.mark.parametrize(
    ("angle", "animation"),
    [(1.2, "Left90"), (-1.2, "Right90"), (2.8, "Left180"), (-2.8, "Right180")],
)
def test_it_turns_on_the_spot_to_a_player_beside_or_behind(angle, animation):
    stage = Stage(gap_m=3)
    # The player stands at this angle to the left of its nose.
    stage.d.b_fx, stage.d.b_fy = math.sin(-angle), -math.cos(-angle)
    stage.tick()
    assert boss_animation(stage) == f"TurnBattle_{animation}"
    before = stage.d.b_fy
    stage.tick(10)
    assert stage.d.b_fy < before
    stage.tick(80)
    assert stage.d.b_fy == pytest.approx(-1)


# --- blows --------------------------------------------------------------------------------------------------


def strikes(boss):
    """Return the moves of a boss whose first window has no projectile."""
    return [(boss, move.id) for move in shipped(boss).moves if move.windows[0].projectile is None]


@pytest.mark.parametrize(("boss", "name"), [strike for boss in boss_names() for strike in strikes(boss)])
def test_a_move_hits_in_its_window_and_takes_its_time(boss, name):
    stage = Stage(boss, gap_m=0.3)
    move = stage.simulator.boss.moves[stage.move(name)]
    first = move.windows[0]
    stage.f.knock_backs["push"] = 0.0
    stage.f.damage_scale[:] = 0.1
    window = stage.begin(name)
    # The blow may go sideways or backwards: let it go towards the player, and let the boss turn no more.
    stage.d.b_fx, stage.d.b_fy = -math.sin(first.facing_rad), -math.cos(first.facing_rad)
    window.aim_to = 0
    stage.tick(ticks(first.start_s) - 1)
    assert stage.d.s_hits_taken == 0
    stage.tick()
    assert stage.d.s_hits_taken == 1
    stage.tick(ticks(move.duration_s) - stage.d.b_ticks - 1)
    assert (stage.d.b_mode, stage.d.b_move) == (ATTACKING, stage.move(name))
    stage.f.n_moves = 0
    stage.f.follow_ups["probability"] = 0.0
    stage.tick()
    assert stage.d.b_mode == ROAMING


@pytest.mark.parametrize(("gap_m", "hits"), [(2.8, 1), (3.0, 0)])
def test_blows_reach_so_far(gap_m, hits):
    stage = Stage(gap_m=gap_m)
    stage.begin("sweep_right").advance = 0.0
    stage.tick(60)
    assert stage.d.s_hits_taken == hits


@pytest.mark.parametrize(("off_rad", "hits"), [(0.0, 1), (1.2, 1), (1.4, 0), (BACK, 0)])
def test_blows_are_as_wide_as_their_arc(off_rad, hits):
    stage = Stage(gap_m=1)
    window = stage.begin("sweep_right")  # 2.6 rad wide
    window.advance, window.aim_to = 0.0, 0
    stage.d.b_fx, stage.d.b_fy = math.sin(off_rad), -math.cos(off_rad)
    stage.tick(60)
    assert stage.d.s_hits_taken == hits


def test_it_tracks_the_player_until_shortly_before_the_blow():
    stage = Stage(gap_m=3)
    window = stage.begin("overhead")
    window.advance = 0.0
    stage.d.b_fx, stage.d.b_fy = 1.0, 0.0
    stage.tick(1)
    angle = math.atan2(-stage.d.b_fy, stage.d.b_fx)
    assert angle == pytest.approx(2.4 / 60)
    stage.d.b_ticks = window.aim_to - 1
    facing = float(stage.d.b_fx)
    stage.tick(5)
    assert window.aim_to == window.start - ticks(0.25)
    assert stage.d.b_fx == facing


def test_a_lunge_goes_its_way_and_stops_at_the_player():
    stage = Stage(gap_m=20)
    window = stage.begin("leap")
    stage.tick(window.start)
    gone = 20 + stage.f.p_radius + stage.f.b_radius - (stage.d.b_y - stage.d.p_y)
    assert gone == pytest.approx(10.5)
    stage.place(3)
    stage.begin("leap")
    stage.tick(window.start - 1)
    assert 0 <= stage.d.b_y - stage.d.p_y - stage.f.p_radius - stage.f.b_radius <= 10.5 / 39


def test_a_combination_of_blows_hits_once_each():
    stage = Stage(gap_m=0.5)
    stage.f.knock_backs["push"] = 0.0
    stage.begin("double_cut")
    stage.tick(60)
    assert stage.d.s_hits_taken == 1
    stage.tick(30)
    assert stage.d.s_hits_taken == 2


# --- parry and riposte --------------------------------------------------------------------------------------


def parry_starts(stage, window):
    """Return the start ticks of a parry that succeeds against an attack."""
    saved = stage.d.copy()
    caught = []
    for start in range(window.start + 1):
        stage.simulator.duels[0] = saved
        stage.tick(start)
        stage.tick(1, PARRY, press=True)
        stage.tick(window.start + 2 - start)
        if stage.d.b_mode == PARRIED:
            caught.append(start)
            assert stage.d.s_hits_taken == 0
    return caught


def test_a_parry_catches_for_a_quarter_of_a_second_from_a_tenth_on():
    stage = Stage(gap_m=1)
    window = stage.begin("sweep_right")
    window.end, window.advance = window.start + 1, 0.0
    caught = parry_starts(stage, window)
    assert len(caught) == 15
    assert caught == list(range(window.start - 20, window.start - 5))


def test_some_blows_cannot_be_parried():
    stage = Stage(gap_m=1)
    window = stage.begin("grab")
    window.advance = 0.0
    assert parry_starts(stage, window) == []


def test_a_parry_wants_the_player_to_face_the_boss():
    stage = Stage(gap_m=1)
    window = stage.begin("sweep_right")
    window.advance, stage.d.p_fy, stage.d.lock_on = 0.0, -1.0, 0
    stage.d.c_fy = -1.0
    assert parry_starts(stage, window) == []


def parried_stage(gap_m=1.0):
    stage = Stage(gap_m=gap_m)
    window = stage.begin("sweep_right")
    window.advance = 0.0
    stage.tick(window.start - 10)
    stage.tick(1, PARRY, press=True)
    stage.tick(15)
    assert stage.d.b_mode == PARRIED
    assert boss_animation(stage) == "DamageParryEnemy1"
    stage.d.p_anim, stage.d.p_ticks = stage.f.idle, 0
    return stage


def test_the_riposte():
    stage = parried_stage()
    health = stage.d.b_hp
    stage.tick(1, LIGHT_ATTACK, press=True)
    assert (stage.animation, stage.d.b_mode) == ("ThrowAtk", THROWN)
    stage.tick(ticks(1.5) - 2)
    assert boss_animation(stage) == "ThrowDef"
    assert stage.d.b_hp == health
    stage.tick(2)
    assert health - stage.d.b_hp == load_knight().riposte.damage
    stage.tick(ticks(4.37) - ticks(1.5) - 1)
    assert stage.d.b_mode == ROAMING
    assert stage.animation == "Idle"


def test_a_riposte_wants_to_be_near_and_in_front():
    for change in ("far", "turned away"):
        stage = parried_stage()
        if change == "far":
            stage.d.b_y += 4
        else:
            stage.d.p_fy = -1.0
        stage.tick(1, LIGHT_ATTACK, press=True)
        assert (stage.animation, stage.d.b_mode) == ("AttackRightLight1", PARRIED)


def test_the_parried_boss_is_open_for_a_while():
    stage = parried_stage()
    left = ticks(stage.simulator.boss.parried_s) - stage.d.b_ticks
    stage.tick(left - 1)
    assert stage.d.b_mode == PARRIED
    stage.tick()
    assert stage.d.b_mode == ROAMING


# --- poise --------------------------------------------------------------------------------------------------


def test_enough_poise_damage_staggers_it():
    stage = Stage()
    hurt_boss(stage.d, stage.f, 10.0, 129.0)
    assert stage.d.b_mode == ROAMING
    hurt_boss(stage.d, stage.f, 10.0, 1.0)
    assert (stage.d.b_mode, boss_animation(stage), stage.d.b_poise) == (STAGGERED, "SABreak", 130)
    stage.tick(ticks(2.4) - 1)
    assert stage.d.b_mode == STAGGERED
    stage.tick()
    assert stage.d.b_mode == ROAMING


def test_poise_comes_back():
    stage = Stage()
    hurt_boss(stage.d, stage.f, 0.0, 30.0)
    stage.tick(60)
    assert stage.d.b_poise == pytest.approx(100 + 6)


def test_a_stagger_breaks_off_a_move_but_not_the_change_of_phase():
    stage = Stage()
    stage.begin("sweep_right")
    hurt_boss(stage.d, stage.f, 0.0, 500.0)
    assert stage.d.b_mode == STAGGERED
    stage.begin("transformation")
    hurt_boss(stage.d, stage.f, 0.0, 500.0)
    assert stage.d.b_mode == ATTACKING


def test_hits_in_a_row_count_up_to_five():
    stage = Stage()
    for _ in range(7):
        hurt_boss(stage.d, stage.f, 1.0, 0.0)
    assert stage.d.streak_gain == 1 + 2 + 3 + 4 + 5 + 5 + 5


# --- phases -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("boss", boss_names())
def test_at_half_health_it_changes_its_phase_with_an_animation_that_is_minus_one(boss):
    stage = Stage(boss)
    half = math.floor(stage.simulator.boss.hp / 2)
    hurt_boss(stage.d, stage.f, 10_000.0, 0.0)
    assert stage.d.b_hp == half  # no blow of the first phase reaches into the second
    stage.decide()
    assert stage.d.phase == 1
    assert stage.simulator.states[0].boss_animation == -1
    change = stage.simulator.boss.moves[stage.d.b_move]
    assert (change.animation, change.id) == ("Attack1500", stage.simulator.boss.phase_two.move)
    stage.d.p_hp = 10_000
    stage.tick(ticks(change.duration_s))
    assert stage.d.phase == 2


def test_a_move_that_runs_at_half_health_is_finished_first_and_nothing_follows_it():
    stage = Stage()
    stage.begin("sweep_right")
    hurt_boss(stage.d, stage.f, 10_000.0, 0.0)
    stage.tick(ticks(0.85 + 0.9) - 1)
    assert stage.d.b_move == stage.move("sweep_right")
    stage.tick()
    assert stage.d.b_move == stage.move("transformation")


def test_phase_1_ends_at_the_threshold():
    stage = Stage(phase="1")
    stage.d.b_hp = stage.f.phase_two_hp + 1
    stage.decide()
    assert not stage.d.over
    hurt_boss(stage.d, stage.f, 1.0, 0.0)
    stage.decide()
    result = stage.simulator.results[0]
    assert (stage.d.won, result.terminated, stage.simulator.reports[0].won) == (1, 1, 1)


@pytest.mark.parametrize("boss", boss_names())
def test_phase_2_starts_there_and_has_the_moves_of_the_second_phase(boss):
    stage = Stage(boss, phase="2")
    assert stage.d.phase == 2
    assert stage.d.b_hp == math.floor(stage.simulator.boss.hp / 2)
    seen = {name for distance_m in (2.0, 4.0, 7.0, 10.0) for name in choices(stage, distance_m, n=500)}
    second = {move.id for move in stage.simulator.boss.moves if move.phases == (2,) and move.weight > 0}
    assert second <= seen
    first = Stage(boss, phase="1")
    assert not second & {name for m in (2.0, 4.0, 7.0, 10.0) for name in choices(first, m, n=500)}


def test_the_full_fight_is_won_at_zero():
    stage = Stage()
    stage.d.phase = 2
    stage.d.b_hp = 1.0
    stage.decide()
    assert not stage.d.over
    hurt_boss(stage.d, stage.f, 5.0, 0.0)
    stage.decide()
    assert (stage.d.won, stage.d.b_hp) == (1, 0)


def test_who_dies_with_the_boss_has_lost():
    stage = Stage(phase="1")
    stage.d.b_hp = stage.d.p_hp = 0
    stage.decide()
    assert (stage.d.over, stage.d.won) == (1, 0)


# --- projectiles --------------------------------------------------------------------------------------------


def flying(stage):
    return np.flatnonzero(stage.d.q_ticks > 0)


def test_a_dagger_flies_straight_hits_and_is_gone():
    stage = Stage("trickster", gap_m=6)
    window = stage.begin("dagger")
    stage.tick(window.start)
    (dagger,) = flying(stage)
    way = [stage.d.q_pose[dagger, :2].copy()]
    while stage.d.q_ticks[dagger]:
        stage.tick()
        way.append(stage.d.q_pose[dagger, :2].copy())
    steps = np.diff(way, axis=0)
    np.testing.assert_allclose(steps, np.tile([0, -17 / 60], (len(steps), 1)), atol=1e-12)
    boss = stage.simulator.boss
    damage = boss.moves[stage.move("dagger")].windows[0].damage
    assert stage.d.s_damage_by_move[stage.move("dagger")] == math.floor(damage * boss.damage_scale[0])
    assert (stage.d.n_projectiles, len(flying(stage)), stage.d.s_hits_taken) == (0, 0, 1)


def test_a_dagger_that_misses_ends():
    stage = Stage("trickster", gap_m=6)
    window = stage.begin("dagger")
    stage.tick(window.start)
    stage.d.p_x += 5
    (dagger,) = flying(stage)
    life = int(stage.d.q_ticks[dagger])
    stage.tick(life - 1)
    assert len(flying(stage)) == 1
    stage.tick()
    assert (stage.d.n_projectiles, len(flying(stage)), stage.d.s_hits_taken) == (0, 0, 0)


def test_a_dagger_is_rolled_through():
    stage = Stage("trickster", gap_m=6)
    stage.stand_still("RollingMedium")
    window = stage.begin("dagger")
    saved = stage.d.copy()
    hit = []
    for start in range(window.start - 15, window.start + 35):
        stage.simulator.duels[0] = saved
        stage.tick(start)
        if not stage.d.s_hits_taken:
            stage.tick(1, FIRST_ROLL, press=True)
        stage.tick(60, NOTHING)
        hit.append(bool(stage.d.s_hits_taken))
    assert hit[0]
    assert hit[-1]
    # While one of its body's width flies through, 0.43 s of a roll are a little shorter.
    assert 10 <= hit.count(False) <= 26


def test_a_fan_spreads_evenly_around_straight_ahead():
    stage = Stage("trickster", gap_m=8)
    window = stage.begin("dagger_fan")
    stage.tick(window.start)
    x, y = stage.d.q_pose[flying(stage), 2:].T
    np.testing.assert_allclose(np.arctan2(x, -y), [-0.44, -0.22, 0.0, 0.22, 0.44], atol=1e-9)
    np.testing.assert_allclose(np.hypot(x, y), 14 / 60)


def test_a_fan_at_close_range_is_one_blow():
    stage = Stage("trickster", gap_m=0.2)
    stage.f.b_turn_cos = 1.0
    window = stage.begin("dagger_fan")
    stage.tick(window.start + 8)
    assert stage.d.s_hits_taken == 1


def test_no_more_fly_than_there_is_room_for():
    stage = Stage("trickster", gap_m=15)
    for _ in range(3):
        window = stage.begin("dagger_fan")
        stage.tick(window.start)
    assert stage.d.n_projectiles == len(flying(stage)) == MAX_PROJECTILES
