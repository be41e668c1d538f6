"""Training runs in separate processes, and the file of stored runs."""

import json
import signal
import subprocess
import threading

import pytest
from msgspec.structs import replace

from benchmarks.learner_pool import RUNS_NAME, RunFile, play_all
from benchmarks.learner_run import LearnerRun, LearnerTask, Point
from soulslab.errors import BenchmarkError, ConfigError
from soulslab.learn.rainbow.rainbow_settings import QLearningSettings, QNetworkSettings, RainbowSettings
from soulslab.learn.settings import EnvSettings
from support.waiting import PATIENCE_S

POINT = Point(decisions=10, win_rate=0.25, mean_return=-1.5, seconds=2.0)
RUN = LearnerRun(n_decisions=12, points=(POINT,))


def make_task(seed=0, kind="rainbow", env_id="soulslab/Arena-v0"):
    settings = RainbowSettings(
        env=EnvSettings(id=env_id, n_envs=1, options={"skip_locked": True}),
        learner=QLearningSettings(learning_starts=20, batch_size=4),
        network=QNetworkSettings(widths=(8,), n_quantiles=1),
    )
    run = replace(settings.run, seed=seed, total_steps=60, evaluate_every=30, evaluate_fights=2)
    return LearnerTask(name=kind, kind=kind, is_tuned=False, settings=replace(settings, run=run))


def test_stored_runs_are_loaded(tmp_path):
    folder = tmp_path / "made" / "here"
    file = RunFile(folder)
    file.add(make_task(0), RUN)
    file.add(make_task(1), replace(RUN, points=()))
    assert (
        RunFile(folder).runs
        == file.runs
        == {
            make_task(0).digest(): RUN,
            make_task(1).digest(): replace(RUN, points=()),
        }
    )


def test_an_incomplete_last_line_is_removed(tmp_path, caplog):
    RunFile(tmp_path).add(make_task(0), RUN)
    path = tmp_path / RUNS_NAME
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:-20])
    file = RunFile(tmp_path)
    assert "incomplete last line" in caplog.text
    file.add(make_task(1), RUN)
    assert len(RunFile(tmp_path).runs) == 2
    assert path.read_bytes().startswith(whole)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"nonsense\n", "line 1 is not a run"),
        (b"\xff\n", "line 1 is not a run"),
        (b'{"version": 2}\n', "line 1 is not a run"),
    ],
)
def test_an_invalid_line_is_an_error(tmp_path, line, problem):
    (tmp_path / RUNS_NAME).write_bytes(line)
    with pytest.raises(ConfigError, match=problem):
        RunFile(tmp_path)


def test_another_version_is_an_error(tmp_path):
    RunFile(tmp_path).add(make_task(), RUN)
    path = tmp_path / RUNS_NAME
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 99}) + "\n")
    with pytest.raises(ConfigError, match="line 1 has version 99"):
        RunFile(tmp_path)


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be written"):
        RunFile(tmp_path / "file" / "below")


@pytest.mark.long
def test_processes_run_the_tasks_without_a_stored_run(tmp_path, monkeypatch):
    kept = make_task(7)
    RunFile(tmp_path).add(kept, RUN)
    ours, theirs = make_task(), make_task(kind="dqn")
    runs = play_all([ours, kept, theirs], tmp_path, 2)
    assert runs[1] == RUN
    for run in (runs[0], runs[2]):
        assert 60 <= run.n_decisions < 120
        assert len(run.points) >= 1
    # What has been played needs no process.
    monkeypatch.setattr(subprocess, "Popen", None)
    assert play_all([theirs, ours, kept], tmp_path, 1) == [runs[2], runs[0], RUN]


@pytest.mark.long
def test_a_failed_run_is_reported_and_the_others_are_stored(tmp_path):
    good, bad = make_task(), make_task(env_id="soulslab/Nothing-v0")
    with pytest.raises(BenchmarkError, match="ended with code 1") as caught:
        play_all([good, bad], tmp_path, 1)
    assert "Nothing" in caught.value.said
    assert list(RunFile(tmp_path).runs) == [good.digest()]


def test_ctrl_c_kills_the_processes_and_stores_nothing(tmp_path, monkeypatch):
    started = []
    popen = subprocess.Popen
    is_started = threading.Event()

    def start(*args, **kwargs):
        started.append(popen(*args, **kwargs))
        is_started.set()
        return started[-1]

    def press():
        assert is_started.wait(PATIENCE_S)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", start)
    task = make_task()
    endless = replace(task, settings=replace(task.settings, run=replace(task.settings.run, total_steps=10**9)))
    finger = threading.Thread(target=press)
    finger.start()
    with pytest.raises(KeyboardInterrupt):
        play_all([endless, make_task(1)], tmp_path, 1)
    finger.join()
    assert len(started) == 1
    # The interrupt may leave a thread that the pool does not wait for.
    assert started[0].wait(PATIENCE_S) == -signal.SIGKILL
    assert RunFile(tmp_path).runs == {}
