"""The held-out rules: each one differs from the simulator's in the way that its description says."""

import numpy as np
import pytest

from soulslab.arena import held_out_rules as held
from soulslab.arena.boss_file import boss_names
from soulslab.arena.boss_rules import start_move
from soulslab.arena.records import ATTACKING, MAX_DECISIONS, ROAMING
from soulslab.arena.reference_player import ReferencePlayer
from soulslab.arena.simulator import FightOptions, Simulator
from soulslab.arena.vocabulary import FIRST_ROLL, LIGHT_ATTACK, NOTHING
from support.stage import Stage, shipped


def play(function, *arguments):
    """Call a rule, which only kernels can call, as Python."""
    return getattr(function, "py_func", function)(*arguments)


def hit_tick(move, *, aside_rad=0.0, gap_m=0.3, rules="development"):
    """The tick of a move's first blow at which the player is hit, from the start of its window; None for a miss."""
    stage = Stage(gap_m=gap_m, held_out_rules=rules)
    window = stage.begin(move)
    window.turn_cos, window.turn_sin, window.advance = 1.0, 0.0, 0.0
    d = stage.d
    d.b_fx, d.b_fy = np.sin(aside_rad), -np.cos(aside_rad)
    d.b_ticks = window.start - 1
    for tick in range(int(window.end - window.start)):
        stage.tick()
        if d.s_hits_taken:
            return tick
    return None


@pytest.mark.parametrize(("rules", "fastest"), [("development", 15), ("development_2", 0)])
def test_an_advance_has_the_same_length_but_another_speed(rules, fastest):
    n = 30
    steps = np.array([play(held.advance_factor, held.RULES.index(rules), k, n) for k in range(n)])
    assert steps.mean() == pytest.approx(1.0, abs=0.01)
    assert steps.max() > 1.4
    assert abs(int(steps.argmax()) - fastest) <= 1
    assert steps[-1] < 0.2


def test_a_blade_passes_through_its_arc():
    assert hit_tick("sweep_right", rules="none") == 0
    ticks = [hit_tick("sweep_right", aside_rad=angle) for angle in (-1.0, 0.0, 1.0)]
    assert None not in ticks
    assert sorted(ticks) in (ticks, ticks[::-1])
    assert len(set(ticks)) == 3


def test_a_narrow_blow_hits_a_lane():
    # At 3.2 m from the body, 0.28 rad to the side are more than a metre.
    assert hit_tick("thrust", aside_rad=0.28, gap_m=3.2, rules="none") is not None
    assert hit_tick("thrust", aside_rad=0.28, gap_m=3.2) is None
    assert hit_tick("thrust", aside_rad=0.05, gap_m=3.2) is not None


def test_a_blow_all_around_is_a_ring_that_expands():
    near, far = hit_tick("ground_slam", gap_m=0.2), hit_tick("ground_slam", gap_m=4.5)
    assert near is not None
    assert far is not None
    assert near < far


def test_a_blow_all_around_hits_the_front_before_the_back():
    front, back = (hit_tick("ground_slam", aside_rad=angle, rules="development_2") for angle in (0.0, np.pi))
    assert front == 0
    assert back is not None
    assert back > 3


def test_the_tip_of_a_narrow_blow_moves_outwards():
    near, far = (hit_tick("thrust", gap_m=gap_m, rules="development_2") for gap_m in (0.2, 3.2))
    assert near is not None
    assert far is not None
    assert near < far


def test_an_area_is_longer_on_one_side():
    reaches = {side: hit_tick("sweep_right", aside_rad=side, gap_m=2.5, rules="development_2") for side in (-0.6, 0.6)}
    assert sorted(each is None for each in reaches.values()) == [False, True]


def test_a_step_forward_stops_in_its_middle():
    n = 30
    steps = np.array([play(held.advance_factor, held.RULES.index("development_3"), k, n) for k in range(n)])
    assert steps.mean() == pytest.approx(1.0, abs=0.01)
    np.testing.assert_array_equal(np.flatnonzero(steps == 0.0), np.arange(10, 20))


def test_a_blow_all_around_is_a_ring_that_contracts():
    near, far = (hit_tick("ground_slam", gap_m=gap_m, rules="development_3") for gap_m in (0.2, 4.5))
    assert near is not None
    assert far is not None
    assert far < near


def test_a_narrow_blow_hits_to_the_right():
    left, right = (hit_tick("thrust", aside_rad=side, gap_m=3.2, rules="development_3") for side in (-0.15, 0.15))
    assert (left, right) == (None, 0)


def test_a_blow_misses_a_player_who_touches_the_boss_at_its_side():
    ticks = {gap_m: hit_tick("sweep_right", aside_rad=1.0, gap_m=gap_m, rules="development_3") for gap_m in (0.2, 0.8)}
    assert ticks == {0.2: None, 0.8: 0}
    assert hit_tick("sweep_right", gap_m=0.2, rules="development_3") == 0


