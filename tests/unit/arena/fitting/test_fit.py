"""Fits of bosses, compared with the boss files that the fit does not see."""

from functools import cache
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from benchmarks.fit_truth import compare
from soulslab.arena.boss_catalog import find_boss
from soulslab.arena.boss_file import parse_boss
from soulslab.arena.fitting.attacks import observe
from soulslab.arena.fitting.choices import greatest_pause
from soulslab.arena.fitting.fit import fit_boss
from soulslab.arena.fitting.projectiles import find_throws
from soulslab.arena.fitting.simulated import record_simulated, thinned
from soulslab.arena.fitting.unseen_windows import Assumptions, overlooked_windows, unseen_windows
from soulslab.arena.fitting.vitals import durations
from soulslab.arena.knight_file import load_knight
from soulslab.arena.probe_player import ProbePlayer
from soulslab.arena.reference_player import ReferencePlayer
from soulslab.arena.uncertainty import draw_boss, numbers_of
from soulslab.config.writing import dump_settings
from soulslab.errors import FitError
from support.long_form import IS_LONG
from support.stage import KNOCK_BACKS

MINUTES = 20.0 if IS_LONG else 10.0
BOSSES = ("judge", "trickster", "frost_beast", "generated:77", "generated:78") if IS_LONG else ("judge", "trickster")


@cache
def recorded(name, minutes=MINUTES, rules="none"):
    probe = ProbePlayer(1, 900)
    return tuple(record_simulated(find_boss(name), lambda _: probe, seed=900, minutes=minutes, held_out_rules=rules))


@cache
def fitted(name, ticks_per_moment=1, rules="none"):
    fights = [thinned(fight, ticks_per_moment) for fight in recorded(name, rules=rules)]
    return fit_boss(fights, load_knight())


def kinds(found, kind):
    """The compared numbers of a kind."""
    return [each for each in found.numbers if each.kind == kind]


@cache
def agreement(name, ticks_per_moment=1):
    return compare(fitted(name, ticks_per_moment), find_boss(name))


@pytest.mark.parametrize("ticks_per_moment", [1, 6])
@pytest.mark.parametrize("name", BOSSES)
def test_the_intervals_contain_the_truth(name, ticks_per_moment):
    found = agreement(name, ticks_per_moment)
    assert len(found.numbers) > 150
    assert found.coverage >= 0.88


@pytest.mark.parametrize("name", ["generated:1", "generated:2"])
def test_a_player_who_stays_at_one_distance_does_not_make_intervals_too_narrow(name):
    boss = find_boss(name)
    player = ReferencePlayer(boss, 1)
    fights = list(record_simulated(boss, lambda _: player, seed=100, minutes=20.0))
    found = compare(fit_boss(fights, load_knight()), boss)
    for numbers in (kinds(found, "probability") + kinds(found, "within_m"), kinds(found, "advance_m")):
        assert len(numbers) >= 6
        assert np.mean([number.is_covered for number in numbers]) > 0.85


@pytest.mark.parametrize("ticks_per_moment", [1, 6])
@pytest.mark.parametrize("name", BOSSES)
def test_windows_are_found_with_their_times_and_damage(name, ticks_per_moment):
    found = agreement(name, ticks_per_moment)
    assert found.n_moves_found >= found.n_moves - 3  # a few attacks are rare
    assert found.n_windows_found >= found.n_windows - 1
    assert found.n_windows_extra <= 2
    assert found.n_choices_right >= 0.9 * found.n_choices  # a projectile that was thrown once looks like a blade
    assert np.median([each.error for each in kinds(found, "start_s")]) <= 1 / 60
    assert np.median([each.error / each.true for each in kinds(found, "damage")]) <= 0.01


def test_a_fit_is_a_boss_file_with_an_interval_around_each_measured_number():
    fit = fitted("judge")
    assert parse_boss(dump_settings(fit.boss), "fitted.toml", KNOCK_BACKS) == fit.boss
    numbers = dict(numbers_of(fit.boss))
    for place, (low, high) in fit.uncertainty.intervals.items():
        assert low <= numbers[place] <= high, place
    drawn = draw_boss(fit.boss, fit.uncertainty, np.random.default_rng(1))
    assert parse_boss(dump_settings(drawn), "drawn.toml", KNOCK_BACKS) == drawn


