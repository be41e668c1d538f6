import io

import msgspec
import pytest
from rich.console import Console

from soulslab.errors import CheckpointError, CorruptCheckpointError
from soulslab.learn.curve import draw_curve, read_curve
from soulslab.learn.sinks import ConsoleSink, JsonLinesSink, TensorBoardSink, read_json_lines, run_sinks
from soulslab.learn.telemetry import (
    CheckpointSaved,
    EvaluationProgress,
    TrainFinished,
    TrainProgress,
    TrainStarted,
    UpdateStats,
)

PROGRESS = TrainProgress(
    env_steps=500_000,
    total_steps=1_000_000,
    seconds=5.0,
    steps_per_second=100_000.0,
    n_fights=2000,
    win_rate=0.25,
    mean_return=-1.5,
    mean_decisions=250.0,
)
MESSAGES = [
    TrainStarted(env_id="toys/Corridor-v0", total_steps=1_000_000, env_steps=0, seed=0, is_resumed=False),
    msgspec.structs.replace(PROGRESS, env_steps=100_000, win_rate=None, mean_return=None, mean_decisions=None),
    PROGRESS,
    UpdateStats(
        env_steps=500_000,
        policy_loss=0.1,
        value_loss=0.2,
        entropy=1.0,
        approx_kl=0.01,
        clip_fraction=0.1,
        explained_variance=0.9,
        grad_norm=0.3,
        lr=1e-3,
        entropy_coef=0.01,
    ),
    CheckpointSaved(env_steps=500_000, path="checkpoints/x"),
    TrainFinished(env_steps=1_000_000, seconds=10.0, reason="completed"),
    EvaluationProgress(n_done=30, n_fights=30, n_wins=27),
]


def test_json_lines_hold_every_message(tmp_path):
    path = tmp_path / "logs" / "log.jsonl"
    with JsonLinesSink(path) as sink:
        for message in MESSAGES:
            sink.write(message)
    assert list(read_json_lines(path)) == MESSAGES


def test_without_a_message_nothing_is_left_behind(tmp_path):
    for sink in run_sinks(tmp_path / "run"):
        sink.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("sink", [JsonLinesSink, TensorBoardSink])
def test_a_place_that_cannot_be_written_is_named(tmp_path, sink):
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"file/log: could not be written: "):
        sink(tmp_path / "file" / "log").write(MESSAGES[0])


@pytest.mark.parametrize("garbage", [b"garbage", b"", b'{"type":"TrainFinished"}', b'{"type":"CheckpointSaved\xff"}'])
def test_a_line_that_is_no_message_is_located(tmp_path, garbage):
    path = tmp_path / "log.jsonl"
    with JsonLinesSink(path) as sink:
        sink.write(PROGRESS)
    path.write_bytes(path.read_bytes() + garbage + b"\n" + path.read_bytes())
    with pytest.raises(CorruptCheckpointError, match=r"log.jsonl: line 2 is no message"):
        read_curve(path)


def test_a_missing_log_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"log.jsonl: cannot be read: No such file"):
        read_curve(tmp_path / "log.jsonl")


def test_a_line_cut_off_by_a_crash_is_dropped(tmp_path, caplog):
    path = tmp_path / "log.jsonl"
    with JsonLinesSink(path) as sink:
        sink.write(MESSAGES[0])
        sink.write(MESSAGES[2])
    path.write_bytes(path.read_bytes()[:-10])
    assert list(read_json_lines(path)) == [MESSAGES[0]]
    assert "left out line 2" in caplog.text
    with JsonLinesSink(path) as sink:
        sink.write(MESSAGES[3])
    assert list(read_json_lines(path)) == [MESSAGES[0], MESSAGES[3]]


def test_the_console_shows_win_rate_speed_and_steps():
    console = Console(file=io.StringIO(), force_terminal=True, width=160)
    sink = ConsoleSink(console)
    for message in MESSAGES:
        sink.write(message)
    sink.close()
    shown = console.file.getvalue()
    for text in ("0.50 M steps", "100 k/s", "2000 fights", "won 25.0 %", "30 of 30 fights", "90.0 %"):
        assert text in shown


def test_tensorboard_gets_every_number(tmp_path):
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    sink = TensorBoardSink(tmp_path)
    for message in MESSAGES:
        sink.write(message)
    sink.close()
    log = event_accumulator.EventAccumulator(str(tmp_path)).Reload()
    scalars = set(log.Tags()["scalars"])
    assert {"train/win_rate", "train/steps_per_second", "update/approx_kl", "update/lr"} <= scalars
    (point,) = log.Scalars("train/win_rate")
    assert (point.step, point.value) == (500_000, 0.25)


def test_the_curve_leaves_out_what_a_resumed_run_lost(tmp_path):
    path = tmp_path / "log.jsonl"
    with JsonLinesSink(path) as sink:
        for env_steps, win_rate in ((10, 0.1), (20, 0.2), (30, 0.9), (20, 0.3), (40, 0.4)):
            sink.write(msgspec.structs.replace(PROGRESS, env_steps=env_steps, win_rate=win_rate))
    assert [(p.env_steps, p.win_rate) for p in read_curve(path)] == [(10, 0.1), (20, 0.3), (40, 0.4)]


@pytest.mark.parametrize("win_rate", [0.5, None])
def test_the_curve_is_drawn(tmp_path, win_rate):
    log, picture = tmp_path / "log.jsonl", tmp_path / "curve.png"
    with JsonLinesSink(log) as sink:
        for k in range(1, 20):
            sink.write(msgspec.structs.replace(PROGRESS, env_steps=k * 1000, seconds=float(k), win_rate=win_rate))
    draw_curve(log, picture, title="a run")
    assert picture.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(CheckpointError, match=r"absent/curve.png: could not be written: No such file"):
        draw_curve(log, tmp_path / "absent" / "curve.png")


def test_a_log_without_episodes_cannot_be_drawn(tmp_path):
    log = tmp_path / "log.jsonl"
    with JsonLinesSink(log) as sink:
        sink.write(MESSAGES[0])
    with pytest.raises(CheckpointError, match="no finished episode"):
        draw_curve(log, tmp_path / "curve.png")
