"""How far a simulator may be ahead of the learner."""

import time

import pytest

from soulslab.fleet.game_roster import MAX_ROWS_AHEAD, MIN_ROWS_AHEAD, Pace


def allowed_after(n_taken, seconds, n_envs=1):
    """Return the rows that may be sent beyond those taken, if the learner took these in some seconds."""
    before = Pace(n_taken=1000, at=time.monotonic() - seconds, n_allowed=0)
    pace = before.after(1000 + n_taken, n_envs, was_behind=True)
    return pace.n_allowed - pace.n_taken


def test_a_simulator_may_be_ahead_by_the_rows_of_a_second():
    assert allowed_after(400, 10.0) == pytest.approx(40, abs=1)
    assert allowed_after(400, 5.0, n_envs=4) == pytest.approx(80, abs=1)


def test_the_rows_ahead_are_bounded_for_each_environment():
    assert allowed_after(0, 10.0) == MIN_ROWS_AHEAD
    assert allowed_after(0, 10.0, n_envs=3) == 3 * MIN_ROWS_AHEAD
    assert allowed_after(100_000, 1.0, n_envs=2) == 2 * MAX_ROWS_AHEAD


def test_without_updates_that_are_due_a_simulator_gets_faster():
    pace = Pace(n_taken=0, at=0.0, n_allowed=0).after(0, 1, was_behind=False)
    windows = []
    for _ in range(6):
        windows.append(pace.n_allowed - pace.n_taken)
        pace = pace.after(pace.n_allowed, 1, was_behind=False)
    assert windows == [8, 16, 32, 64, 100, 100]
    waiting = pace.after(pace.n_allowed - 1, 1, was_behind=False)  # not all rows have arrived
    assert waiting.n_allowed - waiting.n_taken == 100
