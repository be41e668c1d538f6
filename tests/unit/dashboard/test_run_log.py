"""Reading of telemetry while the run writes it."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulslab.dashboard.run_log import AXES, RunLog, read_ends
from soulslab.learn import telemetry
from soulslab.learn.evaluate import wilson_interval
from support.run_folders import START_S, evaluated, finished, line, progress, started, write_run


@pytest.fixture
def path(tmp_path):
    return write_run(tmp_path / "run", [started(), progress(100, 0.2), evaluated(150), progress(200, 0.4)])


def read(path):
    log = RunLog(path)
    log.update()
    return log


def append(path, data):
    with path.open("ab") as file:
        file.write(data)


def test_series_equal_the_messages(path):
    log = read(path)
    series = log.series("train/win_rate")
    assert series.env_steps.tolist() == [100, 200]
    assert series.values.tolist() == [0.2, 0.4]
    assert series.wall_s.tolist() == [START_S + 1, START_S + 3]
    assert log.last_wall_s == START_S + 3
    assert log.n_malformed == 0


def test_unknown_values_are_left_out(tmp_path):
    log = read(write_run(tmp_path / "run", [started(), progress(10, None), progress(20, 0.5)]))
    assert log.series("train/win_rate").env_steps.tolist() == [20]
    assert log.series("no/such").values.tolist() == []


def test_values_with_labels_may_appear_later(tmp_path):
    def fights(env_steps, damage):
        return telemetry.FightStats(
            env_steps=env_steps, n_fights=1, reward_terms={}, damage_by_attack=damage, action_shares=()
        )

    log = read(write_run(tmp_path / "run", [fights(1, {"a": 1.0}), fights(2, {"b": 2.0}), fights(3, {"a": 3.0})]))
    assert log.series("fight/damage/a").values.tolist() == [1.0, 3.0]
    assert log.series("fight/damage/b").env_steps.tolist() == [2]


def test_update_reads_only_what_is_new(path):
    log = read(path)
    assert not log.update()
    append(path, line(progress(300, 0.6)))
    assert log.update()
    assert log.series("train/win_rate").env_steps.tolist() == [100, 200, 300]


@given(st.integers(1, 120))
def test_half_written_line_is_read_when_it_is_complete(tmp_path_factory, n_bytes):
    path = write_run(tmp_path_factory.mktemp("run"), [started(), progress(100)])
    data = line(progress(200))
    log = read(path)
    append(path, data[:n_bytes])
    log.update()
    assert log.series("train/win_rate").env_steps.tolist() == [100]
    append(path, data[n_bytes:])
    log.update()
    assert log.series("train/win_rate").env_steps.tolist() == [100, 200]
    assert log.n_malformed == 0


def test_incomplete_line_that_a_resume_removes_is_forgotten(path):
    log = read(path)
    size = path.stat().st_size
    append(path, b'{"type": "TrainPro')
    log.update()
    os.truncate(path, size)
    append(path, line(started(200, is_resumed=True)) + line(progress(300)))
    log.update()
    assert log.series("train/win_rate").env_steps.tolist() == [100, 200, 300]
    assert log.n_malformed == 0


def test_truncated_file_is_read_again(path):
    log = read(path)
    path.write_bytes(line(progress(7)))
    assert log.update()
    assert log.series("train/win_rate").env_steps.tolist() == [7]


def test_replaced_file_is_read_again(path, tmp_path):
    log = read(path)
    other = write_run(tmp_path / "other", [started(), *(progress(i) for i in range(1, 40))])
    other.replace(path)
    assert log.update()
    assert len(log.series("train/win_rate").values) == 39


def test_missing_file_is_empty(tmp_path):
    log = RunLog(tmp_path / "progress.jsonl")
    assert not log.update()
    assert log.tags == []
    write_run(tmp_path, [started(), progress(1)])
    assert log.update()
    (tmp_path / "progress.jsonl").unlink()
    assert log.update()
    assert log.tags == []


def test_resumed_run_replaces_what_it_repeats(tmp_path):
    messages = [started(), progress(100, 0.1), progress(200, 0.2), evaluated(200, 0.3), progress(300, 0.3)]
    messages += [started(150, is_resumed=True), progress(180, 0.5), evaluated(200, 0.7)]
    log = read(write_run(tmp_path / "run", messages))
    assert log.series("train/win_rate").env_steps.tolist() == [100, 180]
    assert log.evaluated_win_rate().series.values.tolist() == pytest.approx([70.0])


@pytest.mark.parametrize(
    "noise", [b"\n", b"not json\n", b'{"type": "Unknown"}\n', b'{"type": "TrainStarted"}\n', b"\xff\n"]
)
def test_malformed_lines_are_counted_and_skipped(path, noise):
    append(path, noise + line(progress(300)))
    log = read(path)
    assert log.n_malformed == 1
    assert log.series("train/win_rate").env_steps.tolist() == [100, 200, 300]


def test_win_rates_have_wilson_intervals(path):
    log = read(path)
    band = log.moving_win_rate()
    assert band.series.values.tolist() == pytest.approx([20.0, 40.0])
    expected = [wilson_interval(2, 10), wilson_interval(8, 20)]
    assert band.low.tolist() == pytest.approx([100 * each.low for each in expected])
    assert band.high.tolist() == pytest.approx([100 * each.high for each in expected])
    judged = log.evaluated_win_rate()
    assert (judged.low.tolist(), judged.high.tolist()) == (pytest.approx([70.0]), pytest.approx([90.0]))


def test_axes(path):
    log = read(path)
    series = log.series("train/win_rate")
    assert log.axis("decisions", series).tolist() == [100, 200]
    assert log.axis("game time", series, 0.1).tolist() == pytest.approx([10 / 3600, 20 / 3600])
    assert log.axis("training time", series).tolist() == [1.0, 2.0]
    assert log.axis("wall time", series).tolist() == [1000 * (START_S + 1), 1000 * (START_S + 3)]
    assert np.isnan(log.axis("updates", series)).all()
    assert len(AXES) == 5


def test_events(tmp_path):
    log = read(write_run(tmp_path / "run", [started(), evaluated(5), finished(10)]))
    assert [type(event.message).__name__ for event in log.events] == ["TrainStarted", "Evaluated", "TrainFinished"]


def test_ends_of_a_short_file_are_all_messages(path):
    assert [message for message, _ in read_ends(path)] == [
        started(),
        progress(100, 0.2),
        evaluated(150),
        progress(200, 0.4),
    ]


def test_ends_of_a_long_file_are_a_sample_with_the_last_message(tmp_path):
    path = write_run(tmp_path / "run", [started(), *(progress(i) for i in range(1, 5000)), finished(5000)])
    found = [message for message, _ in read_ends(path, n_places=10, n_bytes=1000)]
    assert found[0] == started()
    assert found[-1] == finished(5000)
    assert 10 < len(found) < 200
    steps = [message.env_steps for message in found]
    assert steps == sorted(steps)
    assert list(read_ends(tmp_path / "missing.jsonl")) == []
