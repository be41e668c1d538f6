"""Training by the Windows Python under Wine."""

import pytest

from benchmarks.fleet_processes import FleetProcesses
from soulslab.learn.policy import Policy
from support.windows_python import WindowsPython


@pytest.fixture
def python(windows, request):
    with windows.occupied():
        yield WindowsPython(request.config.cache.mkdir("windows_python"), windows)


@pytest.mark.long
def test_training_and_resuming_on_windows(python, request, tmp_path):
    python.add_learner(request.config.cache.mkdir("windows_learner"))
    folder = tmp_path / "run"
    command = ("train", "--config", "demo.toml", "--run-dir", f"Z:{folder}", "--set", "run.max_seconds=15")
    first = python.run_command(*command)
    assert first.returncode == 0, first.stderr
    n_steps = Policy.load(folder / "policy.safetensors").header.env_steps
    again = python.run_command("train", "--resume", f"Z:{folder}", "--set", "run.max_seconds=30")
    assert again.returncode == 0, again.stderr
    policy = Policy.load(folder / "policy.safetensors")
    assert policy.header.env_steps > n_steps > 0


@pytest.mark.long
def test_a_machine_with_windows_plays_for_a_learner_on_linux(python, request, tmp_path):
    python.add_learner(request.config.cache.mkdir("windows_learner"))
    fleet = FleetProcesses(tmp_path)
    settings = ("env.options.phase='1'", "run.evaluate_every=0", "run.total_steps=2000", "learner.updates_per_step=0.1")
    try:
        learner = fleet.start_learner(
            "--run-dir", fleet.run_dir, *(word for each in settings for word in ("--set", each))
        )
        played = python.run_command("fleet", "play", f"Z:{fleet.join}", "--name", "windows")
        assert played.returncode == 0, played.stderr
        assert learner.wait(60) == 0
        assert "game windows/0 joined" in fleet.text()
    finally:
        fleet.close()
