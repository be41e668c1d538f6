"""The commands of a fleet, without a server."""

import logging
import shlex

import pytest

from soulslab import cli
from soulslab.learn.checkpoint import CheckpointStore
from soulslab.learn.run_folder import StopReason, TrainResult


@pytest.mark.parametrize(
    ("command", "reason", "code"),
    [
        ("fleet learn", StopReason.INTERRUPTED, cli.EXIT_INTERRUPTED),
        ("fleet learn", StopReason.REQUESTED, cli.EXIT_OK),
        ("train", StopReason.INTERRUPTED, cli.EXIT_INTERRUPTED),
    ],
)
def test_a_learner_that_was_stopped_says_how_to_resume_it(tmp_path, monkeypatch, caplog, command, reason, code):
    folder = tmp_path / "my run"
    result = TrainResult(
        reason=reason,
        env_steps=10,
        train_seconds=1.0,
        n_fights=0,
        win_rate=None,
        mean_return=None,
        milestones=(),
        policy_path=folder / "policy.safetensors",
    )
    for learner in ("soulslab.fleet.learning.learn", "soulslab.learn.train.train"):
        monkeypatch.setattr(learner, lambda *_, **__: result)
    caplog.set_level(logging.INFO)
    assert cli.run([*command.split(), "--run-dir", str(folder)]) == code
    printed = caplog.messages[-1].removeprefix("to resume: ")
    assert shlex.split(printed) == ["soulslab", *command.split(), "--resume", str(folder)]


@pytest.mark.parametrize("flags", [["--config", "rainbow.toml"], ["--run-dir", "other"]])
def test_a_resumed_learner_takes_its_settings_and_its_folder_from_the_run(tmp_path, monkeypatch, capsys, flags):
    monkeypatch.chdir(tmp_path)
    assert cli.run(["fleet", "learn", "--resume", "run", *flags]) == cli.EXIT_USAGE
    assert "--resume: takes its settings and its folder from the run" in capsys.readouterr().err


def test_a_learner_leaves_no_credentials_in_a_run_that_it_refuses(tmp_path, capsys, caplog):
    caplog.set_level(logging.INFO)
    folder = tmp_path / "run"
    checkpoints = folder / "checkpoints"
    checkpoints.mkdir(parents=True)
    CheckpointStore(checkpoints, 1).save(10, {}, {})
    before = sorted(folder.rglob("*"))
    assert cli.run(["fleet", "learn", "--run-dir", str(folder)]) == cli.EXIT_FAILED
    assert "already holds a run; resume it, or choose another folder" in capsys.readouterr().err
    assert sorted(folder.rglob("*")) == before
    assert "games join with" not in caplog.text
