"""Uncertainty files: loading, mistakes with their places, and bosses drawn from the intervals."""

import numpy as np
import pytest

from soulslab.arena.boss_file import parse_boss
from soulslab.arena.uncertainty import (
    Uncertainty,
    draw_boss,
    load_uncertainty,
    numbers_of,
    uncertainty_path,
    with_numbers,
)
from soulslab.config.writing import dump_settings
from soulslab.errors import BossFileError
from support.stage import KNOCK_BACKS, shipped

START = "moves[0].windows[0].start_s"
INTERVALS = {"hp": (1000.0, 1100.0), START: (0.6, 0.7), "pause_s[0][1]": (0.2, 1.4)}


def write(folder, text):
    path = uncertainty_path(folder / "margit.toml")
    path.write_text(text, encoding="utf-8")
    return path


def test_a_written_uncertainty_file_is_read_back(tmp_path):
    written = Uncertainty(intervals=INTERVALS, unknown=("moves[0].windows[0].parry",), n_fights=3, game_time_s=60.5)
    path = write(tmp_path, dump_settings(written))
    assert path.name == "margit.uncertainty.toml"
    assert load_uncertainty(path, shipped("judge")) == written


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[intervals]\nhp = [2.0, 1.0]", "intervals.hp: 2.0 is greater than 1.0"),
        ("[intervals]\nmana = [1.0, 2.0]", "intervals.mana: is not the place of a number in the boss file"),
        ('[intervals]\n"moves[0].windows[0].parry" = [0.0, 1.0]', "is not the place of a number"),
        ("[intervals]\nhp = [1.0, nan]", "is not a number"),
        ("level = 1.0\n[intervals]", "level: expected a number < 1.0"),
    ],
)
def test_a_mistake_is_reported_with_its_place(tmp_path, text, problem):
    path = write(tmp_path, text)
    with pytest.raises(BossFileError) as caught:
        load_uncertainty(path, shipped("judge"))
    assert problem in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_reported_with_its_origin(tmp_path):
    path = uncertainty_path(tmp_path / "margit.toml")
    with pytest.raises(
        BossFileError, match=r"margit\.uncertainty\.toml: does not exist; 'soulslab boss fit' writes it"
    ):
        load_uncertainty(path, shipped("judge"))


def test_numbers_are_found_and_replaced_by_their_places():
    judge = shipped("judge")
    numbers = dict(numbers_of(judge))
    assert numbers[START] == 0.65
    assert "moves[0].windows[0].parry" not in numbers
    changed = with_numbers(judge, {START: 0.7, "hp": 999.6})
    assert changed.moves[0].windows[0].start_s == 0.7
    assert changed.hp == 1000
    with pytest.raises(KeyError):
        with_numbers(judge, {"moves[99].recovery_s": 1.0})


def test_drawn_bosses_are_valid_and_within_the_intervals():
    judge = shipped("judge")
    uncertainty = Uncertainty(intervals={**INTERVALS, "moves[0].windows[0].end_s": (0.5, 0.9)})
    rng = np.random.default_rng(3)
    for _ in range(20):
        drawn = draw_boss(judge, uncertainty, rng)
        assert parse_boss(dump_settings(drawn), "drawn.toml", KNOCK_BACKS) == drawn
        window = drawn.moves[0].windows[0]
        assert 0.6 <= window.start_s <= 0.7
        assert window.start_s < window.end_s <= 0.9
        assert drawn.pause_s[0][0] <= drawn.pause_s[0][1]
    assert draw_boss(judge, uncertainty, rng, width=0.0) == judge


def test_an_arc_that_may_be_a_full_circle_is_often_a_full_circle():
    judge = shipped("judge")
    arcs = [place for place, _ in numbers_of(judge) if place.endswith("windows[0].arc_rad")]
    bounded, open_ended = arcs[0], arcs[1]
    uncertainty = Uncertainty(intervals={bounded: (0.5, 3.0), open_ended: (0.5, 6.283185)})
    rng = np.random.default_rng(4)
    drawn = [dict(numbers_of(draw_boss(judge, uncertainty, rng))) for _ in range(300)]
    assert np.mean([numbers[open_ended] > 6.28 for numbers in drawn]) == pytest.approx(0.36, abs=0.06)
    assert all(0.5 <= numbers[bounded] <= 3.0 for numbers in drawn)


def test_a_drawn_number_keeps_the_bounds_of_a_boss_file():
    judge = shipped("judge")
    wide = {place: (-5.0, 5.0) for place, _ in numbers_of(judge) if not place.startswith("ground")}
    wide |= {"hp": (900.0, 1100.0), "phase_two.below": (0.3, 0.7)}  # a phase lasts at least one hit point
    drawn = draw_boss(judge, Uncertainty(intervals=wide), np.random.default_rng(2), width=1.2)
    assert parse_boss(dump_settings(drawn), "drawn.toml", KNOCK_BACKS) == drawn
