"""Requests to a running process through its folder."""

import pytest

from soulslab.errors import CheckpointError
from soulslab.learn import run_requests
from soulslab.learn.run_folder import RunFolder, StopReason
from soulslab.learn.run_requests import SAVE_NAME, STOP_NAME, RunRequests, request
from soulslab.learn.telemetry import CheckpointSaved, TrainProgress, TrainStarted
from soulslab.learn.train import train


class Asking:
    """A sink that makes a request at its first report."""

    def __init__(self, folder, name):
        self.folder, self.name, self.messages = folder, name, []

    def write(self, message):
        if isinstance(message, TrainProgress) and not any(isinstance(m, TrainProgress) for m in self.messages):
            request(self.folder, self.name)
        self.messages.append(message)

    def close(self):
        pass


@pytest.fixture(autouse=True)
def looks_at_each_iteration(monkeypatch):
    monkeypatch.setattr(run_requests, "CHECK_EVERY_S", 0.0)


def test_stop_request_saves_and_ends_the_run(corridor, tmp_path):
    result = train(corridor, tmp_path / "run", sinks=[Asking(tmp_path / "run", STOP_NAME)])
    assert result.reason is StopReason.INTERRUPTED
    assert result.env_steps < corridor.run.total_steps
    assert not (tmp_path / "run" / STOP_NAME).exists()
    again = train(corridor, tmp_path / "run", resume=True)
    assert again.reason is StopReason.COMPLETED


def test_save_request_writes_a_checkpoint_and_training_continues(corridor, tmp_path):
    sink = Asking(tmp_path / "run", SAVE_NAME)
    result = train(corridor, tmp_path / "run", sinks=[sink])
    assert result.reason is StopReason.COMPLETED
    saved = [message.env_steps for message in sink.messages if isinstance(message, CheckpointSaved)]
    assert len(saved) == 2
    assert saved[0] < corridor.run.total_steps


def test_requests_from_before_the_start_are_ignored(corridor, tmp_path):
    (tmp_path / "run").mkdir()
    request(tmp_path / "run", STOP_NAME)
    assert train(corridor, tmp_path / "run").reason is StopReason.COMPLETED


class AskingAtTheStart(Asking):
    """A sink that makes a request as soon as the run holds its folder."""

    def write(self, message):
        if isinstance(message, TrainStarted):
            request(self.folder, self.name)


def test_request_during_the_start_is_kept(corridor, tmp_path):
    sink = AskingAtTheStart(tmp_path / "run", STOP_NAME)
    assert train(corridor, tmp_path / "run", sinks=[sink]).reason is StopReason.INTERRUPTED
    folder = RunFolder(tmp_path / "run", corridor, resume=True)
    request(tmp_path / "run", STOP_NAME)
    folder.begin()
    assert (tmp_path / "run" / STOP_NAME).exists()
    folder.close()


def test_folder_is_looked_at_rarely(tmp_path, monkeypatch):
    monkeypatch.setattr(run_requests, "CHECK_EVERY_S", 1e9)
    requests = RunRequests(tmp_path)
    assert requests.take() == ""
    request(tmp_path, STOP_NAME)
    assert requests.take() == ""


def test_request_to_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(CheckpointError):
        request(tmp_path / "missing", STOP_NAME)
