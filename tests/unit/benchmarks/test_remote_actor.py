"""The benchmark of a real-time game during learning, with and without a remote actor."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from benchmarks.remote_actor import RemoteActorBenchSettings, lateness_settings, measure_remote_actor


def test_the_warm_up_precedes_the_measured_steps():
    settings = RemoteActorBenchSettings(step_s=0.1, n_steps=50, warm_up_s=2.0)
    assert lateness_settings("apart", settings, Path("log")).run.total_steps == 32 + 20 + 50
    assert lateness_settings("here", settings, Path("log")).run.total_steps == 40 + 50


@pytest.mark.long
def test_measures_lateness_and_the_channel():
    settings = replace(
        RemoteActorBenchSettings().quick(),
        step_s=0.02,
        n_steps=10,
        warm_up_s=0.2,
        batch_size=8,
        updates_per_step=1.0,
        n_publications=3,
    )
    late, channel = measure_remote_actor(settings)
    assert [row["actor"] for row in late.rows] == ["apart", "in the learner's process"]
    assert all(row["steps"] == 10 for row in late.rows)
    assert all(0.0 <= row["late p50 (ms)"] <= row["p99"] <= row["max"] for row in late.rows)
    assert all(row["median"] > 0.0 for row in channel.rows)
