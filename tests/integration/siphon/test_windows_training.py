"""Training by the Windows Python under Wine."""

import logging

import pytest
from msgspec.structs import replace

from benchmarks.fleet_processes import DEADLINE_S
from soulslab.learn.checkpoint import CheckpointStore
from soulslab.learn.curve import read_points
from soulslab.learn.policy import Policy
from soulslab.learn.run_folder import CHECKPOINTS_NAME
from soulslab.learn.settings import EnvSettings
from soulslab.learn.sinks import PROGRESS_NAME
from soulslab.learn.telemetry import TrainProgress
from support.fleet import FleetOnTrial, fleet_settings
from support.long_form import IS_LONG
from support.waiting import wait_for
from support.windows_python import LEARNER_PACKAGES, WindowsPython

#: Steps until the learner is killed, and after resuming; on an idle machine a million takes 15 s.
N_STEPS = 1_000_000 if IS_LONG else 20_000


@pytest.fixture
def python(windows, request):
    with windows.occupied():
        yield WindowsPython(request.config.cache.mkdir("windows_python"), windows)


def test_training_on_windows_is_killed_and_resumed(python, windows, request, tmp_path):
    python.add(LEARNER_PACKAGES, request.config.cache.mkdir("windows_learner"))
    folder = tmp_path / "run"
    store = CheckpointStore(folder / CHECKPOINTS_NAME, keep=1)
    command = ("train", "--config", "demo.toml", "--run-dir", f"Z:{folder}", "--set=run.checkpoint_every_s=0.5")
    with python.running_command(*command) as learner:
        wait_for(
            lambda: learner.poll() is not None or any(n_steps(path) >= N_STEPS for path in store.paths()),
            "a checkpoint",
            deadline_s=DEADLINE_S,
        )
        assert learner.poll() is None, learner.stderr.read()
        learner.kill()
        learner.wait()
    windows.end_all()
    n_before = n_steps(store.paths()[-1])
    n_wanted = n_before + N_STEPS
    limits = (f"--set=run.total_steps={n_wanted}", "--set=run.max_seconds=600")
    done = python.run_command("train", "--resume", f"Z:{folder}", *limits)
    assert done.returncode == 0, done.stderr
    assert Policy.load(folder / "policy.safetensors").header.env_steps >= n_wanted
    reported = [each.env_steps for each in read_points(folder / PROGRESS_NAME, TrainProgress)]
    assert reported[0] <= n_before < reported[-1]
    assert reported == sorted(reported)  # the run did not start again


def n_steps(checkpoint):
    return int(checkpoint.stem.removeprefix("step_"))


def test_a_machine_with_windows_plays_for_a_learner_on_linux(python, request, tmp_path, caplog):
    python.add(LEARNER_PACKAGES, request.config.cache.mkdir("windows_learner"))
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
