"""Fits to recordings that are valid and unusual."""

from functools import cache

import msgspec
import numpy as np
import pytest

from soulslab.arena.boss_catalog import find_boss
from soulslab.arena.boss_file import parse_boss
from soulslab.arena.fitting.fit import fit_boss
from soulslab.arena.fitting.simulated import record_simulated
from soulslab.arena.knight_file import load_knight
from soulslab.arena.probe_player import ProbePlayer
from soulslab.config import dump_settings
from soulslab.errors import FitError
from support.stage import KNOCK_BACKS


@cache
def recorded():
    """Two fights or more, with both phases."""
    probe = ProbePlayer(1, 901)
    return tuple(record_simulated(find_boss("judge"), lambda _: probe, seed=901, minutes=5.0))


def fitted(fights):
    fit = fit_boss(fights, load_knight())
    assert parse_boss(dump_settings(fit.boss), "fit", KNOCK_BACKS) == fit.boss
    return fit


def changed(fight, change):
    """Return a fight with other moments."""
    moments = fight.moments.copy()
    return msgspec.structs.replace(fight, moments=change(moments))


def with_animation(fight, name, first, n):
    """Return a fight in which the boss plays another animation for n ticks."""
    moments = fight.moments.copy()
    rows = slice(first, first + n)
    moments["boss_animation"][rows] = len(fight.boss_animations)
    moments["boss_time_s"][rows] = np.arange(n) / 60.0
    return msgspec.structs.replace(fight, moments=moments, boss_animations=(*fight.boss_animations, name))


def test_recordings_of_the_second_phase_alone_do_not_show_the_health():
    fights = [
        changed(fight, lambda m: m[m["phase"] == 2]) for fight in recorded() if (fight.moments["phase"] == 2).any()
    ]
    fit = fitted(fights)
    low, high = fit.uncertainty.intervals["hp"]
    assert low < 1037 < high
    assert "hp" in fit.uncertainty.unknown
    assert {phase for move in fit.boss.moves for phase in move.phases} == {1, 2}


def test_an_animation_that_is_too_long_for_an_attack_is_left_out(caplog):
    first, *others = recorded()
    fit = fitted([with_animation(first, "#9000", 600, 900), *others])
    assert "#9000" not in {move.animation for move in fit.moves}
    assert "last longer than 10.0 s: #9000" in caplog.text


def test_the_rarest_attacks_are_left_out_if_there_are_too_many(caplog):
    first, *others = recorded()
    for number in range(4):
        first = with_animation(first, f"#900{number}", 600 + 60 * number, 30)
    fit = fitted([first, *others])
    assert len(fit.moves) <= 18
    assert "Attack1500" in {move.animation for move in fit.moves}
    assert "are more than 18 kinds of attacks" in caplog.text


def test_a_position_of_one_moment_does_not_change_the_ground():
    first, *others = recorded()
    true = fitted(recorded()).boss.ground

    def stray(moments):
        moments["player_x"][300] = moments["player_y"][300] = 0.0
        return moments

    ground = fitted([changed(first, stray), *others]).boss.ground
    assert (ground.centre_m, ground.radius_m) == (true.centre_m, true.radius_m)


def test_positions_that_no_ground_contains_are_reported(caplog):
    first, *others = recorded()

    def far(moments):
        moments["player_x"][-200:] += 300.0
        return moments

    assert fitted([changed(first, far), *others]).boss.ground.radius_m == 90.0
    assert "or name the boss of the ground (--ground)" in caplog.text


def test_numbers_that_no_boss_file_has_are_limited():
    def healthy(moments):
        moments["boss_hp"] = 1037.0  # also where the second phase begins
        return moments

    fit = fitted([changed(fight, healthy) for fight in recorded()])
    assert fit.boss.phase_two.below <= 1.0


@pytest.mark.parametrize(
    ("fights", "problem"),
    [
        (lambda: [], "no recorded fights were given"),
        (lambda: [changed(fight, no_health) for fight in recorded()], "check the address of boss.hp"),
    ],
)
def test_recordings_without_a_boss_are_refused(fights, problem):
    with pytest.raises(FitError, match=problem):
        fit_boss(fights(), load_knight())


def no_health(moments):
    moments["boss_hp"] = 0.0
    return moments
