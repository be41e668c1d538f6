"""The benchmark of PPO with and without memory."""

import pytest

from benchmarks.memory import MemoryBenchSettings, measure_memory


def test_each_policy_is_trained_with_each_seed_and_compared_with_the_first(small_config):
    settings = MemoryBenchSettings(train=small_config, seeds=(3, 4), n_steps=1000, memory=4, n_fights=4)
    summary, runs = measure_memory(settings)
    names = [row["policy"] for row in summary.rows]
    assert len(set(names)) == 3
    assert [(row["seed"], row["policy"]) for row in runs.rows] == [(seed, name) for seed in (3, 4) for name in names]
    for row in summary.rows:
        won = [run["won (%)"] for run in runs.rows if run["policy"] == row["policy"]]
        assert row["won (%)"] == pytest.approx(sum(won) / 2)
        assert row["least (%)"] == min(won)
