"""What Weights & Biases is given, in its offline mode, read from the file that it would send."""

import struct

import pytest

from soulslab.errors import ConfigError
from soulslab.learn.settings import SinkSettings
from soulslab.learn.sinks import run_sinks
from soulslab.learn.sinks.metric_names import MESSAGES, tagged_values
from soulslab.learn.sinks.wandb_sink import WandbSink
from soulslab.learn.telemetry import EvaluationProgress, TrainProgress
from support.messages import example
from support.waiting import wait_for


def read_records(folder):
    """Return the records of the only run; the file has blocks of 32 kB as the logs of LevelDB."""
    from wandb.proto.wandb_internal_pb2 import Record  # noqa: PLC0415 (as in `own_process`)

    [path] = folder.glob("wandb/offline-run-*/run-*.wandb")
    data, position, parts = path.read_bytes(), 7, []
    while position + 7 <= len(data):
        if 32_768 - position % 32_768 < 7:
            position += 32_768 - position % 32_768
            continue
        _, length, kind = struct.unpack_from("<IHB", data, position)
        part = data[position + 7 : position + 7 + length]
        if len(part) < length:  # it is being written
            return
        position += 7 + length
        parts = [*parts, part] if kind in (3, 4) else [part]
        if kind in (1, 4):
            yield Record.FromString(b"".join(parts))


@pytest.fixture(autouse=True)
def own_process():
    """wandb reads its environment once per process, unless it is torn down."""
    import wandb  # noqa: PLC0415 (takes more than a second, and each process of the suite collects this file)

    yield
    wandb.teardown()


@pytest.fixture
def offline(monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")


def test_numbers_settings_and_name_arrive(tmp_path, offline):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "config.toml").write_text("[learner]\nlr = 0.25\n")
    [sink] = [each for each in run_sinks(folder, SinkSettings(wandb="souls")) if isinstance(each, WandbSink)]
    messages = [example(kind) for kind in MESSAGES]
    for message in messages:
        sink.write(message)
    sink.close()
    sink.close()
    # The service of wandb may still write when the run has finished.
    wait_for(lambda: any(record.HasField("exit") for record in read_records(folder)), "the end of the run")
    records = list(read_records(folder))
    [run] = {record.run.SerializeToString(): record.run for record in records if record.HasField("run")}.values()
    assert (run.project, run.display_name) == ("souls", "mine")
    assert '{"lr":0.25}' in [item.value_json.replace(" ", "") for item in run.config.update]
    rows = [
        {item.key or "/".join(item.nested_key): item.value_json for item in record.history.item}
        for record in records
        if record.HasField("history")
    ]
    expected = [tagged_values(message) for message in messages if not isinstance(message, EvaluationProgress)]
    for row, found in zip(rows, filter(None, expected), strict=True):
        assert {name for name in row if not name.startswith("_")} == {*found, "env_steps"}
        assert [float(row[name]) for name in found] == pytest.approx(list(found.values()))


def test_without_an_account_the_error_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setenv("WANDB_API_KEY", "malformed")
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    sink = WandbSink(tmp_path, "souls")
    with pytest.raises(ConfigError, match="WANDB_MODE=offline"):
        sink.write(example(TrainProgress))
    sink.close()
