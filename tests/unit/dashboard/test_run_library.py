"""The runs below a folder."""

import errno
import os

import pytest

from soulslab.dashboard import run_library
from soulslab.dashboard.run_library import FLEET_NAME, RunLibrary, RunState
from soulslab.dashboard.run_log import read_ends
from soulslab.errors import ConfigError
from soulslab.learn.process_lock import ProcessLock
from soulslab.learn.telemetry import TrainStarted
from soulslab.learn.tuning.study_folder import STUDY_NAME
from support.run_folders import START_S, evaluated, finished, line, progress, started, write_run


def library(root):
    return RunLibrary(root)


def test_missing_root_has_no_runs(tmp_path):
    assert library(tmp_path / "none").summaries() == []


def test_runs_are_found_in_folders_and_studies(tmp_path):
    for name in ("a", "deep/b", "study/trials/0007/seed_0", ".hidden/c", "x/x/x/x/x/too_deep"):
        write_run(tmp_path / name, [started()])
    (tmp_path / "no_run").mkdir()
    assert library(tmp_path).run_ids() == ["a", "deep/b", "study/trials/0007/seed_0"]


def test_folders_that_may_not_be_examined_have_no_runs(tmp_path, monkeypatch):
    for name in ("a", "private/b", "c"):
        write_run(tmp_path / name, [started()])
    (tmp_path / "linked").symlink_to(tmp_path / "private" / "b")
    forbidden = (str(tmp_path / "private") + os.sep, str(tmp_path / "linked"))
    stat = os.stat

    def stat_of_another_user(path, *arguments, **options):
        if str(path).startswith(forbidden):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return stat(path, *arguments, **options)

    monkeypatch.setattr(os, "stat", stat_of_another_user)
    assert library(tmp_path).run_ids() == ["a", "c"]


def test_root_may_be_a_run(tmp_path):
    write_run(tmp_path / "mine", [started(), progress(10)])
    found = library(tmp_path / "mine")
    assert found.run_ids() == ["mine"]
    assert found.folder("mine") == tmp_path / "mine"
    assert found.summary("mine").env_steps == 10


def test_a_run_is_found_as_soon_as_it_has_begun(tmp_path):
    write_run(tmp_path / "first", [started()])
    found = library(tmp_path)
    assert found.run_ids() == ["first"]
    write_run(tmp_path / "second", [started()])
    assert found.folder("second") == tmp_path / "second"


@pytest.mark.parametrize("run_id", ["..", "../a", "/etc", "a/../../b", "", "missing"])
def test_paths_outside_of_the_root_are_no_runs(tmp_path, run_id):
    write_run(tmp_path / "root" / "a", [started()])
    write_run(tmp_path / "b", [started()])
    assert library(tmp_path / "root").folder(run_id) is None


def state(tmp_path, messages):
    write_run(tmp_path / "run", messages)
    return library(tmp_path).summary("run").state


def test_states_of_runs_without_a_process(tmp_path):
    assert state(tmp_path, []) is RunState.NEW
    assert state(tmp_path, [started(), progress(1)]) is RunState.FAILED
    assert state(tmp_path, [started(), finished(1)]) is RunState.FINISHED
    assert state(tmp_path, [started(), finished(1, "interrupted")]) is RunState.STOPPED
    assert state(tmp_path, [started(), finished(1, "stop requested")]) is RunState.STOPPED
    assert state(tmp_path, [started(), finished(1, "pruned")]) is RunState.PRUNED
    assert state(tmp_path, [started(), finished(1), started(1, is_resumed=True)]) is RunState.FAILED


def test_states_of_runs_with_a_process(tmp_path, monkeypatch):
    write_run(tmp_path / "run", [started(), progress(1)])
    found = library(tmp_path)
    with ProcessLock(tmp_path / "run" / "run.lock", "a test"):
        monkeypatch.setattr(run_library.time, "time", lambda: START_S + 60.0)
        assert found.summary("run").state is RunState.RUNNING
        monkeypatch.setattr(run_library.time, "time", lambda: START_S + 200.0)
        assert found.summary("run").state is RunState.STALE
    assert found.summary("run").state is RunState.FAILED


def test_summary_has_the_numbers_of_the_last_messages(tmp_path):
    write_run(tmp_path / "run", [started(), progress(360, 0.25, n_fights=20), evaluated(360, 0.8), progress(720, 0.5)])
    found = library(tmp_path).summary("run")
    assert (found.env_steps, found.total_steps, found.env_id) == (720, 1000, "toys/Corridor-v0")
    assert (found.win_rate, found.low, found.high) == pytest.approx((80.0, 70.0, 90.0))
    assert found.is_evaluated
    assert found.game_hours == pytest.approx(0.02)
    assert found.sparkline == (25.0, 50.0)


def test_total_of_a_long_resumed_run_is_the_newest_one(tmp_path):
    reports = [progress(step, total_steps=1000 if step <= 1000 else 6000) for step in range(1, 6000)]
    messages = [started(), *reports[:1000], finished(1000), started(1000, is_resumed=True), *reports[1000:]]
    path = write_run(tmp_path / "run", messages)
    # The resume lies between two of the places that are read.
    assert not any(isinstance(each, TrainStarted) and each.is_resumed for each, _ in read_ends(path))
    assert library(tmp_path).summary("run").total_steps == 6000


def test_decision_time_is_that_of_the_settings(tmp_path):
    write_run(tmp_path / "run", [started(), progress(3600)], settings="[env.options]\nstep_ms = 50\n")
    found = library(tmp_path)
    assert found.summary("run").game_hours == pytest.approx(0.05)
    assert found.settings("run") == {"env.options.step_ms": 50}


def test_summary_follows_the_file(tmp_path):
    path = write_run(tmp_path / "run", [started(), progress(100)])
    found = library(tmp_path)
    assert found.summary("run").env_steps == 100
    with path.open("ab") as file:
        file.write(line(progress(200)))
    assert found.summary("run").env_steps == 200
    os.truncate(path, 0)
    assert found.summary("run").env_steps == 0


def test_malformed_files_give_an_empty_summary(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "progress.jsonl").write_bytes(b"\x00\xff" * 5000)
    (folder / "config.toml").write_text("not = [toml")
    found = library(tmp_path)
    assert found.summary("run").env_steps == 0
    assert found.settings("run") == {}


def test_newest_run_comes_first(tmp_path):
    write_run(tmp_path / "old", [started()])
    write_run(tmp_path / "new", [started(), progress(1), progress(2)])
    assert [each.run_id for each in library(tmp_path).summaries()] == ["new", "old"]


def test_trials_have_no_controls_and_fleets_cannot_be_resumed_alone(tmp_path):
    trial, fleet = "study/trials/0007/seed_0", "fleet_run"
    for run_id in (trial, fleet, "alone"):
        write_run(tmp_path / run_id, [started(), progress(1), finished(1, "interrupted")])
    (tmp_path / "study" / STUDY_NAME).touch()
    (tmp_path / fleet / FLEET_NAME).mkdir()
    found = library(tmp_path)
    assert found.controls("alone") == (False, True, "")
    for run_id, reason in ((trial, "belongs to the study study"), (fleet, "soulslab fleet learn --resume")):
        assert reason in found.controls(run_id).reason
        with pytest.raises(ConfigError, match=reason):
            found.resume(run_id)
    with ProcessLock(tmp_path / trial / "run.lock", "a test"), ProcessLock(tmp_path / fleet / "run.lock", "a test"):
        assert not found.controls(trial).can_stop
        assert found.controls(fleet) == (True, False, "")
