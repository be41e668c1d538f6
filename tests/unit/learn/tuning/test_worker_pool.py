"""Several candidates at once, each in a process of its own; the tests share few studies, as a process takes seconds."""

import multiprocessing
import os
import signal
from functools import partial

import msgspec
import pytest

from soulslab.errors import StudyError
from soulslab.learn.tuning.running import tune
from soulslab.learn.tuning.study_folder import StudyFolder
from soulslab.learn.tuning.trial import TrialStatus
from support.toys import register_toys


class Killer:
    """Kills one worker as soon as two are at it and something has been reported, then watches on."""

    def __init__(self):
        self.killed = None
        self.most = 0

    def __call__(self, progress):
        workers = multiprocessing.active_children()
        self.most = max(self.most, len(workers))
        if self.killed is None and len(workers) == 2 and progress.under_way > 0:
            self.killed = workers[0].pid
            os.kill(self.killed, signal.SIGKILL)


@pytest.fixture(autouse=True)
def no_process_is_left():
    yield
    assert not multiprocessing.active_children()


def test_two_processes_share_a_study_and_one_that_is_killed_costs_its_candidate_only(
    short, rates, tmp_path, counted, caplog
):
    killer = Killer()
    settings = msgspec.structs.replace(short, run=msgspec.structs.replace(short.run, total_steps=12_000))
    result = tune(settings, rates(3), tmp_path / "study", processes=2, prepare=register_toys, listener=killer)
    assert killer.most == 2
    assert counted(result, "complete") == 3
    assert not result.is_interrupted
    (killed,) = (row for row in result.rows if row.state is TrialStatus.KILLED)
    assert killed.is_retried
    assert killed.outcome.reason == "its process was killed (SIGKILL); out of memory?"
    assert any(row.number > killed.number and row.params == killed.params for row in result.rows)
    assert "killed: its process was killed" in caplog.text
    for row in result.rows:
        assert (StudyFolder(tmp_path / "study").trial(row.number) / "config.toml").exists()


def test_ctrl_c_stops_all_and_interrupted_candidates_are_queued_again(short, rates, tmp_path):
    # Long enough not to end meanwhile; the first report comes after a twentieth of it, and ends the study.
    long = msgspec.structs.replace(short, run=msgspec.structs.replace(short.run, total_steps=200_000, max_seconds=60.0))
    heard = []

    def interrupt(progress):
        if progress.under_way > 0 and not heard:
            heard.append(progress)
            os.kill(os.getpid(), signal.SIGINT)

    stopped = tune(long, rates(2), tmp_path / "study", processes=2, prepare=register_toys, listener=interrupt)
    assert stopped.is_interrupted
    assert [row.state for row in stopped.rows] == [TrialStatus.INTERRUPTED, TrialStatus.INTERRUPTED, None, None]
    rates_drawn = [row.params["learner.lr"] for row in stopped.rows]
    assert sorted(rates_drawn[2:]) == sorted(rates_drawn[:2])


def test_workers_that_cannot_start_are_reported(short, rates, tmp_path):
    with pytest.raises(StudyError, match=r"2 candidates in a row failed; .*its process ended with exit code 3"):
        tune(short, rates(9, max_failures=2), tmp_path / "study", processes=2, prepare=partial(os._exit, 3))
