import io
import os
import signal
import sys

import gymnasium
import msgspec
import pytest
from rich.console import Console

from soulslab.errors import ConfigError, MissingDependencyError, StudyError
from soulslab.learn.settings import EnvSettings
from soulslab.learn.sinks import PROGRESS_NAME, read_json_lines
from soulslab.learn.train import train
from soulslab.learn.training import load_run_settings
from soulslab.learn.tuning.running import tune
from soulslab.learn.tuning.study_folder import BEST_NAME, PICTURE_NAME, StudyFolder
from soulslab.learn.tuning.study_report import study_report, summary
from soulslab.learn.tuning.trial import TrialStatus

PNG = b"\x89PNG\r\n\x1a\n"


def shown(report):
    console = Console(file=io.StringIO(), width=200)
    console.print(report)
    return console.file.getvalue()


class Interrupter:
    """Hears where a study stands, and sends this process a signal once so many candidates are done."""

    def __init__(self, n_done, number=signal.SIGINT):
        self.heard = []
        self._n_done = n_done
        self._number = number

    def __call__(self, progress):
        self.heard.append(progress)
        if progress.n_done == self._n_done and progress.under_way > 0:
            self._n_done = -1
            os.kill(os.getpid(), self._number)


def test_a_study_finds_the_better_of_two_settings(short, rates, tmp_path, counted):
    heard = []
    result = tune(short, rates(5), tmp_path / "study", listener=heard.append)
    assert counted(result, "complete") == 5
    assert not result.is_interrupted
    assert result.best.params == {"learner.lr": "0.003"}
    assert result.best.value > 0.8
    assert result.best.outcome.env_steps >= short.run.total_steps
    by_rate = {rate: [r.value for r in result.rows if r.params["learner.lr"] == rate] for rate in ("0.003", "1e-09")}
    assert min(by_rate["0.003"]) > max(by_rate["1e-09"])
    assert [result.rows[0].is_base, result.rows[0].params] == [True, {"learner.lr": "0.003"}]
    assert (heard[0].n_done, heard[-1].n_done, heard[-1].n_trials) == (0, 5, 5)
    assert heard[-1].best == result.best.value
    best = load_run_settings(tmp_path / "study" / BEST_NAME)
    assert (best.learner.lr, best.run.total_steps, best.env) == (3e-3, 8_000, short.env)
    assert (tmp_path / "study" / PICTURE_NAME).read_bytes().startswith(PNG)
    assert summary(result) == "5 of 5 candidates tried: 5 complete"
    report = shown(study_report(result))
    assert "0 (config)" in report
    assert "Pruned" not in report
    assert "Importances need 8 candidates" in report


def test_the_best_config_trains_to_what_the_study_says(short, rates, tmp_path):
    result = tune(short, rates(1, window=1), tmp_path / "study")
    again = train(load_run_settings(tmp_path / "study" / BEST_NAME), tmp_path / "again")
    assert again.win_rate == result.best.value


def test_only_what_is_worth_keeping_of_a_run_is_kept(brief, rates, tmp_path):
    tune(brief, rates(1, seeds=[4, 5]), tmp_path / "study")
    trial = StudyFolder(tmp_path / "study").trial(0)
    assert {path.name for path in trial.iterdir()} == {"config.toml", "seed_4", "seed_5"}
    for run in trial.glob("seed_*"):
        assert {path.name for path in run.iterdir()} == {"config.toml", "policy.safetensors", "progress.jsonl"}


def test_a_candidate_is_worth_the_mean_over_its_seeds(short, rates, tmp_path):
    result = tune(short, rates(1, seeds=[4, 5]), tmp_path / "study")
    outcome = result.best.outcome
    assert len(set(outcome.values)) == 2
    assert outcome.value == pytest.approx(sum(outcome.values) / 2)
    assert outcome.env_steps >= 2 * short.run.total_steps


def test_hopeless_candidates_end_early(short, rates, tmp_path, counted):
    search = "learner.lr=[3e-3, 1e-9, 1e-8, 1e-7, 1e-6]"
    result = tune(short, rates(8, search, pruner="median", startup_trials=1, warmup=0.3), tmp_path / "study")
    assert counted(result, "pruned") >= 2
    pruned = [row for row in result.rows if row.state is TrialStatus.PRUNED]
    for row in pruned:
        assert row.outcome.reason.startswith("worse than the median at ")
        assert row.params["learner.lr"] != "0.003"
        assert row.value is not None
        assert row.outcome.env_steps < short.run.total_steps
        # Nothing was saved for the end, as it is for an error: a checkpoint with a replay buffer takes its time.
        run = StudyFolder(tmp_path / "study").trial(row.number) / "seed_0"
        assert not (run / "policy.safetensors").exists()
        *_, last = read_json_lines(run / PROGRESS_NAME)
        assert (last.reason, last.env_steps) == ("pruned", row.outcome.env_steps)
    assert result.best.params == {"learner.lr": "0.003"}


