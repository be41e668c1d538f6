"""Actor and learner in two real processes: if one stops, dies or comes back, nothing is lost or comes twice."""

import logging
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from msgspec.structs import replace

from soulslab.config import dump_settings
from soulslab.errors import ActorError, ChannelError
from soulslab.learn import process_lock as lock_module
from soulslab.learn.actors import actor_process as process_module
from soulslab.learn.actors.actor_status import ActorState, open_status
from soulslab.learn.actors.shared_memory import ACTOR_LOCK, find_memory_folder
from soulslab.learn.archive import read_archive
from soulslab.learn.checkpoint import CheckpointStore
from soulslab.learn.process_lock import is_held
from soulslab.learn.rainbow.rainbow_settings import QLearningSettings, RainbowRunSettings
from soulslab.learn.rainbow.remote_actor_program import main
from soulslab.learn.run_folder import StopReason
from soulslab.learn.settings import ReplaySettings
from soulslab.learn.telemetry import ActorStats
from soulslab.learn.train import train
from soulslab.learn.tuning.trial import remove_unneeded_files
from support.forked import ForkedPopen, fork_further_processes
from support.small_learner import SAVED, SmallLearner, assert_gapless, lives_of, small_settings
from support.waiting import wait_for

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and process groups of POSIX")


def status_of(run_dir):
    place = find_memory_folder(run_dir)
    return None if place is None or not (place / "status").exists() else open_status(place / "status").read()


def log_of(run_dir):
    return (run_dir / "actor.log").read_text()


def start_small_learner(run_dir):
    return ForkedPopen([sys.executable, "-m", "support.small_learner", str(run_dir)])


def kill(child):
    child.kill()
    child.wait()


@pytest.fixture(autouse=True)
def forked_actors(monkeypatch):
    """Actors that a learner in this process starts are forked; in training that is killed, all programs are real."""
    fork_further_processes(monkeypatch.setattr)


@pytest.fixture
def run_dir(tmp_path):
    """A folder for a run, of which nothing lives on after the test."""
    folder = tmp_path / "run"
    yield folder
    place = find_memory_folder(folder)
    if place is not None and is_held(place / ACTOR_LOCK):
        os.kill(status_of(folder).pid, signal.SIGKILL)
        wait_for(lambda: not is_held(place / ACTOR_LOCK), "the actor's end")
    if place is not None:
        for file in place.iterdir():
            file.unlink()
        place.rmdir()


def test_a_killed_actor_is_started_again_and_its_pushed_rows_are_kept(run_dir):
    learner = SmallLearner(run_dir)
    learner.run(lambda: len(learner.rows) >= 30)
    first = status_of(run_dir)
    assert first.state == ActorState.PLAYING
    assert os.getsid(first.pid) == first.pid  # Ctrl-C on our terminal does not reach it
    os.kill(first.pid, signal.SIGKILL)
    n_pushed = wait_for(lambda: not learner.playing._process.is_alive() and learner.playing._memory.rows.head)
    learner.take()
    assert len(learner.rows) == n_pushed
    learner.run(lambda: len(lives_of(learner.rows)) == 2 and len(learner.rows) >= n_pushed + 30)
    assert_gapless(learner.rows, n_lives=2)
    stats = learner.playing.stats(len(learner.rows), learner.version)
    assert (stats.n_restarts, stats.n_dropped) == (1, 0)
    assert stats.lateness_p99_ms is not None
    assert status_of(run_dir).pid != first.pid
    # Asked to stop, it ends in order; what it played until then is taken, and then nothing is left.
    learner.playing.finish()
    assert status_of(run_dir).state == ActorState.STOPPED
    learner.take()
    assert_gapless(learner.rows, n_lives=2)
    learner.save()
    place = find_memory_folder(run_dir)
    learner.playing.close()
    assert not place.exists()
    assert "the learner asked to stop" in log_of(run_dir)


def test_a_learner_that_is_killed_comes_back_and_gets_every_step_since_its_checkpoint_once(run_dir):
    for n_saved in (50, 100):
        child = start_small_learner(run_dir)
        try:
            wait_for(
                lambda: (run_dir / SAVED).exists() and len(read_archive(run_dir / SAVED)[0]["rows"]) >= n_saved,  # noqa: B023
                "steps that are saved",
            )
        finally:
            kill(child)
        n_played = status_of(run_dir).n_steps
        # The game goes on without a learner.
        wait_for(lambda: status_of(run_dir).n_steps > n_played + 20, "more steps")  # noqa: B023
    pid = status_of(run_dir).pid
    learner = SmallLearner(run_dir)
    assert len(learner.rows) >= 100
    learner.run(lambda: learner.playing._memory.status.read().weights_version == learner.version)
    n_found = status_of(run_dir).n_steps
    learner.run(lambda: len(learner.rows) >= n_found)
    assert_gapless(learner.rows, n_lives=1)
    assert (status_of(run_dir).pid, status_of(run_dir).n_starts) == (pid, 1)
    learner.playing.finish()
    learner.take()
    assert len(learner.rows) == status_of(run_dir).n_steps
    assert_gapless(learner.rows, n_lives=1)
    assert learner.n_results[0] == np.unique(learner.rows[learner.rows[:, 2] == 19], axis=0).shape[0]
    # Closed without a checkpoint, so what is in the memory waits for the next one.
    learner.playing.close()
    n_rows = len(learner.rows)
    again = SmallLearner(run_dir)
    again.take()
    assert len(again.rows) == n_rows
    assert_gapless(again.rows, n_lives=1)
    again.save()
    again.playing.close()


