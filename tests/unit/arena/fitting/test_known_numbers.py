"""Numbers that are known from elsewhere: the file, and what they change in a fit."""

from functools import cache

import numpy as np
import pytest

from soulslab.arena.boss_file import parse_boss
from soulslab.arena.fitting.fit import fit_boss
from soulslab.arena.fitting.known_numbers import read_known_numbers
from soulslab.arena.fitting.simulated import record_simulated
from soulslab.arena.knight_file import load_knight
from soulslab.arena.probe_player import ProbePlayer
from soulslab.arena.uncertainty import draw_boss, numbers_of
from soulslab.config.writing import dump_settings
from soulslab.errors import BossFileError, FitError
from soulslab.fights.fit_report import advice
from support.stage import KNOCK_BACKS, shipped

SWEEP = "moves.Attack3000"


@cache
def recorded():
    probe = ProbePlayer(1, 900)
    return tuple(record_simulated(shipped("judge"), lambda _: probe, seed=900, minutes=3.0))


@cache
def fitted():
    return fit_boss(recorded(), load_knight())


def fitted_with(known):
    known = {name: value if isinstance(value, tuple) else (value, value) for name, value in known.items()}
    return fit_boss(recorded(), load_knight(), known=known)


def place_of(fit, name):
    """The place of a number of an attack in the boss file, given its place with the animation."""
    _, animation, rest = name.split(".", 2)
    index = [move.animation for move in fit.moves].index(animation)
    return f"moves[{index}].{rest}"


def interval_of(fit, name):
    return fit.uncertainty.intervals[place_of(fit, name)]


def number_of(fit, name):
    return dict(numbers_of(fit.boss))[place_of(fit, name)]


