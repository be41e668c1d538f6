"""The benchmarks of PPO with and without memory, and with critics that see more and that do not."""

import pytest
from msgspec.structs import replace

from benchmarks.memory import MemoryBenchSettings, measure_critic, measure_memory


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


def test_each_critic_is_trained_with_each_seed(small_config):
    settings = MemoryBenchSettings.for_critic(small_config)
    assert settings.train.env.options["phase"] == "1"
    summary, runs = measure_critic(replace(settings, seeds=(3, 4), n_steps=1000, n_fights=4))
    blind, sees = (row["policy"] for row in summary.rows)
    assert [(row["seed"], row["policy"]) for row in runs.rows] == [(3, blind), (3, sees), (4, blind), (4, sees)]
    assert len({row["explained variance (%)"] for row in runs.rows}) == 4