def test_numbers_that_a_recording_shows_exactly():
    boss = fitted("judge").boss
    assert (boss.hp, round(boss.hp * boss.phase_two.below - 0.5)) == (1037, 518)
    assert boss.radius_m == pytest.approx(0.9, abs=1e-3)
    assert (boss.walk_m_s, boss.run_m_s, boss.turn_rad_s) == pytest.approx((2.2, 5.2, 2.6), abs=0.01)
    assert boss.phase_two.move == "attack1500"


def test_an_attack_with_two_windows_has_both():
    boss = fitted("judge").boss
    double_cut = next(move for move in boss.moves if move.animation == "Attack3004")
    assert [window.start_s for window in double_cut.windows] == pytest.approx([0.6, 1.25], abs=1 / 60)
    assert double_cut.windows[1].knock_back == "middle"


def speeds(boss):
    """The speeds of the projectiles of each attack that throws some."""
    return {
        move.animation: {window.projectile.speed_m_s for window in move.windows}
        for move in boss.moves
        if all(window.projectile is not None for window in move.windows)
    }


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("trickster", "none"),
        ("trickster", "development_2"),  # the tip of a narrow blow moves outwards
        ("judge", "development"),  # rings that expand
        pytest.param("frost_beast", "development", marks=pytest.mark.long),
    ],
)
def test_projectiles_and_blades_are_distinguished(name, rules):
    thrown, found = speeds(find_boss(name)), speeds(fitted(name, rules=rules).boss)
    assert found.keys() <= thrown.keys()
    assert len(found) >= len(thrown) - 1
    for animation, fitted_speeds in found.items():
        for speed in fitted_speeds:
            assert min(abs(speed - true) / true for true in thrown[animation]) < 0.25


def test_projectiles_of_an_attack_that_was_seen_a_few_times_are_found():
    fit = fitted("trickster", rules="development_2")
    (change_of_phase,) = [move for move in fit.moves if move.animation == "Attack1500"]
    assert change_of_phase.n_seen <= 2 + MINUTES / 2
    (speed,) = speeds(fit.boss)["Attack1500"]
    assert speed == pytest.approx(12.0, rel=0.2)


@pytest.mark.parametrize(("first", "again", "n", "error"), [(0.0, 0.0, 40, 2), (0.3, 0.5, 150, 2), (0.8, 0.7, 200, 6)])
def test_the_greatest_pause_is_found_in_waits_with_further_tries(first, again, n, error):
    """A first try fails with the probability ``first``, a further one with ``again``; pauses are 24 to 60 ticks."""
    rng = np.random.default_rng(0)
    waits = [rng.integers(24, 61, n) + 7 * (rng.random(n) < first) * rng.geometric(1 - again, n) for _ in range(40)]
    found = [greatest_pause(each) for each in waits]
    assert np.mean([each.low <= 60 <= each.high for each in found]) >= 0.85
    assert np.median([abs(each.value - 60) for each in found]) <= error


@pytest.mark.parametrize(
    ("waits", "low", "high"),
    [
        ([30] * 20, 29, 32),
        ([0, 0, 0], 0, 31),
        ([*range(20, 51), 550], 40, 57),  # one wait has another cause
        ([60, 500, 599], 60, 600),  # a boss file has no longer pauses
        ([599, 599, 599], 598, 600),
    ],
)
def test_the_greatest_pause_of_unusual_waits(waits, low, high):
    found = greatest_pause(np.array(waits))
    assert low <= found.low <= found.value <= found.high <= high


def test_the_distance_of_follow_ups_may_be_longer_than_those_that_were_seen():
    # Few of them were seen, all nearer than the limit.
    found = [each for name in ("judge", "trickster") for each in kinds(agreement(name), "within_m")]
    assert len(found) >= 6
    assert sum(each.is_covered for each in found) >= 0.85 * len(found)


def test_what_was_not_seen_is_unknown():
    fit = fit_boss(recorded("judge", 0.5), load_knight())
    unknown = set(fit.uncertainty.unknown)
    assert "phase_two.move" in unknown
    assert any(place.endswith(".parry") for place in unknown)
    assert not unknown & {"hp", "walk_m_s"}
    # The boss was never staggered, so its poise has only a lower limit.
    low, high = fit.uncertainty.intervals["poise"]
    assert {"poise", "poise_regen_per_s"} <= unknown
    assert 40.0 < low < find_boss("judge").poise < 200.0 < high


