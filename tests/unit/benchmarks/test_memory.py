"""The benchmarks of PPO and Rainbow with and without memory, and of critics that see more and that do not."""

import numpy as np
import pytest
from msgspec.structs import replace

from benchmarks.memory import MemoryBenchSettings, measure_critic, measure_memory
from soulslab.learn.rainbow.rainbow_settings import (
    QLearningSettings,
    QNetworkSettings,
    RainbowEnvSettings,
    RainbowSettings,
)
from soulslab.learn.settings import ReplaySettings

RAINBOW = RainbowSettings(
    env=RainbowEnvSettings(n_envs=2, options={"skip_locked": True}),
    learner=QLearningSettings(batch_size=16, learning_starts=100),
    network=QNetworkSettings(widths=(8,), n_quantiles=2),
    replay=ReplaySettings(sequence_steps=8, burn_in_steps=4),
)


@pytest.mark.parametrize("algorithm", ["PPO", "Rainbow"])
def test_each_policy_is_trained_with_each_seed_and_compared_with_the_first(small_config, algorithm):
    config = small_config if algorithm == "PPO" else RAINBOW
    settings = MemoryBenchSettings(train=config, seeds=(3, 4), n_steps=1000, memory=4, n_fights=4)
    summary, runs = measure_memory(settings)
    assert summary.title.startswith(algorithm)
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
    explained = [row["explained variance (%)"] for row in runs.rows]
    assert np.isfinite(explained).all()
    assert len(set(explained)) == 4