@pytest.mark.parametrize("share", [0.2, 0.3])
def test_pauses_are_short_while_the_boss_has_little_health(share):
    stage = Stage(gap_m=20.0, held_out_rules="development_3")
    stage.begin("sweep_left")
    stage.f.moves["n_follow_ups"] = 0
    stage.f.pause_low[:] = stage.f.pause_high[:] = 100
    stage.d.phase, stage.d.b_hp = 2, share * stage.f.b_max_hp
    stage.d.b_ticks = stage.f.moves[stage.move("sweep_left")].duration - 1
    stage.tick()
    assert stage.d.b_wait == (50 if share < held.LOW_HEALTH_SHARE else 100)


@pytest.mark.parametrize(("sp", "factor"), [(5.0, held.LOW_SP_FACTOR), (90.0, held.ENOUGH_SP_FACTOR)])
def test_damage_depends_on_the_stamina(sp, factor):
    stage = Stage(gap_m=0.3, held_out_rules="development_3")
    window = stage.begin("overhead")
    window.advance = 0.0
    stage.d.b_ticks = window.start - 1
    stage.d.p_sp = sp
    before = float(stage.d.p_hp)
    stage.tick()
    assert before - stage.d.p_hp == np.floor(factor * window.damage * stage.f.damage_scale[0])


def test_a_step_forward_has_two_jerks():
    n = 40
    steps = np.array([play(held.advance_factor, held.RULES.index("report"), k, n) for k in range(n)])
    assert steps.mean() == pytest.approx(1.0, abs=0.01)
    assert steps.reshape(4, 10).mean(axis=1).tolist() == [2.0, 0.0, 2.0, 0.0]


def test_an_arc_is_shorter_at_its_edges():
    middle, edge = (hit_tick("sweep_right", aside_rad=side, gap_m=2.0, rules="report") for side in (0.0, 1.2))
    assert (middle, edge) == (0, None)
    assert hit_tick("sweep_right", aside_rad=1.2, gap_m=0.3, rules="report") == 0


@pytest.mark.parametrize(("share", "is_hit"), [(0.3, True), (0.6, False)])
def test_a_narrow_blow_hits_in_the_first_half_of_its_window(share, is_hit):
    stage = Stage(gap_m=0.3, held_out_rules="report")
    window = stage.begin("thrust")
    stage.d.b_ticks = window.start + int(share * (window.end - window.start)) - 1
    stage.tick()
    assert bool(stage.d.s_hits_taken) == is_hit


def test_a_blow_all_around_hits_its_outer_half_late():
    near, far = (hit_tick("ground_slam", gap_m=gap_m, rules="report") for gap_m in (0.2, 4.5))
    assert near == 0
    assert far > 0


@pytest.mark.parametrize("share", [0.45, 0.55])
def test_pauses_are_short_while_the_player_has_little_health(share):
    stage = Stage(gap_m=20.0, held_out_rules="report")
    stage.begin("sweep_left")
    stage.f.moves["n_follow_ups"] = 0
    stage.f.pause_low[:] = stage.f.pause_high[:] = 100
    stage.d.p_hp = share * stage.f.p_max_hp
    stage.d.b_ticks = stage.f.moves[stage.move("sweep_left")].duration - 1
    stage.tick()
    assert stage.d.b_wait == (50 if share < held.WOUNDED_SHARE else 100)


def test_damage_is_drawn():
    factors = []
    for seed in range(40):
        stage = Stage(gap_m=0.3, held_out_rules="report", seeds=(seed,))
        window = stage.begin("overhead")
        window.advance = 0.0
        stage.d.b_ticks = window.start - 1
        before = float(stage.d.p_hp)
        stage.tick()
        factors.append((before - stage.d.p_hp) / (window.damage * stage.f.damage_scale[0]))
    assert held.LEAST_FACTOR - 0.01 <= min(factors) < 0.9
    assert 1.1 < max(factors) <= held.MOST_FACTOR


def test_some_blows_at_a_player_behind_the_boss_are_broken_off():
    n_broken_off = {}
    for facing in (-1.0, 1.0):
        n_broken_off[facing] = 0
        for seed in range(60):
            stage = Stage(gap_m=0.5, held_out_rules="report", seeds=(seed,))
            window = stage.begin("overhead")
            window.turn_cos, window.turn_sin = 1.0, 0.0
            stage.d.b_ticks = window.aim_to - 1
            stage.d.b_fx, stage.d.b_fy = 0.0, facing
            stage.tick(2)
            n_broken_off[facing] += bool(stage.d.b_mode != ATTACKING)
    assert n_broken_off[-1.0] == 0
    assert 20 <= n_broken_off[1.0] <= 40


