"""The benchmark of the dashboard."""

import pytest

from benchmarks.dashboard import DashboardBenchSettings, measure_dashboard
from benchmarks.result import as_table


@pytest.mark.long
def test_measures_cost_latency_and_pages():
    settings = DashboardBenchSettings(window_s=2.0, n_rounds=1, watch_s=2.0, n_runs=3, run_hours=0.1)
    costs, latency, opening = measure_dashboard(settings)
    assert [row["learner"] for row in costs.rows] == ["PPO", "Rainbow"]
    assert latency.rows[0]["median (ms)"] > 0.0
    assert opening.rows[0]["list (s)"] > 0.0
    for result in (costs, latency, opening):
        as_table(result)
