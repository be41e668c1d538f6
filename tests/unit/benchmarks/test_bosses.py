"""The benchmark of one config on every boss."""

import signal

import msgspec
import pytest

from benchmarks.bosses import BossesBenchSettings, measure_bosses, train_and_evaluate
from soulslab.arena.boss_file import boss_names
from support.message_sink import SignalSink


def test_trains_against_each_boss_with_each_seed(small_config):
    (result,) = measure_bosses(BossesBenchSettings(train=small_config, seeds=(3, 4), n_fights=6))
    assert [(row["seed"], row["boss"]) for row in result.rows] == [(s, b) for s in (3, 4) for b in boss_names()]
    for row in result.rows:
        assert row["fights"] == 6
        assert row["decisions"] >= small_config.run.total_steps
        assert row["from (%)"] <= row["won (%)"] <= row["to (%)"]
        assert row["over 80 %"] == (row["won (%)"] > 80)


def test_a_limit_ends_the_run(small_config):
    endless = msgspec.structs.replace(small_config.run, total_steps=10**9)
    settings = BossesBenchSettings(train=msgspec.structs.replace(small_config, run=endless), n_fights=1, limit_s=0.01)
    assert all(row["decisions"] < 10**6 for row in measure_bosses(settings)[0].rows)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_benchmark_instead_of_the_training_alone(small_config, number):
    with pytest.raises(KeyboardInterrupt):
        train_and_evaluate(small_config, 1, [SignalSink(number)])
