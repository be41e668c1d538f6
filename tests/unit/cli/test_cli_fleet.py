"""The commands of a fleet, without a server."""

import logging

import pytest

from soulslab import cli
from soulslab.fleet import learning
from soulslab.learn.run_folder import StopReason, TrainResult


@pytest.mark.parametrize(
    ("reason", "code"), [(StopReason.INTERRUPTED, cli.EXIT_INTERRUPTED), (StopReason.REQUESTED, cli.EXIT_OK)]
)
def test_a_learner_that_was_stopped_says_how_to_resume_it(tmp_path, monkeypatch, caplog, reason, code):
    folder = tmp_path / "run"
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
    monkeypatch.setattr(learning, "learn", lambda *_, **__: result)
    caplog.set_level(logging.INFO)
    assert cli.run(["fleet", "learn", "--run-dir", str(folder)]) == code
    assert f"to resume: soulslab fleet learn --resume {folder}" in caplog.text
