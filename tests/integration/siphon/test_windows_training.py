"""Training by the Windows Python under Wine."""

import logging

import pytest
from msgspec.structs import replace

from benchmarks.fleet_processes import DEADLINE_S
from soulslab.learn.policy import Policy
from soulslab.learn.settings import EnvSettings
from support.fleet import FleetOnTrial, fleet_settings
from support.windows_python import GAME_PACKAGES, LEARNER_PACKAGES, WindowsPython

#: Steps after resuming; on an idle machine they take 15 s, as those before.
N_STEPS = 1_000_000


@pytest.fixture
def python(windows, request):
    with windows.occupied():
        yield WindowsPython(request.config.cache.mkdir("windows_python"), windows)


@pytest.mark.long
def test_training_and_resuming_on_windows(python, request, tmp_path):
    python.add(LEARNER_PACKAGES, request.config.cache.mkdir("windows_learner"))
    folder = tmp_path / "run"
    command = ("train", "--config", "demo.toml", "--run-dir", f"Z:{folder}", "--set", "run.max_seconds=15")
    first = python.run_command(*command)
    assert first.returncode == 0, first.stderr
    n_steps = Policy.load(folder / "policy.safetensors").header.env_steps
    n_wanted = n_steps + N_STEPS
    limits = (f"run.total_steps={n_wanted}", "run.max_seconds=600")
    again = python.run_command("train", "--resume", f"Z:{folder}", *(f"--set={limit}" for limit in limits))
    assert again.returncode == 0, again.stderr
    assert Policy.load(folder / "policy.safetensors").header.env_steps >= n_wanted


def test_a_machine_with_windows_plays_for_a_learner_on_linux(python, request, tmp_path, caplog):
    python.add(GAME_PACKAGES, request.config.cache.mkdir("windows_learner"))
    caplog.set_level(logging.INFO, logger="soulslab.fleet")
    settings = fleet_settings(total_steps=100)
    trial = FleetOnTrial(tmp_path, replace(settings, env=EnvSettings(id="soulslab/Arena-v0", options={"phase": "1"})))
    try:
        learner = trial.learn_here()
        played = python.run_command("fleet", "play", f"Z:{trial.join}", "--name", "windows")
        assert played.returncode == 0, played.stderr
        assert learner.result(DEADLINE_S) == 0  # the run is complete
        assert "game windows/0 joined" in caplog.text
    finally:
        trial.close()