def test_staggers_show_the_poise_and_its_regeneration():
    fit, truth = fitted("trickster"), find_boss("trickster")
    poise, regen = (fit.uncertainty.intervals[name] for name in ("poise", "poise_regen_per_s"))
    assert poise[0] < truth.poise < poise[1] < poise[0] + 50.0
    assert regen[0] < truth.poise_regen_per_s < regen[1]
    assert fit.uncertainty.intervals["stagger_s"] == pytest.approx((truth.stagger_s, truth.stagger_s), abs=0.02)


def test_a_reach_that_no_near_miss_bounded_may_be_metres_longer_than_the_farthest_hit():
    areas = [window.area for move in fitted("judge").moves for window in move.windows]
    beyond = {
        is_bounded: [area.reach_m.high - area.reach_m.low for area in areas if area.is_reach_bounded is is_bounded]
        for is_bounded in (False, True)
    }
    assert min(beyond[False]) > 3.0
    assert min(beyond[True]) < 0.1


@cache
def fights_of_a_good_player(name):
    """Fights of a player that rolls before each attack that can reach it."""
    player = ReferencePlayer(find_boss(name), 1)
    return tuple(record_simulated(find_boss(name), lambda _: player, seed=900, minutes=10.0, top_up=False))


@cache
def fitted_to_a_good_player(name, ticks_per_moment=1):
    fights = [thinned(fight, ticks_per_moment) for fight in fights_of_a_good_player(name)]
    return fit_boss(fights, load_knight())


def test_areas_may_end_far_beyond_the_hits_if_the_player_was_always_near():
    moves = fitted_to_a_good_player("judge").moves
    areas = [window.area for move in moves if move.is_explained for window in move.windows]
    beyond = [area.reach_m.high - area.reach_m.low for area in areas if not area.is_reach_bounded]
    assert len(beyond) >= 3
    assert min(beyond) > 4.5


@pytest.mark.parametrize("ticks_per_moment", [1, 6])
def test_attacks_that_hit_nobody_are_known_from_how_the_player_avoided_them(ticks_per_moment):
    truth, fit = find_boss("judge"), fitted_to_a_good_player("judge", ticks_per_moment)
    unseen = [move for move in fit.moves if not move.is_explained and move.n_seen >= 10]
    assert len(unseen) >= 6
    starts = {move.animation: [window.start_s * 60 for window in move.windows] for move in truth.moves}
    for move in unseen:
        for window, start in zip(move.windows, starts[move.animation], strict=True):
            assert window.start.low - 1 <= start <= window.start.high + 1
            assert window.start.high - window.start.low < 12
    # The judge begins this attack if the player is behind it, and it hits all around the judge.
    turn = next(move for move in unseen if move.animation == "Attack3007").windows[0].area.arc_rad
    assert 2.0 < turn.low < turn.value == turn.high == pytest.approx(2 * np.pi, abs=1e-4)


@pytest.mark.parametrize("ticks_per_moment", [1, 6])
def test_attacks_that_begin_with_the_player_beside_the_boss_are_full_circles_unless_near_misses_bound_them(
    ticks_per_moment,
):
    moves = fitted_to_a_good_player("trickster", ticks_per_moment).moves
    unseen = [move for move in moves if not move.is_explained and move.n_seen > 1]
    # The first two hit all around the trickster, and the last one changes its phase.
    around = {"Attack3008", "Attack3014", "Attack1500"}
    circles = {move.animation for move in unseen if move.windows[0].area.arc_rad.value > 6.28}
    assert circles == around & {move.animation for move in unseen}
    assert circles
    assert len(unseen) >= 6


