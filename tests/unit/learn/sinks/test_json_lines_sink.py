from contextlib import closing
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from soulslab.errors import CheckpointError, CorruptCheckpointError
from soulslab.learn.sinks import JsonLinesSink, TensorBoardSink, read_json_lines, run_sinks
from soulslab.learn.sinks.metric_names import MESSAGES as KINDS
from support.messages import PROGRESS, example, unknown

MESSAGES = [message for kind in KINDS for message in (example(kind), unknown(example(kind)))]


def test_json_lines_hold_every_message(tmp_path):
    path = tmp_path / "logs" / "log.jsonl"
    with closing(JsonLinesSink(path)) as sink:
        for message in MESSAGES:
            sink.write(message)
    assert list(read_json_lines(path)) == MESSAGES


def test_each_line_has_the_wall_time(tmp_path):
    before = datetime.now(UTC)
    with closing(JsonLinesSink(tmp_path / "log.jsonl")) as sink:
        for message in MESSAGES:
            sink.write(message)
    lines = [msgspec.json.decode(line) for line in (tmp_path / "log.jsonl").read_bytes().splitlines()]
    times = [datetime.fromisoformat(line["time"]) for line in lines]
    assert times == sorted(times)
    assert before - timedelta(seconds=1) <= times[0] <= times[-1] <= datetime.now(UTC)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_example_has_everything(kind):
    """What the other tests rely on."""
    fields = msgspec.structs.asdict(example(kind))
    assert all(value not in (None, {}, ()) for value in fields.values())


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
    with closing(JsonLinesSink(path)) as sink:
        sink.write(PROGRESS)
    path.write_bytes(path.read_bytes() + garbage + b"\n" + path.read_bytes())
    with pytest.raises(CorruptCheckpointError, match=r"log.jsonl: line 2 is not a message"):
        list(read_json_lines(path))


def test_a_missing_log_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"log.jsonl: cannot be read: No such file"):
        list(read_json_lines(tmp_path / "log.jsonl"))


def test_a_line_cut_off_by_a_crash_is_dropped(tmp_path, caplog):
    path = tmp_path / "log.jsonl"
    with closing(JsonLinesSink(path)) as sink:
        sink.write(MESSAGES[0])
        sink.write(MESSAGES[2])
    path.write_bytes(path.read_bytes()[:-10])
    assert list(read_json_lines(path)) == [MESSAGES[0]]
    assert "ignored the incomplete line 2" in caplog.text
    with closing(JsonLinesSink(path)) as sink:
        sink.write(MESSAGES[3])
    assert list(read_json_lines(path)) == [MESSAGES[0], MESSAGES[3]]