def test_an_actor_that_is_alone_ends_at_a_signal(run_dir):
    child = start_small_learner(run_dir)
    wait_for((run_dir / SAVED).exists, "steps that are saved")
    kill(child)
    place = find_memory_folder(run_dir)
    wait_for(lambda: "continuing for at most 600 s" in log_of(run_dir), "a line in the log")
    os.kill(status_of(run_dir).pid, signal.SIGTERM)
    wait_for(lambda: not is_held(place / ACTOR_LOCK), "the actor's end")
    assert "stopped by SIGTERM" in log_of(run_dir)
    assert status_of(run_dir).state == ActorState.STOPPED


def test_an_actor_that_fails_again_and_again_is_given_up_with_the_end_of_its_log(run_dir, monkeypatch):
    monkeypatch.setattr(process_module, "MAX_FAILURES", 1)
    learner = SmallLearner(run_dir, small_settings(env_id="toys/Nowhere-v0"))
    with pytest.raises(ActorError, match="ended with 1, 2 times within 10 minutes") as error:
        learner.run(lambda: False)
    assert "Namespace toys not found" in error.value.log_tail
    assert status_of(run_dir).state == ActorState.FAILED
    learner.playing.close()


def test_there_is_one_learner_and_one_actor(run_dir, monkeypatch, caplog):
    monkeypatch.setattr(lock_module, "WAIT_S", 0.05)
    learner = SmallLearner(run_dir)
    learner.run(lambda: len(learner.rows) > 0)
    with pytest.raises(ChannelError, match="is in use by a learner"):
        SmallLearner(run_dir)
    with caplog.at_level(logging.ERROR):
        assert main([str(run_dir)]) == 1
    assert "is in use by an actor" in caplog.text
    learner.playing.close()


def test_a_new_run_in_the_same_folder_ends_the_actor_of_the_old_one(run_dir):
    child = start_small_learner(run_dir)
    wait_for((run_dir / SAVED).exists, "steps that are saved")
    kill(child)
    (run_dir / SAVED).unlink()
    old = status_of(run_dir).pid
    learner = SmallLearner(run_dir)
    assert len(learner.rows) == 0
    learner.run(lambda: len(learner.rows) > 0)
    assert status_of(run_dir).pid != old
    assert_gapless(learner.rows, n_lives=1)
    learner.playing.close()


TRAINING = """
import sys
from pathlib import Path
from soulslab.config import load_settings
from soulslab.learn.train import train
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
folder = Path(sys.argv[1])
train(load_settings(RainbowSettings, folder / "settings.toml"), folder / "run")
"""


class Stats:
    """Keeps what is told about the actor."""

    def __init__(self):
        self.told = []

    def write(self, message):
        if isinstance(message, ActorStats):
            self.told.append(message)

    def close(self):
        pass


def test_training_is_killed_and_resumed(run_dir):
    settings = replace(
        small_settings(),
        learner=QLearningSettings(learning_starts=50, updates_per_step=0.5, batch_size=8, epsilon_decisions=100),
        replay=ReplaySettings(capacity=5000),
        run=RainbowRunSettings(
            total_steps=10_000, evaluate_every=0, checkpoint_every_s=0.5, actor="apart", actor_alone_s=600.0
        ),
    )
    run_dir.parent.mkdir(exist_ok=True)
    (run_dir.parent / "settings.toml").write_text(dump_settings(settings))
    child = subprocess.Popen([sys.executable, "-c", TRAINING, str(run_dir.parent)])
    store = CheckpointStore(run_dir / "checkpoints", 3)
    try:
        wait_for(lambda: any(int(path.stem[5:]) > 100 for path in store.paths()), "checkpoints")
    finally:
        kill(child)
    n_steps = status_of(run_dir).n_steps
    ended = replace(settings, run=replace(settings.run, total_steps=n_steps + 300))
    stats = Stats()
    result = train(ended, run_dir, resume=True, sinks=[stats])
    assert result.reason == StopReason.COMPLETED
    assert result.env_steps == n_steps + 300
    assert result.n_fights == result.env_steps // 20
    assert stats.told[-1].n_restarts == stats.told[-1].n_dropped == 0
    assert log_of(run_dir).count("INFO playing") == 1  # it played on
    assert find_memory_folder(run_dir) is None


def test_a_completed_run_continues_without_a_warning_of_lost_data(run_dir, caplog):
    settings = small_settings()
    for total_steps, resume in ((100, False), (200, True)):
        run = replace(settings.run, total_steps=total_steps, evaluate_every=0)
        result = train(replace(settings, run=run), run_dir, resume=resume)
        assert result.env_steps == total_steps
    assert "lost" not in caplog.text
    assert find_memory_folder(run_dir) is None


def test_total_steps_holds_for_a_remote_actor_that_is_ahead_of_the_learner(run_dir):
    class Slow(Stats):
        """Delays the learner, so that the actor takes many steps between two iterations."""

        def write(self, message):
            super().write(message)
            time.sleep(0.2)

    settings = small_settings()
    run = replace(settings.run, total_steps=310, evaluate_every=0, checkpoint_every_s=0.0)
    result = train(replace(settings, run=run), run_dir, sinks=[Slow()])
    assert result.reason == StopReason.COMPLETED
    assert result.env_steps == 310
    assert result.n_fights == 310 // 20
    assert find_memory_folder(run_dir) is None


def test_a_candidate_of_a_study_leaves_no_actor_and_no_memory_however_it_ends(tmp_path):
    run_dir = tmp_path / "seed_0"
    child = start_small_learner(run_dir)
    wait_for((run_dir / SAVED).exists, "steps that are saved")
    kill(child)
    place = find_memory_folder(run_dir)
    assert is_held(place / ACTOR_LOCK)
    remove_unneeded_files(tmp_path)
    assert not is_held(place / ACTOR_LOCK)
    assert find_memory_folder(run_dir) is None
    assert [path.name for path in run_dir.iterdir()] == ["config.toml"]