def test_near_misses_and_hits_behind_the_boss_are_no_reason_for_a_full_circle():
    windows = [window for move in fitted("judge").moves for window in move.windows]
    around = Assumptions(frozenset({"Attack3000"}), None)

    def arc(window):
        return around.apply("Attack3000", window).area.arc_rad

    bounded = [window for window in windows if window.area.is_arc_bounded]
    assert len(bounded) >= 3
    assert all(arc(window) == window.area.arc_rad for window in bounded)
    free = msgspec.structs.replace(bounded[0], area=msgspec.structs.replace(bounded[0].area, is_arc_bounded=False))
    assert arc(free).value > 6.28
    behind = msgspec.structs.replace(free, area=msgspec.structs.replace(free.area, facing_rad=np.pi))
    assert arc(behind) == free.area.arc_rad


def test_a_change_of_phase_reaches_far_and_begins_when_the_players_roll():
    moves = {move.animation: move for move in fitted_to_a_good_player("frost_beast").moves}
    roar = moves["Attack1500"].windows[0]
    assert roar.start.value == pytest.approx(168, abs=3)
    assert 5.0 <= roar.area.reach_m.value < roar.area.reach_m.high
    # The breath has three windows without a step forward, and the players roll for each.
    assert [window.start.value for window in moves["Attack3010"].windows[:2]] == pytest.approx([72, 114], abs=8)


def test_windows_that_never_hit_are_found_beside_one_that_did():
    double = "Attack3004"
    o = observe(fights_of_a_good_player("judge"), load_knight())
    first, second = unseen_windows(o, o.of(double), 150)
    assert [first.start.value, second.start.value] == pytest.approx([36, 75], abs=2)
    found = overlooked_windows(o, o.of(double), [second], 150)
    assert [window.start for window in found] == [first.start]
    assert len(overlooked_windows(o, o.of(double)[:1], [second], 150)) == 1  # one roll is enough
    assert unseen_windows(o, o.of(double), 80)[-1].end.high == 80  # the end of the attack
    # The probing player was open then.
    o = observe(recorded("judge"), load_knight())
    assert not overlooked_windows(o, o.of(double), [second], 150)


def test_a_window_that_never_hit_may_be_as_long_as_a_roll_protects_and_ends_before_the_next_one():
    fit = fitted_to_a_good_player("judge")
    lengths = []
    for i, move in enumerate(fit.boss.moves):
        windows = [(f"moves[{i}].windows[{j}]", window) for j, window in enumerate(move.windows)]
        for (place, window), (_, following) in zip(windows, [*windows[1:], (None, None)], strict=True):
            latest = fit.uncertainty.intervals[f"{place}.end_s"][1]
            if following:
                assert latest <= following.start_s + 1 / 60
            if f"{place}.damage" in fit.uncertainty.unknown:
                lengths.append((window.end_s - window.start_s, latest - window.start_s))
    assert np.median(lengths, axis=0) * 60 == pytest.approx([15, 26], abs=1)


def test_avoided_windows_are_found_in_recordings_of_several_rates():
    fights = fights_of_a_good_player("judge")
    mixed = [thinned(fight, 6) if n % 2 else fight for n, fight in enumerate(fights)]
    known, found = (observe(each, load_knight()) for each in (fights, mixed))
    for spin in ("Attack3007", "Attack3010"):
        (expected,), (window,) = (unseen_windows(o, o.of(spin), 100) for o in (known, found))
        assert window.start.value == pytest.approx(expected.start.value, abs=5)


@pytest.mark.parametrize(
    ("name", "ticks_per_moment", "rules"),
    [
        ("judge", 1, "development"),
        ("judge", 6, "development"),
        ("frost_beast", 1, "development"),
        ("frost_beast", 1, "development_2"),
    ],
)
def test_areas_that_are_no_sectors_are_not_too_small(name, ticks_per_moment, rules):
    found = compare(fitted(name, ticks_per_moment, rules), find_boss(name))
    assert found.n_windows_extra <= (rules == "development_2")
    assert np.mean([each.is_covered for each in kinds(found, "start_s")]) >= 0.9
    assert np.mean([each.is_covered for each in kinds(found, "reach_m")]) >= 0.7
    assert np.mean([each.is_covered for each in kinds(found, "arc_rad")]) >= 0.8  # a lane is no sector