def test_halving_ends_candidates_too(short, rates, tmp_path, counted):
    search = "learner.lr=[3e-3, 1e-9, 1e-8, 1e-7, 1e-6]"
    result = tune(short, rates(8, search, pruner="halving", warmup=0.1), tmp_path / "study")
    assert counted(result, "pruned") >= 2
    assert result.best.params == {"learner.lr": "0.003"}


def test_the_fewest_decisions_win_where_they_are_the_measure(short, rates, tmp_path):
    result = tune(short, rates(4, objective="decisions_to_80"), tmp_path / "study")
    worst = max(result.rows, key=lambda row: row.value)
    assert result.best.params == {"learner.lr": "0.003"}
    assert result.best.value < short.run.total_steps < worst.value
    assert result.best.outcome.env_steps < short.run.total_steps  # the goal is reached, so the run is over
    assert load_run_settings(tmp_path / "study" / BEST_NAME).run.stop_win_rate == short.run.stop_win_rate


def test_an_interrupted_study_continues(brief, rates, tmp_path, counted):
    handlers = [signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)]
    stopped = tune(brief, rates(4), tmp_path / "study", listener=Interrupter(2))
    assert [signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)] == handlers
    assert stopped.is_interrupted
    assert counted(stopped, "complete") == 2
    (cut_off,) = (row for row in stopped.rows if row.state is TrialStatus.INTERRUPTED)
    assert cut_off.is_retried
    whole = tune(brief, rates(4), tmp_path / "study")
    assert not whole.is_interrupted
    assert counted(whole, "complete") == 4
    assert next(row for row in whole.rows if row.number > cut_off.number).params == cut_off.params
    before = {row.number: (row.params, row.value) for row in stopped.rows if row.state is TrialStatus.COMPLETE}
    assert before.items() <= {row.number: (row.params, row.value) for row in whole.rows}.items()


def test_a_signal_before_the_training_of_a_candidate_ends_the_study(brief, rates, tmp_path, counted, monkeypatch):
    def train_after_signal(*args, **kwargs):
        os.kill(os.getpid(), signal.SIGINT)
        return train(*args, **kwargs)

    monkeypatch.setattr("soulslab.learn.train.train", train_after_signal)
    stopped = tune(brief, rates(4), tmp_path / "study")
    assert stopped.is_interrupted
    assert stopped.rows[0].state is TrialStatus.INTERRUPTED
    assert counted(stopped, "complete") == 0


def test_a_complete_study_continues_only_with_more_candidates(brief, rates, tmp_path, counted):
    first = tune(brief, rates(2), tmp_path / "study")
    journal = StudyFolder(tmp_path / "study").journal.read_bytes()
    assert tune(brief, rates(2), tmp_path / "study").rows == first.rows
    assert StudyFolder(tmp_path / "study").journal.read_bytes() == journal
    assert counted(tune(brief, rates(3), tmp_path / "study"), "complete") == 3


def cut_off(journal, n_events):
    """Leave what kill -9 would have left so many events ago: half a line, and the lock."""
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-n_events]) + lines[-n_events][:20])
    journal.with_name(f"{journal.name}.lock").touch()


def test_a_study_whose_process_was_killed_continues(brief, rates, tmp_path, counted):
    tune(brief, rates(3), tmp_path / "study")
    cut_off(StudyFolder(tmp_path / "study").journal, n_events=2)
    result = tune(brief, rates(3), tmp_path / "study")
    assert counted(result, "complete") == 3
    assert [(row.state, row.is_retried, row.outcome is None) for row in result.rows] == [
        (TrialStatus.COMPLETE, False, False),
        (TrialStatus.COMPLETE, False, False),
        (TrialStatus.KILLED, True, True),
        (TrialStatus.COMPLETE, False, False),
    ]
    assert result.rows[3].params == result.rows[2].params
    assert "the study's own process ended" in shown(study_report(result))


def test_a_candidate_that_was_over_when_the_process_died_is_not_trained_again(brief, rates, tmp_path):
    first = tune(brief, rates(3), tmp_path / "study")
    cut_off(StudyFolder(tmp_path / "study").journal, n_events=1)
    assert tune(brief, rates(3), tmp_path / "study").rows == first.rows


