"""Means over seeds with intervals, and lower bounds for seeds that did not reach a level."""

import pytest

from benchmarks.learner_curves import play_time
from benchmarks.learner_run import HALF, MOST, LearnerRun, Point
from benchmarks.learner_tables import (
    T_975,
    at_least,
    at_most,
    decision_cells,
    mean_decisions,
    mean_of,
    t_quantile,
)
from benchmarks.result import MoreThan


def make_run(*win_rates, every=10):
    points = tuple(
        Point(decisions=every * i, win_rate=rate, mean_return=0.0, seconds=float(i))
        for i, rate in enumerate(win_rates, start=1)
    )
    return LearnerRun(n_decisions=every * len(win_rates) + 3, points=points)


def test_a_level_is_reached_at_the_first_evaluation_at_or_above_it():
    run = make_run(0.1, 0.5, 0.4, 0.81, 0.7)
    assert run.decisions_to(HALF) == 20
    assert run.decisions_to(MOST) == 40
    assert run.decisions_to(0.9) is None
    assert run.final_win_rate() == 0.7
    assert run.area() == pytest.approx(0.502)
    nothing = make_run()
    assert (nothing.decisions_to(0.0), nothing.final_win_rate(), nothing.area()) == (None, 0.0, 0.0)


def test_quantiles_of_the_t_distribution(stats):
    for n_degrees, quantile in enumerate(T_975, start=1):
        assert quantile == pytest.approx(stats.t.ppf(0.975, n_degrees), abs=6e-4)
    assert t_quantile(1) == T_975[0]
    assert t_quantile(1000) == pytest.approx(stats.t.ppf(0.975, 1000), rel=2e-3)


def test_the_interval_is_a_t_interval(stats):
    values = [10.0, 14.0, 15.0]
    low, high = stats.t.interval(0.95, 2, loc=13.0, scale=stats.sem(values))
    found = mean_of(values)
    assert found.mean == 13.0
    assert (found.mean - found.margin, found.mean + found.margin) == pytest.approx((low, high), rel=1e-3)
    assert mean_of([5.0]) == (5.0, None)


def test_seeds_without_the_level_count_with_all_decisions():
    good, bad = make_run(0.0, 0.6), make_run(0.0, 0.2)
    assert mean_decisions([good, good], HALF) == (20, 0.0)
    assert mean_decisions([good, bad], HALF) == (MoreThan((20 + 23) / 2), None)


def test_cells_contain_minutes_of_play():
    cells = decision_cells([make_run(0.0, 0.6, every=600)])
    assert cells["to 50 %"] == 1200
    assert cells["min to 50 %"] == pytest.approx(2.0)  # 10 decisions a second
    assert cells["to 80 %"] == MoreThan(1203)
    assert (cells["seeds at 80 %"], cells["slowest to 80 %"]) == ("0 of 1", MoreThan(1203))
    there, late = (make_run(*rates, every=600) for rates in ((0.9,), (0.0, 0.0, 0.9)))
    assert decision_cells([there, late])["slowest to 80 %"] == 1800
    # Of one that was cut off nothing is known behind its end, however long the others went on.
    assert decision_cells([there, make_run(0.0)])["slowest to 80 %"] == MoreThan(600)
    assert decision_cells([there, make_run(0.0, 0.0, every=600)])["slowest to 80 %"] == MoreThan(1203)


@pytest.mark.parametrize(
    ("measured", "is_at_least", "is_at_most"),
    [
        (3.9, False, True),
        (4.1, True, False),
        (4.0, True, True),
        (None, None, None),
        (MoreThan(4.0), True, False),
        (MoreThan(3.0), None, None),
    ],
)
def test_bounds(measured, is_at_least, is_at_most):
    assert at_least(measured, 4.0) is is_at_least
    assert at_most(measured, 4.0) is is_at_most


@pytest.mark.parametrize(("n_decisions", "text"), [(2_000, "3 min"), (20_000, "33 min"), (50_000, "1.4 h")])
def test_the_axis_of_a_curve_shows_the_time_to_play(n_decisions, text):
    assert play_time(n_decisions) == text