@pytest.mark.parametrize(("name", "rules"), [("judge", "development"), ("frost_beast", "development_2")])
def test_the_length_of_a_step_forward_does_not_depend_on_its_speed(name, rules):
    found = compare(fitted(name, rules=rules), find_boss(name))
    steps = [each for each in kinds(found, "advance_m") if each.true > 0.5]
    assert len(steps) >= 8
    assert np.median([each.error / each.true for each in steps]) <= 0.02
    # Long steps are often stopped by contact before their end, and the speed then goes on changing.
    assert np.median([each.error / each.true for each in steps if each.true > 10.0]) <= 0.2


@pytest.mark.parametrize(
    ("step", "ends", "duration"),
    [
        (1, [40] * 6 + [130] * 5, 130),  # broken off more often than not
        (6, [40] * 6 + [130, 130, 131, 133, 134], 130),  # the ends are seen up to five ticks late
        (6, [133, 135], 133),
        (1, [130] * 9 + [137], 130),  # an end that was seen late
    ],
)
def test_the_duration_is_the_latest_of_the_frequent_ends(step, ends, duration):
    attacks = [SimpleNamespace(is_complete=True, is_attack=False, start=0, next_start=end + 1) for end in ends]
    assert durations(SimpleNamespace(step=step, attacks=attacks), range(len(ends))).value == duration


@pytest.mark.parametrize("rates", [(1, 1), (6, 6), (1, 6)])
def test_attacks_that_the_boss_breaks_off_do_not_shorten_their_durations(rates):
    rules = "development"
    whole = recorded("judge", rules=rules)
    cut = len(whole) // 2
    fights = [thinned(fight, rates[0]) for fight in whole[:cut]] + [thinned(fight, rates[1]) for fight in whole[cut:]]
    recovered = kinds(compare(fit_boss(fights, load_knight()), find_boss("judge")), "recovery_s")
    assert len(recovered) > 10
    assert sum(each.is_covered for each in recovered) >= len(recovered) - 2  # a few attacks are rare
    assert np.median([each.error for each in recovered]) <= 3 / 60


def test_damage_includes_what_the_player_loses_after_a_hit():
    found = compare(fitted("judge", rules="development"), find_boss("judge"))
    is_right = [each.error <= 0.1 * each.true for each in kinds(found, "damage")]
    assert np.mean(is_right) >= 0.8  # every third attack burns


def test_hits_of_a_window_with_several_damages_have_an_interval_of_the_damage():
    fit = fitted("judge", rules="development_2")
    intervals = [fit.uncertainty.intervals.get(f"moves[{i}].windows[0].damage") for i in range(len(fit.boss.moves))]
    assert sum(low < 0.85 * high for low, high in filter(None, intervals)) >= 8


def test_a_recording_without_attacks_cannot_be_fitted():
    fight = recorded("judge", 0.5)[0]
    calm = msgspec.structs.replace(fight, moments=fight.moments[:50])
    with pytest.raises(FitError, match="kinds of attacks"):
        fit_boss([calm], load_knight())


def test_a_recording_at_a_lower_rate_does_not_make_the_motion_less_exact():
    fights = recorded("judge")
    mixed = fit_boss([*fights, thinned(fights[0], 6)], load_knight())
    widths = [np.diff(mixed.uncertainty.intervals[f"moves[0].windows[0].{name}"]) for name in ("advance_m", "aim_s")]
    assert max(widths) < 0.05
    assert mixed.boss.walk_m_s == pytest.approx(2.2, abs=0.01)
    assert np.diff(mixed.uncertainty.intervals["walk_m_s"]) < 0.03


def test_a_hit_by_a_projectile_of_the_attack_before_belongs_to_no_throw():
    o = observe(recorded("trickster", rules="development_2"), load_knight())
    hits = [hit for hit in o.hits if o.attacks[hit.attack].animation == "Attack1500"]
    nearest = min(hits, key=lambda hit: hit.gap)
    stray = [msgspec.structs.replace(nearest, k=k) for k in (0, 8)]
    (throw,) = find_throws(o, o.of("Attack1500"), 3 * hits + stray, are_irregular=False)
    assert {hit.k for hit in throw.hits} == {hit.k for hit in hits}


@cache
def fitted_to_20_minutes_of_the_trickster(ticks_per_moment, rules):
    fights = [thinned(fight, ticks_per_moment) for fight in recorded("trickster", 20.0, rules)]
    return fit_boss(fights, load_knight())


