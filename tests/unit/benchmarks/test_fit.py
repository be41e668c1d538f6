"""The benchmark of fits, and the comparison with the truth."""

import msgspec
import pytest

from benchmarks.fit import GENERATED, SEEDS, FitBenchSettings, fit_and_compare, measure_fits
from benchmarks.fit_truth import Compared, compare, kind_of
from soulslab.arena.boss_catalog import find_boss
from soulslab.arena.fitting.fit import Fit
from soulslab.arena.uncertainty import Uncertainty, numbers_of


def test_the_table_has_every_boss_and_kind_of_number():
    settings = FitBenchSettings(n_generated=0, minutes=2.0, rates_hz=(60,), purpose="development")
    fits, kinds = measure_fits(settings)
    assert [row["boss"] for row in fits.rows] == ["frost_beast", "judge", "trickster", "all"]
    assert all(row["contained (%)"] > 80 for row in fits.rows)
    assert {"start_s", "damage", "weight", "pause_s", "boss"} <= {row["number"] for row in kinds.rows}


def test_recordings_have_the_player_and_the_rules_of_the_settings():
    settings = FitBenchSettings(n_generated=0, minutes=2.0, rates_hz=(60,), purpose="development")
    others = [
        msgspec.structs.replace(settings, player="reference"),
        msgspec.structs.replace(settings, has_held_out_rules=True),
    ]
    boss = find_boss("judge")
    found = [tuple(number.fitted for number in fit_and_compare(boss, each, 60).numbers) for each in (settings, *others)]
    assert len(set(found)) == 3


def test_seeds_for_development_and_for_the_report_differ():
    assert set(GENERATED["development"]).isdisjoint(GENERATED["report"])
    assert SEEDS["report"] > SEEDS["development"] + 1_000_000
    assert FitBenchSettings().purpose == "report"


def as_fit(boss):
    intervals = {place: (number, number) for place, number in numbers_of(boss) if not place.startswith("ground")}
    return Fit(boss=boss, uncertainty=Uncertainty(intervals=intervals), moves=(), n_unexplained_hits=0, n_hits=0)


@pytest.mark.parametrize("name", ["judge", "trickster"])
def test_the_truth_agrees_with_itself(name):
    truth = find_boss(name)
    # In a fit the damage is that of phase 1.
    fitted = msgspec.structs.replace(
        truth,
        damage_scale=(1.0, truth.damage_scale[1] / truth.damage_scale[0]),
        moves=tuple(
            msgspec.structs.replace(
                move,
                windows=tuple(
                    msgspec.structs.replace(window, damage=window.damage * truth.damage_scale[0])
                    for window in move.windows
                ),
            )
            for move in truth.moves
        ),
    )
    found = compare(as_fit(fitted), truth)
    assert [number.place for number in found.numbers if not number.is_covered] == []
    assert found.n_windows_found == found.n_windows
    assert (found.n_windows_extra, found.n_choices_right) == (0, found.n_choices)


def test_an_interval_beside_the_truth_is_counted():
    one = Compared(place="moves[0].windows[0].start_s", kind="start_s", fitted=0.6, low=0.5, high=0.7, true=0.71)
    assert not one.is_covered
    assert one.error == pytest.approx(0.11)
    assert (kind_of("pause_s[0][1]"), kind_of("moves[3].range_m[1]"), kind_of("hp")) == ("pause_s", "range_m", "boss")
