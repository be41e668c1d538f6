"""Checkpoints and policies that an earlier version wrote still load, without settings that were removed."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from soulslab.learn.players import load_player
from soulslab.learn.run_folder import StopReason
from soulslab.learn.train import train
from soulslab.learn.training import load_run_settings

FILES = Path(__file__).parents[2] / "data" / "learn_before"


@pytest.fixture(params=["ppo", "rainbow"])
def earlier_run(request, tmp_path):
    """Folder of a run on the corridor that an earlier version interrupted."""
    run_dir = tmp_path / request.param
    with zipfile.ZipFile(FILES / f"{request.param}.zip") as archive:
        archive.extractall(run_dir)
    return run_dir


def test_a_run_of_an_earlier_version_is_resumed_to_its_end(earlier_run):
    settings = load_run_settings(earlier_run / "config.toml")
    steps_before = load_player(earlier_run).header.env_steps
    result = train(settings, earlier_run, resume=True)
    assert result.reason is StopReason.COMPLETED
    assert 0 < steps_before < settings.run.total_steps <= result.env_steps


def test_the_policy_of_an_earlier_version_is_that_of_its_checkpoint(earlier_run):
    policy = load_player(earlier_run)
    (checkpoint,) = (earlier_run / "checkpoints").iterdir()
    obs = np.eye(6, dtype=np.float32)
    assert policy.act(obs).tolist() == load_player(checkpoint).act(obs).tolist()
