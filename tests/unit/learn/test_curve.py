from contextlib import closing

import msgspec
import pytest

from soulslab.errors import CheckpointError
from soulslab.learn.curve import EVALUATED as BY_EVALUATION
from soulslab.learn.curve import MOVING, RETURNS, draw_curve, learning_curve, read_evaluations, read_points
from soulslab.learn.sinks import JsonLinesSink
from soulslab.learn.telemetry import TrainProgress, TrainStarted
from support.messages import EVALUATED, PROGRESS

STARTED = TrainStarted(env_id="toys/Corridor-v0", total_steps=1_000_000, env_steps=0, seed=0, is_resumed=False)


def written(path, messages):
    with closing(JsonLinesSink(path)) as sink:
        for message in messages:
            sink.write(message)
    return path


def test_the_curve_leaves_out_what_a_resumed_run_lost(tmp_path):
    path = tmp_path / "log.jsonl"
    with closing(JsonLinesSink(path)) as sink:
        for env_steps, win_rate in ((10, 0.1), (20, 0.2), (30, 0.9), (20, 0.3), (40, 0.4)):
            sink.write(msgspec.structs.replace(PROGRESS, env_steps=env_steps, win_rate=win_rate))
    assert [(p.env_steps, p.win_rate) for p in read_points(path, TrainProgress)] == [(10, 0.1), (20, 0.3), (40, 0.4)]


@pytest.mark.parametrize("win_rate", [0.5, None])
def test_the_curve_is_drawn(tmp_path, win_rate):
    log, picture = tmp_path / "log.jsonl", tmp_path / "curve.png"
    with closing(JsonLinesSink(log)) as sink:
        for k in range(1, 20):
            sink.write(msgspec.structs.replace(PROGRESS, env_steps=k * 1000, seconds=float(k), win_rate=win_rate))
    draw_curve(log, picture, title="a run")
    assert picture.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(CheckpointError, match=r"absent/curve.png: could not be written: No such file"):
        draw_curve(log, tmp_path / "absent" / "curve.png")


def test_a_log_without_episodes_cannot_be_drawn(tmp_path):
    log = tmp_path / "log.jsonl"
    with closing(JsonLinesSink(log)) as sink:
        sink.write(STARTED)
    with pytest.raises(CheckpointError, match="no finished episode"):
        draw_curve(log, tmp_path / "curve.png")


def test_an_evaluation_that_the_resumed_run_did_not_reach_again_is_lost_too(tmp_path):
    marks = [msgspec.structs.replace(EVALUATED, env_steps=n) for n in (10, 20, 30)]
    resumed = msgspec.structs.replace(STARTED, env_steps=20, is_resumed=True)
    log = written(tmp_path / "log.jsonl", [*marks, resumed, msgspec.structs.replace(PROGRESS, env_steps=25)])
    assert [point.env_steps for point in read_evaluations(log)] == [10, 20]


def run(win_rate=0.25):
    """Return the log of a run with an evaluation between two messages of progress each."""
    messages = [STARTED]
    for k in range(10):
        place = {"env_steps": 1000 * k, "seconds": 3.0 * k}
        messages.append(msgspec.structs.replace(PROGRESS, win_rate=win_rate, mean_return=-1.0 * k, **place))
        judged = msgspec.structs.replace(EVALUATED, env_steps=1000 * k + 500, win_rate=k / 10, low=0.0, high=0.95)
        messages.append(
            judged if win_rate is not None else msgspec.structs.replace(judged, win_rate=None, low=None, high=None)
        )
    return messages


def test_evaluated_win_rates_are_preferred_and_placed_in_time(tmp_path):
    curve = learning_curve(written(tmp_path / "log.jsonl", run()))
    assert curve.label == BY_EVALUATION
    assert curve.env_steps == [1000 * k + 500 for k in range(10)]
    assert curve.heights == pytest.approx([10.0 * k for k in range(10)])
    assert curve.seconds == pytest.approx([min(3.0 * k + 1.5, 27.0) for k in range(10)])
    assert curve.margins == ([0.0] * 10, [95.0] * 10)


def test_without_win_rates_or_on_request_returns_are_taken(tmp_path):
    for curve in (
        learning_curve(written(tmp_path / "wins.jsonl", run()), of_returns=True),
        learning_curve(written(tmp_path / "none.jsonl", run(win_rate=None))),
    ):
        assert (curve.label, curve.margins) == (RETURNS, None)
        assert curve.heights == [-1.0 * k for k in range(10)]


def test_without_evaluations_the_moving_win_rate_is_taken(tmp_path):
    curve = learning_curve(written(tmp_path / "log.jsonl", [STARTED, PROGRESS]))
    assert (curve.label, curve.heights, curve.margins) == (MOVING, [25.0], None)


def test_evaluations_alone_can_be_drawn_beside_progress_without_episodes(tmp_path):
    bare = msgspec.structs.replace(PROGRESS, win_rate=None, mean_return=None, mean_decisions=None)
    log = written(tmp_path / "log.jsonl", [STARTED, bare, EVALUATED])
    draw_curve(log, tmp_path / "curve.png", "evaluated once")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