@pytest.mark.parametrize(("second", "is_enraged"), [(0, False), (16, False), (18, True), (24, True), (26, False)])
def test_the_hidden_timer_halves_pauses(second, is_enraged):
    stage = Stage(gap_m=20.0, held_out_rules="development")
    stage.begin("sweep_left")
    stage.f.moves["n_follow_ups"] = 0
    stage.f.pause_low[:] = stage.f.pause_high[:] = 100
    stage.d.tick = second * 60
    stage.d.b_ticks = stage.f.moves[stage.move("sweep_left")].duration - 1
    stage.tick()
    assert stage.d.b_mode == ROAMING
    assert stage.d.b_wait == (50 if is_enraged else 100)


def test_every_third_move_burns():
    damage = {}
    for rules in ("none", "development"):
        stage = Stage(gap_m=0.3, held_out_rules=rules)
        start_move(stage.d, stage.f, 0)
        while not stage.d.s_hits_taken:
            stage.tick()
        stage.d.b_mode = ROAMING
        at_once = float(stage.d.s_damage_taken)
        stage.tick(held.FIRE_TICKS + 1)
        damage[rules] = (at_once, float(stage.d.s_damage_by_move[0]))
    assert damage["development"][0] < 0.6 * damage["none"][0]
    assert damage["development"][1] == pytest.approx(damage["none"][1], abs=2)


@pytest.mark.parametrize(
    ("second", "gap_m", "action", "factor"),
    [
        (0, 0.3, NOTHING, 1.0),
        (35, 0.3, NOTHING, held.FURY_FACTOR),
        (0, 0.3, LIGHT_ATTACK, held.COUNTER_FACTOR),
        (0, 2.5, NOTHING, held.TIP_FACTOR),
    ],
)
def test_damage_depends_on_a_timer_the_player_and_the_distance(second, gap_m, action, factor):
    stage = Stage(gap_m=gap_m, held_out_rules="development_2")
    window = stage.begin("overhead")
    window.advance = 0.0
    stage.f.animations["advance"] = 0.0
    stage.d.tick = second * 60
    stage.d.b_ticks = window.start - 2
    stage.tick(action=action, press=True)
    before = float(stage.d.p_hp)
    while not stage.d.s_hits_taken:
        stage.tick()
    assert before - stage.d.p_hp == np.floor(factor * window.damage * stage.f.damage_scale[0])


@pytest.mark.parametrize(("rules", "cause"), [("development_2", FIRST_ROLL), ("development_3", LIGHT_ATTACK)])
def test_an_action_of_the_player_makes_the_boss_break_off_some_blows(rules, cause):
    n_broken_off = {}
    for action in (NOTHING, cause):
        n_broken_off[action] = 0
        for seed in range(60):
            stage = Stage(gap_m=0.5, held_out_rules=rules, seeds=(seed,))
            window = stage.begin("overhead")
            stage.d.b_ticks = window.aim_to - 3
            stage.tick(4, action, press=True)
            n_broken_off[action] += bool(stage.d.b_mode != ATTACKING)
    assert n_broken_off[NOTHING] == 0
    assert 8 <= n_broken_off[cause] <= 33


def test_fire_can_kill():
    stage = Stage(gap_m=20.0, held_out_rules="development")
    stage.d.p_fire_ticks, stage.d.p_fire_move, stage.d.p_fire, stage.d.p_hp = 60, 3, 2.0, 5.0
    stage.tick(3)
    assert stage.d.p_hp == 0
    assert stage.d.s_killed_by == 3


@pytest.mark.parametrize(("gap_m", "is_broken_off"), [(20.0, True), (0.5, False)])
def test_a_blow_that_cannot_reach_is_broken_off(gap_m, is_broken_off):
    stage = Stage(gap_m=gap_m, held_out_rules="development")
    window = stage.begin("sweep_left")
    stage.tick(int(window.start))
    assert (stage.d.b_mode != ATTACKING) == is_broken_off


@pytest.mark.parametrize("rules", held.RULES[1:])
@pytest.mark.parametrize("boss", boss_names())
def test_a_boss_with_held_out_rules_is_another_but_fair_fight(boss, rules):
    n = 300
    simulator = Simulator(
        shipped(boss),
        n,
        FightOptions(random_pose=True, features=False, states=True, autoreset="disabled", held_out_rules=rules),
    )
    everyone = np.ones(n, np.bool_)
    simulator.seed(np.arange(n, dtype=np.uint64), everyone)
    simulator.reset(everyone)
    player = ReferencePlayer(shipped(boss), n)
    player.begin(simulator.states, everyone)
    won, over = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    for _ in range(MAX_DECISIONS):
        simulator.step(player.act(simulator.states, simulator.masks))
        won |= ~over & (simulator.duels["won"] == 1)
        over |= simulator.duels["over"] == 1
        if over.all():
            break
    assert 0.1 <= won.mean() <= 0.97
