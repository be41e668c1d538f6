"""The benchmark of the replay buffer."""

from benchmarks.replay import N_BYTES_TARGET, ReplayBenchSettings, measure_replay
from benchmarks.result import as_table


def test_measures_sampling_and_saving():
    draws, saves = measure_replay(ReplayBenchSettings().quick())
    assert all(row["us"] > 0.0 for row in draws.rows)
    assert draws.rows[0]["times numpy.take"] == 1.0
    (row,) = saves.rows
    assert 0.0 < row["GiB in memory"] < N_BYTES_TARGET / 2**30
    assert row["MiB written by it"] > 0.0
    for result in (draws, saves):
        as_table(result)