def test_one_that_fails_does_not_end_the_study(short, rates, tmp_path, counted, caplog):
    search = "env.options.nan_at=[-1, 40]"
    result = tune(short, rates(4, search, max_failures=4), tmp_path / "study")
    assert counted(result, "complete") + counted(result, "failed") == 4
    failed = [row for row in result.rows if row.state is TrialStatus.FAILED]
    assert failed
    assert result.best.params == {"env.options.nan_at": "-1"}
    for row in failed:
        assert row.outcome.reason.startswith("NonFiniteError: reward of environment 2")
        trace = StudyFolder(tmp_path / "study").trial(row.number) / "error.txt"
        assert "NonFiniteError" in trace.read_text()
    assert "failed: NonFiniteError" in caplog.text


def test_too_many_failures_in_a_row_end_it(short, rates, tmp_path):
    search = "env.options.nan_at=[1, 2]"
    with pytest.raises(StudyError, match=r"study: 2 candidates in a row failed; the last, 1: NonFiniteError"):
        tune(short, rates(9, search, max_failures=2), tmp_path / "study")


def test_failures_that_end_a_study_keep_its_best_candidate(short, rates, tmp_path):
    with pytest.raises(StudyError, match="1 candidates in a row failed"):
        tune(short, rates(9, "env.options.nan_at=[40, -1]", max_failures=1), tmp_path / "study")
    assert load_run_settings(tmp_path / "study" / BEST_NAME).env.options["nan_at"] == -1
    assert (tmp_path / "study" / PICTURE_NAME).read_bytes().startswith(PNG)


def test_a_run_without_a_win_rate_is_reported(rates, tmp_path, short):
    settings = msgspec.structs.replace(short, env=EnvSettings(id="toys/Lights-v0", n_envs=16))
    with pytest.raises(StudyError, match=r"nothing was measured in \d+ decisions .*choose an objective"):
        tune(settings, rates(1, max_failures=1), tmp_path / "study")
    assert tune(settings, rates(1, objective="return"), tmp_path / "returns").best.value > 0.2


def test_another_study_is_refused(brief, rates, tmp_path):
    folder = tmp_path / "study"
    tune(brief, rates(1), folder)
    other = msgspec.structs.replace(brief, learner=msgspec.structs.replace(brief.learner, gamma=0.5))
    with pytest.raises(StudyError, match=r"holds a study with learner.gamma = 0.99, but now it is 0.5; resume it with"):
        tune(other, rates(1), folder)
    with pytest.raises(StudyError, match=r"with study.objective = 'win_rate', but now it is 'return'"):
        tune(brief, rates(1, objective="return"), folder)
    with pytest.raises(StudyError, match=r"with search.learner.clip.low = not set, but now it is 0.1"):
        tune(brief, rates(1, "learner.clip=0.1..0.3"), folder)


def test_a_folder_of_something_else_is_refused(short, rates, tmp_path):
    (tmp_path / "photo.png").touch()
    with pytest.raises(StudyError, match=r"holds files that are not a study; choose an empty folder"):
        tune(short, rates(1), tmp_path)
    with pytest.raises(StudyError, match=r"holds no study; start one with --config and --search"):
        StudyFolder(tmp_path).load()


def test_a_folder_in_use_is_refused(brief, rates, tmp_path):
    with StudyFolder(tmp_path / "study") as held:
        held.take(brief, rates(1))
        with pytest.raises(StudyError, match=r"is in use by another soulslab tune \(process \d+ on .*--processes"):
            tune(brief, rates(1), tmp_path / "study")
    assert tune(brief, rates(1), tmp_path / "study").best


def test_a_study_that_cannot_begin_leaves_nothing_behind(short, rates, tmp_path):
    with pytest.raises(ConfigError, match=r"unknown setting"):
        tune(short, rates(1, "learner.lrr=1e-4..1e-2"), tmp_path / "study")
    wrong = msgspec.structs.replace(short, env=msgspec.structs.replace(short.env, id="toys/Nothing-v0"))
    with pytest.raises(gymnasium.error.NameNotFound):
        tune(wrong, rates(1), tmp_path / "study")
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize(("package", "extra"), [("optuna", "tune"), ("matplotlib", "learn")])
def test_what_is_not_installed_is_missed_before_anything_is_written(
    short, rates, tmp_path, monkeypatch, package, extra
):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError, match=rf"pip install 'soulslab\[{extra}\]'"):
        tune(short, rates(2), tmp_path / "study")
    assert not (tmp_path / "study").exists()