def write(folder, text):
    path = folder / "known.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_is_a_part_of_a_boss_file_by_animations(tmp_path):
    text = """
        hp = 1037
        phase_two.below = 0.5
        "pause_s[0][1]" = [1.0, 1.5]
        [moves.Attack3004]
        recovery_s = 1.1
        windows = [{}, { damage = 118, reach_m = [2, 3.5] }]
        [moves.Attack3000.follow_ups.Attack3001]
        probability = 0.6
    """
    assert read_known_numbers(write(tmp_path, text)) == {
        "hp": (1037, 1037),
        "phase_two.below": (0.5, 0.5),
        "pause_s[0][1]": (1.0, 1.5),
        "moves.Attack3004.recovery_s": (1.1, 1.1),
        "moves.Attack3004.windows[1].damage": (118, 118),
        "moves.Attack3004.windows[1].reach_m": (2.0, 3.5),
        "moves.Attack3000.follow_ups.Attack3001.probability": (0.6, 0.6),
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("hpp = 3", "hpp: a boss file has no number 'hpp' here; did you mean 'hp'?"),
        (
            "[moves.Attack3000]\nrecover_s = 1",
            "moves.Attack3000.recover_s: a boss file has no number 'recover_s' here; ",
        ),
        ("hp = true", "hp: must be a number, or [least, greatest], got True"),
        ("hp = '1037'", "hp: must be a number, or [least, greatest], got '1037'"),
        ("hp = [1, 2, 3]", "hp: must be a number, or [least, greatest], got [1, 2, 3]"),
        ("hp = 1037.5", "hp: must be a whole number, got 1037.5"),
        ("hp = -1", "hp: must be from 1 to 1e+06, got -1"),
        ("poise = nan", "poise: must be from 1e-06 to 1e+06, got nan"),
        ("poise = [9, 8]", "poise: 9 is greater than 8"),
        ("keep_m = [2.2, 3.8]", "keep_m: is 2 numbers; give each of them, the first one with [0] after it"),
        ('"keep_m[2]" = 1', "keep_m[2]: a boss file has no item [2] here"),
        ("name = 'Gundyr'", "name: is not a number"),
        ("[[moves]]\nrecovery_s = 1", "moves[0].recovery_s: the order of the attacks is not known before the fit"),
        ("[ground]\nradius_m = 20", "ground.radius_m: the ground is not given as numbers; name a boss"),
        ('"damage_scale[0]" = 1.3', "damage_scale[0]: is 1 in each fit"),
        ("[moves.A]\nphases = [2]", "moves.A.phases: is not a number"),
        ('[moves.A]\n"bearing_rad[0]" = 40', "moves.A.bearing_rad[0]: must be from 0 to 3.1416, got 40"),
        ('phase_two.below = 0.4\n"phase_two.below" = 0.6', "phase_two.below: is given twice"),
        ('"hp]" = 1', "hp]: is not the place of a number"),
        (f"hp = 1{400 * '0'}", "hp: must be from 1 to 1e+06"),
        ("hp = ", "is not valid TOML"),
    ],
)
def test_a_mistake_in_the_file_is_reported_with_its_place(tmp_path, text, problem):
    path = write(tmp_path, text)
    with pytest.raises(BossFileError) as caught:
        read_known_numbers(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert problem in str(caught.value)


def test_known_numbers_narrow_the_boss_and_its_intervals():
    reach, arc = f"{SWEEP}.windows[0].reach_m", f"{SWEEP}.windows[0].arc_rad"
    low, high = interval_of(fitted(), reach)
    assert low < 2.9 < high - 0.5
    fit = fitted_with({reach: 2.9, arc: (2.5, 2.7), "poise": 130.0})
    assert (number_of(fit, reach), interval_of(fit, reach)) == (2.9, (2.9, 2.9))
    assert 2.5 <= interval_of(fit, arc)[0] <= number_of(fit, arc) <= interval_of(fit, arc)[1] <= 2.7
    assert (fit.boss.poise, fit.uncertainty.intervals["poise"]) == (130.0, (130.0, 130.0))
    assert fit.contradictions == fit.unused == ()
    given = {reach: (2.9, 2.9), arc: (2.5, 2.7), "poise": (130.0, 130.0)}
    assert fit.uncertainty.known == given
    assert fit.known == {place_of(fit, reach), place_of(fit, arc), "poise"}
    assert fit.known.isdisjoint(fit.uncertainty.unknown)
    # Nothing else changes.
    others = {place: number for place, number in numbers_of(fitted().boss) if place not in fit.known}
    assert {place: number for place, number in numbers_of(fit.boss) if place not in fit.known} == others
    assert parse_boss(dump_settings(fit.boss), "fitted.toml", KNOCK_BACKS) == fit.boss


def test_what_is_known_is_not_recorded_again():
    line = next(line for line in advice(fitted()) if "off its facing" in line)
    animation, number = line.split(",")[0], int(line.split("window ")[1].split()[0])
    fit = fitted_with({f"moves.{animation}.windows[{number - 1}].arc_rad": 2.0})
    assert line not in advice(fit)
    assert set(advice(fit)) == set(advice(fitted())) - {line}


def test_a_contradiction_names_both_and_the_known_number_is_used():
    damage = f"{SWEEP}.windows[0].damage"
    low, high = interval_of(fitted(), damage)
    fit = fitted_with({"hp": 1200.0, damage: (500.0, 510.0)})
    assert fit.contradictions == (
        "hp: 1200 is known, but the recordings show 1037 (1037); the known number is used",
        f"{damage}: 500 to 510 is known, but the recordings show {number_of(fitted(), damage)} ({low:g} to {high:g}); "
        "the known number is used",
    )
    assert (fit.boss.hp, number_of(fit, damage)) == (1200, 505)
    # The second phase still begins with as many hit points.
    assert fit.boss.phase_two.below * 1200 == pytest.approx(fitted().boss.phase_two.below * 1037)


def test_an_attack_keeps_its_duration_and_its_motion_with_a_known_window():
    start, end = f"{SWEEP}.windows[0].start_s", f"{SWEEP}.windows[0].end_s"
    fit = fitted_with({start: 0.7, end: 0.72})
    before, after = (
        next(move for move in each.boss.moves if move.animation == "Attack3000") for each in (fitted(), fit)
    )
    assert (after.windows[0].start_s, after.windows[0].end_s) == (0.7, 0.72)
    assert after.duration_s == pytest.approx(before.duration_s)
    aims = [move.windows[0].start_s - move.windows[0].aim_s for move in (before, after)]
    assert aims[0] == pytest.approx(aims[1])


def test_neighbours_make_room_for_a_known_number():
    end = "moves.Attack3004.windows[0].end_s"  # the first window of two
    second = number_of(fitted(), "moves.Attack3004.windows[1].start_s")
    for known in (0.3, second + 0.4):
        fit = fitted_with({end: known, "keep_m[0]": 9.0})
        assert number_of(fit, end) == known
        assert fit.boss.keep_m == (9.0, 9.0)
        for seed in range(5):
            drawn = draw_boss(fit.boss, fit.uncertainty, np.random.default_rng(seed))
            assert parse_boss(dump_settings(drawn), "drawn.toml", KNOCK_BACKS) == drawn
            assert dict(numbers_of(drawn))[place_of(fit, end)] == known


def test_numbers_that_the_fit_does_not_have_are_reported():
    fit = fitted_with({"moves.Attak3000.recovery_s": 1.0, f"{SWEEP}.windows[7].reach_m": 1.0})
    unknown, missing = fit.unused
    assert unknown.startswith(
        "moves.Attak3000.recovery_s: the recordings show no attack 'Attak3000'; did you mean 'Attack3000'?"
    )
    assert missing.startswith(f"{SWEEP}.windows[7].reach_m: the fit has no such number of this attack; did you mean")
    assert fit.uncertainty.known == {}
    assert fit.boss == fitted().boss


def test_known_numbers_that_contradict_each_other_are_refused():
    with pytest.raises(FitError, match=r"windows\[0\]\.end_s: the known number 0\.5 contradicts other known numbers"):
        fitted_with({f"{SWEEP}.windows[0].start_s": 0.6, f"{SWEEP}.windows[0].end_s": 0.5})


def test_known_numbers_that_leave_no_valid_boss_are_refused():
    with pytest.raises(FitError, match=r"the known numbers leave 10\.0167, which must be from 0 to 10"):
        fitted_with({f"{SWEEP}.windows[0].start_s": 10.0})


def test_a_known_follow_up_is_found_by_its_animation():
    fit = fitted_with({f"{SWEEP}.follow_ups.Attack3001.probability": 0.6})
    (move,) = (move for move in fit.boss.moves if move.animation == "Attack3000")
    (follow_up,) = (each for each in move.follow_ups if each.move == "attack3001")
    assert follow_up.probability == 0.6


def test_a_known_ratio_of_the_damage_changes_that_of_attacks_that_hit_in_the_second_phase_only():
    twice = fitted_with({"damage_scale[1]": 2.0})
    assert twice.boss.damage_scale == (1.0, 2.0)
    late = [i for i, move in enumerate(fitted().moves) for hit in move.windows[0].hits[:1] if hit.phase == 2]
    late = [i for i in late if all(hit.phase == 2 for hit in fitted().moves[i].windows[0].hits)]
    assert late
    for i in late:
        before, after = (each.boss.moves[i].windows[0].damage for each in (fitted(), twice))
        assert after == pytest.approx(before / 2 * fitted().boss.damage_scale[1], abs=2)