@pytest.mark.parametrize("ticks_per_moment", [1, 6])
@pytest.mark.parametrize("rules", ["none", "development", "development_2"])
def test_fans_are_fitted_to_hits_and_to_projectiles_that_would_have_hit(rules, ticks_per_moment):
    fit = fitted_to_20_minutes_of_the_trickster(ticks_per_moment, rules)
    fitted_moves = {move.animation: (f"moves[{i}]", move) for i, move in enumerate(fit.boss.moves)}
    covered, n_bounded, n_beyond = [], 0, 0
    for move in (each for each in find_boss("trickster").moves if each.windows[0].projectile):
        place, fitted_move = fitted_moves[move.animation]
        if len(fitted_move.windows) != len(move.windows) or fitted_move.windows[0].projectile is None:
            continue  # not found, or taken for a blade
        for j, (window, found) in enumerate(zip(move.windows, fitted_move.windows, strict=True)):
            count, spread = (
                fit.uncertainty.intervals[f"{place}.windows[{j}].projectile.{name}"] for name in ("count", "spread_rad")
            )
            is_spread = window.projectile.count == 1 or spread[0] <= window.projectile.spread_rad <= spread[1]
            covered.append(is_spread and count[0] <= window.projectile.count <= count[1])
            n_bounded += count != (1, 5)
            n_beyond += count[1] > found.projectile.count
    assert len(covered) >= 6
    assert sum(covered) >= len(covered) - 1
    assert n_bounded >= 4
    assert n_beyond >= 4


@pytest.mark.parametrize("rules", ["none", "development", "development_2"])
def test_the_throws_of_an_attack_share_their_fan_although_the_boss_turns_between_them(rules):
    fit = fitted_to_20_minutes_of_the_trickster(1, rules)
    (storm,) = (move for move in fit.boss.moves if move.animation == "Attack3011")
    (projectile,) = {window.projectile for window in storm.windows}
    assert projectile.count == 3
    assert projectile.spread_rad == pytest.approx(0.3, abs=0.05)


@pytest.mark.parametrize("kept", [slice(None), slice(60, None)])
def test_the_shortest_flights_are_examined_also_in_parts_of_fights(kept):
    fights = [fight for fight in recorded("trickster") if len(fight.moments) > 600]
    o = observe([msgspec.structs.replace(fight, moments=fight.moments[kept]) for fight in fights], load_knight())
    (like, *_), slashes = o.hits, o.of("Attack3000")
    hits = []
    for i in slashes:
        attack = o.attacks[i]
        gap = float(o.gap(o.courses[attack.course])[attack.first])
        if gap > 3.0:
            continue
        k = 8 + min(round(60 * gap / 40.0), 2)  # before the boss steps forward
        changes = {"attack": i, "course": attack.course, "moment": attack.first, "k": k, "gap": gap}
        hits.append(msgspec.structs.replace(like, **changes, is_during=False, is_prompt=True))
    assert max(hit.k for hit in hits) == 10
    (throw,) = find_throws(o, slashes, hits, are_irregular=False)
    assert throw.start.value == pytest.approx(8, abs=3)
    assert len(throw.hits) == len(hits)


def test_a_fight_of_one_moment_does_not_change_the_fan_of_a_throw():
    fights = recorded("trickster")
    fight = next(each for each in fights if "Attack3005" in each.boss_animations)
    moment = fight.moments[:1].copy()
    moment["boss_animation"] = fight.boss_animations.index("Attack3005")
    short = []
    for tick in range(36, 49):  # the attack throws at tick 42
        moment["boss_time_s"] = tick / 60
        short.append(msgspec.structs.replace(fight, moments=moment.copy()))
    found = [
        next(move for move in fit_boss(each, load_knight()).boss.moves if move.animation == "Attack3005")
        for each in (fights, [*fights, *short])
    ]
    assert found[0].windows[0].projectile == found[1].windows[0].projectile
    assert found[0].windows[0].projectile is not None


def test_projectiles_may_be_more_than_those_that_hit():
    fit = fitted("trickster")
    counts = {
        window.projectile.count
        for seed in range(5)
        for move in draw_boss(fit.boss, fit.uncertainty, np.random.default_rng(seed)).moves
        for window in move.windows
        if window.projectile is not None
    }
    assert len(counts) >= 3
