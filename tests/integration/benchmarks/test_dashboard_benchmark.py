"""The benchmark of the dashboard."""

import pytest

from benchmarks.dashboard import DashboardBenchSettings, measure_dashboard
from benchmarks.result import as_table


@pytest.mark.long
def test_measures_cost_latency_and_pages():
    settings = DashboardBenchSettings(window_s=2.0, n_rounds=1, watch_s=2.0, n_runs=3, run_hours=0.1)
    costs, unwatched, latency, opening = measure_dashboard(settings)
    assert [row["learner"] for row in costs.rows] == ["PPO", "Rainbow"]
    assert all(0.0 < row["cost, at most (%)"] < 5.0 for row in unwatched.rows)
    assert latency.rows[0]["median (ms)"] > 0.0
    assert latency.rows[0]["pictures/s"] > 0.0
    assert opening.rows[0]["list, first (s)"] > 0.0
    for result in (costs, unwatched, latency, opening):
        as_table(result)
