"""Means over the runs of a fleet, and the game time that its games need together."""

from benchmarks.fleet_games import GamesRun, Setup, comparison_row
from benchmarks.learner_run import LearnerRun, Point
from benchmarks.result import MoreThan

ONE = Setup(name="1 game", n_envs=1, n_processes=1)
EIGHT = Setup(name="8 games", n_envs=8, n_processes=8)


def run_of(setup, *rates):
    points = tuple(
        Point(decisions=6000 * (i + 1), win_rate=rate, mean_return=0.0, seconds=0.0) for i, rate in enumerate(rates)
    )
    run = LearnerRun(n_decisions=6000 * len(rates), points=points)
    return GamesRun(setup=setup, run=run, seconds=60.0)


def test_the_time_is_that_in_which_all_games_together_play_the_decisions():
    runs = [run_of(EIGHT, 0.1, 0.6, 0.9), run_of(EIGHT, 0.8), run_of(ONE, 0.0)]
    row = comparison_row(runs, EIGHT)
    assert (row["decisions to 50 %"], row["decisions to 80 %"]) == (9000, 12_000)
    assert row["game time to 80 %, min"] == 2.5
    assert row["won at the end, %"] == 85.0


def test_a_run_that_does_not_reach_the_level_gives_a_bound():
    row = comparison_row([run_of(ONE, 0.1, 0.6), run_of(ONE, 0.9)], ONE)
    assert row["decisions to 80 %"] == MoreThan(9000.0)
    assert row["game time to 80 %, min"] == MoreThan(15.0)
