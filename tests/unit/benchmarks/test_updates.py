"""The benchmark of updates per second."""

import numpy as np
import pytest
from msgspec.structs import replace

from benchmarks.updates import (
    BARE_CONFIG,
    BARE_SAME,
    OURS_CONFIG,
    OURS_SAME,
    PEER,
    SpeedSettings,
    compare_speed,
    made_up_rows,
    measure_updates,
    same_shapes,
)
from soulslab.learn.rainbow.rainbow_settings import QNetworkSettings, RainbowSettings
from soulslab.learn.replay.replay_buffer import ReplayBuffer
from soulslab.learn.replay.step_rows import StepShape
from soulslab.learn.settings import ReplaySettings


def test_measures_all_updates():
    config = replace(RainbowSettings(), network=QNetworkSettings(widths=(8, 8), n_quantiles=3))
    rows, targets = measure_updates(config, SpeedSettings(n_stored=200, n_updates=2, n_rounds=2))
    assert [row["update"] for row in rows] == [OURS_SAME, BARE_SAME, PEER, OURS_CONFIG, BARE_CONFIG]
    assert [row["widths"] for row in rows] == ["128x128"] * 3 + ["8x8"] * 2
    assert [row["quantiles"] for row in rows] == [1, 1, 1, 3, 3]
    assert all(0.0 < row["worst round"] <= row["updates/s (median)"] <= row["best round"] for row in rows)
    assert len(targets) == 3


def test_equal_shapes_change_only_the_network():
    config = replace(RainbowSettings(), replay=ReplaySettings(alpha=0.0))
    same = same_shapes(config)
    assert same.replay.alpha > 0.0
    assert same.learner.n_steps > 1
    assert same.learner.is_double
    assert same.learner.is_target_masked
    assert same_shapes(RainbowSettings()).replay.alpha == RainbowSettings().replay.alpha


def test_ratios_are_medians_of_the_rounds():
    rates = {OURS_SAME: [30.0, 10.0, 40.0], BARE_SAME: [40.0] * 3, PEER: [10.0, 10.0, 20.0]}
    rates |= {OURS_CONFIG: [8.0] * 3, BARE_CONFIG: [10.0] * 3}
    rows = compare_speed(rates)
    assert [row["measured"] for row in rows] == pytest.approx([2.0, 0.75, 0.8])
    assert [row["reached"] for row in rows] == [True, True, True]
    rates[PEER] = [100.0] * 3
    assert compare_speed(rates)[0]["reached"] is False


def test_random_steps_can_be_sampled():
    shape = StepShape(n_features=5, n_actions=7)
    buffer = ReplayBuffer(shape, ReplaySettings(capacity=300), 1)
    buffer.append(made_up_rows(shape, 300, np.random.default_rng(0)))
    batch = buffer.make_batch(200)
    buffer.sample(batch, n_steps=3, gamma=0.9, beta=0.5, rng=np.random.default_rng(1))
    assert not batch.blocked.gather(1, batch.actions).any()
    assert 0.2 < float(batch.blocked.float().mean()) < 0.5
    assert 0.0 < float((batch.discounts == 0.0).float().mean()) < 0.3
