import logging
import math
import os
import shutil
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import gymnasium
import msgspec
import numpy as np
import pytest

from soulslab.config import load_settings
from soulslab.errors import (
    ChannelError,
    CheckpointError,
    ConfigError,
    DivergedError,
    EnvironmentUsageError,
    IncompatibleCheckpointError,
    NonFiniteError,
)
from soulslab.learn.archive import read_archive, write_archive
from soulslab.learn.evaluate import EvaluationSettings, evaluate
from soulslab.learn.players import load_player
from soulslab.learn.process_lock import ProcessLock, is_held
from soulslab.learn.run_folder import (
    BEST_POLICY_NAME,
    CHECKPOINTS_NAME,
    CONFIG_NAME,
    LOCK_NAME,
    POLICY_NAME,
    RunFolder,
    StopReason,
)
from soulslab.learn.settings import TrainSettings
from soulslab.learn.sinks import run_sinks
from soulslab.learn.telemetry import CheckpointSaved, TrainFinished, TrainProgress, TrainStarted
from soulslab.learn.train import train
from support.forked import ForkedPopen
from support.waiting import PATIENCE_S

TESTS = Path(__file__).parents[2]

# A fresh process that resumes runs; arguments: folder of the tests, and the folders of the runs.
RESUME = """
import sys
from contextlib import closing
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from support.toys import register_toys
from soulslab.config import load_settings
from soulslab.learn.settings import TrainSettings
from soulslab.learn.train import train
register_toys()
for run_dir in map(Path, sys.argv[2:]):
    settings = load_settings(TrainSettings, run_dir / "config.toml")
    print(train(settings, run_dir, resume=True).reason.value)
"""


class Listener:
    """Keeps the messages; after ``stop_after`` updates it sends this process a signal."""

    def __init__(self, stop_after=math.inf, number=signal.SIGTERM):
        self.messages = []
        self.n_closed = 0
        self._stop_after = stop_after
        self._number = number

    def write(self, message):
        self.messages.append(message)
        if len(self.of(TrainProgress)) == self._stop_after and isinstance(message, TrainProgress):
            os.kill(os.getpid(), self._number)

    def close(self):
        self.n_closed += 1

    def of(self, kind):
        return [message for message in self.messages if isinstance(message, kind)]


def with_run(settings, **changes):
    return msgspec.structs.replace(settings, run=msgspec.structs.replace(settings.run, **changes))


def newest(run_dir):
    return read_archive(sorted((run_dir / "checkpoints").iterdir())[-1])


def resume_in_fresh_process(*run_dirs):
    command = [sys.executable, "-c", RESUME, str(TESTS), *map(str, run_dirs)]
    with ForkedPopen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    return out.split()


def check_same_tensors(run_dir, other_dir):
    (expected, _), (found, _) = newest(run_dir), newest(other_dir)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].tobytes() == tensor.tobytes(), name


def test_stopped_runs_are_resumed_bit_for_bit_by_a_fresh_process(corridor, tmp_path):
    class Evaluating(Listener):
        def write(self, message):
            super().write(message)
            if isinstance(message, CheckpointSaved) and len(self.of(CheckpointSaved)) == 4:
                played = EvaluationSettings(env_id="toys/Corridor-v0", n_fights=4)
                evaluate(load_player(Path(message.path)), played)

    # With this learning rate the biases become denormal, unless the processor flushes such results to zero.
    learner = msgspec.structs.replace(corridor.learner, lr=1e-40, lr_end=1e-40)
    denormal = with_run(msgspec.structs.replace(corridor, learner=learner), checkpoint_every_s=0.0, total_steps=15_000)
    train(denormal, tmp_path / "denormal", sinks=[Evaluating()])
    train(denormal, tmp_path / "stopped", sinks=[Evaluating(stop_after=9)])
    whole = train(corridor, tmp_path / "whole")
    handlers = [signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)]
    signals = {"sigterm": signal.SIGTERM, "sigint": signal.SIGINT}
    for name, number in signals.items():
        stopped = train(corridor, tmp_path / name, sinks=[Listener(stop_after=9, number=number)])
        assert [signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)] == handlers
        assert stopped.reason is StopReason.INTERRUPTED
        assert 0 < stopped.env_steps < whole.env_steps
    resumed = [tmp_path / name for name in ("stopped", *signals)]
    assert resume_in_fresh_process(*resumed) == ["completed"] * len(resumed)
    check_same_tensors(tmp_path / "denormal", tmp_path / "stopped")
    for name in signals:
        check_same_tensors(tmp_path / "whole", tmp_path / name)
        steps = [[m["env_steps"] for m in newest(tmp_path / of)[1]["milestones"]] for of in ("whole", name)]
        assert steps[0] == steps[1]


def test_a_second_interrupt_ends_the_run_at_once(corridor, tmp_path):
    class Impatient(Listener):
        def write(self, message):
            super().write(message)
            if isinstance(message, TrainProgress):
                os.kill(os.getpid(), signal.SIGINT)
                os.kill(os.getpid(), signal.SIGINT)

    listener = Impatient()
    with pytest.raises(KeyboardInterrupt):
        train(corridor, tmp_path / "run", sinks=[listener])
    assert listener.n_closed == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_damaged_checkpoint_is_passed_over(corridor, tmp_path, caplog):
    run_dir = tmp_path / "run"
    train(with_run(corridor, total_steps=10_000, checkpoint_every_s=0.0), run_dir)
    *_, older, damaged = sorted((run_dir / "checkpoints").iterdir())
    damaged.write_bytes(damaged.read_bytes()[:1000])
    listener = Listener()
    with caplog.at_level(logging.WARNING):
        result = train(with_run(corridor, total_steps=10_000), run_dir, resume=True, sinks=[listener])
    assert str(damaged) in caplog.text
    (started,) = listener.of(TrainStarted)
    assert started.is_resumed
    assert f"{started.env_steps:015d}" in older.name
    assert result.env_steps >= 10_000
    assert newest(run_dir)[0]["collector/env_steps"] == result.env_steps


def test_an_environment_without_state_continues_with_new_episodes(corridor, tmp_path, caplog):
    settings = msgspec.structs.replace(
        corridor, env=msgspec.structs.replace(corridor.env, id="toys/Lights-v0", n_envs=4)
    )
    train(with_run(settings, total_steps=200), tmp_path / "run")
    with caplog.at_level(logging.INFO):
        result = train(with_run(settings, total_steps=400), tmp_path / "run", resume=True)
    assert "new episodes start" in caplog.text
    assert result.env_steps >= 400


def test_a_run_from_pixels_can_be_resumed(dot, tmp_path):
    train(with_run(dot, total_steps=300), tmp_path / "run")
    assert train(with_run(dot, total_steps=600), tmp_path / "run", resume=True).env_steps >= 600


def test_messages_describe_the_whole_run(corridor, tmp_path):
    listener = Listener()
    result = train(with_run(corridor, total_steps=10_000), tmp_path / "run", sinks=[listener])
    progress = listener.of(TrainProgress)
    (finished,) = listener.of(TrainFinished)
    assert isinstance(listener.messages[0], TrainStarted)
    assert listener.messages[-1] is finished
    assert listener.n_closed == 1
    assert [p.env_steps for p in progress] == sorted(p.env_steps for p in progress)
    assert progress[-1].env_steps == finished.env_steps == result.env_steps
    assert progress[-1].win_rate == result.win_rate


def test_a_checkpoint_holds_the_policy_that_was_kept_then(corridor, tmp_path):
    result = train(with_run(corridor, total_steps=3000), tmp_path / "run")
    last = load_player(sorted((tmp_path / "run" / "checkpoints").iterdir())[-1])
    kept = load_player(result.policy_path)
    assert last.header == kept.header
    assert all((last.state()[name] == array).all() for name, array in kept.state().items())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"stop_win_rate": 0.6}, StopReason.WIN_RATE), ({"max_seconds": 1e-9}, StopReason.TIME)],
)
def test_other_reasons_to_stop(corridor, tmp_path, changes, reason):
    assert train(with_run(corridor, **changes), tmp_path / "run").reason is reason


def test_the_same_seed_gives_the_same_policy_and_another_a_different_one(corridor, tmp_path):
    weights = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        train(with_run(corridor, total_steps=3000, seed=seed), tmp_path / name)
        weights.append(newest(tmp_path / name)[0]["policy/network/actor.weight"])
    assert weights[0].tobytes() == weights[1].tobytes()
    assert not np.array_equal(weights[0], weights[2])


def test_a_not_finite_reward_is_located_and_the_learner_saved_first(corridor, tmp_path):
    # The 40th step is the 8th of the third rollout, so two updates are worth keeping.
    with pytest.raises(NonFiniteError, match=r"reward of environment 2 at step \d+ .*\(nan\)") as caught:
        train(corridor, tmp_path / "run", env_options={"nan_at": 40})
    assert caught.value.env_index == 2
    tensors, _ = newest(tmp_path / "run")
    assert tensors["learner/adam/0/step"] == 2 * corridor.learner.n_epochs * 4
    assert all(np.isfinite(t).all() for name, t in tensors.items() if name.startswith("policy/"))
    assert not any(name.startswith("env/") for name in tensors)


def test_a_learner_that_has_diverged_is_not_saved(corridor, tmp_path):
    # A loss beyond the greatest number of 32 bits.
    learner = msgspec.structs.replace(corridor.learner, value_coef=1e39)
    with pytest.raises(DivergedError, match=r"has diverged after \d+ decisions .*smaller learner\.lr") as caught:
        train(msgspec.structs.replace(corridor, learner=learner), tmp_path / "run")
    assert caught.value.env_steps > 0
    assert not list((tmp_path / "run").glob("**/*.safetensors"))


def pay_for_the_middle(cell):
    return 0.1 if cell == 3 else 0.0


def test_a_reward_function_is_passed_from_python_and_asked_for_on_resuming(corridor, tmp_path):
    run_dir = tmp_path / "run"
    options = {"reward": pay_for_the_middle}
    train(with_run(corridor, total_steps=2000), run_dir, env_options=options)
    stored = load_settings(TrainSettings, run_dir / "config.toml")
    assert "pay_for_the_middle" in stored.env.options["reward"]
    resumed = with_run(stored, total_steps=4000)
    with pytest.raises(ConfigError, match=r"env.options.reward: is the Python function"):
        train(resumed, run_dir, resume=True)
    assert train(resumed, run_dir, resume=True, env_options=options).env_steps >= 4000


def test_a_folder_that_holds_a_run_is_not_overwritten(corridor, tmp_path):
    train(with_run(corridor, total_steps=1000), tmp_path / "run")
    listener = Listener()
    with pytest.raises(CheckpointError, match="already holds a run"):
        train(corridor, tmp_path / "run", sinks=[listener])
    assert listener.n_closed == 1


@pytest.mark.parametrize("name", [POLICY_NAME, BEST_POLICY_NAME, CONFIG_NAME])
def test_files_of_a_folder_without_a_run_are_not_overwritten(corridor, tmp_path, name):
    (tmp_path / name).write_bytes(b"of something else")
    with pytest.raises(CheckpointError, match=f"already holds {name}, but no checkpoint"):
        train(with_run(corridor, total_steps=1000), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes() == b"of something else"


def test_the_policy_of_a_run_without_its_checkpoints_is_not_overwritten(corridor, tmp_path):
    short = with_run(corridor, total_steps=1000)
    train(short, tmp_path)
    shutil.rmtree(tmp_path / CHECKPOINTS_NAME)
    trained = (tmp_path / POLICY_NAME).read_bytes()
    with pytest.raises(CheckpointError, match=f"already holds {POLICY_NAME}, but no checkpoint"):
        train(short, tmp_path)
    assert (tmp_path / POLICY_NAME).read_bytes() == trained


def test_a_run_that_ended_before_its_first_checkpoint_is_started_again(corridor, tmp_path):
    with closing(RunFolder(tmp_path, corridor)) as folder:
        folder.begin()
    (tmp_path / BEST_POLICY_NAME).write_bytes(b"of an early evaluation")
    assert train(with_run(corridor, total_steps=1000), tmp_path).env_steps >= 1000


def test_one_process_at_a_time_learns_in_a_folder(corridor, tmp_path):
    run_dir = tmp_path / "run"
    train(with_run(corridor, total_steps=500), run_dir)
    kept = sorted(path.name for path in (run_dir / "checkpoints").iterdir())
    longer = with_run(corridor, total_steps=1000)
    with (
        ProcessLock(run_dir / LOCK_NAME, "another"),
        pytest.raises(ChannelError, match=rf"run.lock: is in use by another soulslab train \(process {os.getpid()} "),
    ):
        train(longer, run_dir, resume=True)
    assert sorted(path.name for path in (run_dir / "checkpoints").iterdir()) == kept
    assert train(longer, run_dir, resume=True).env_steps >= 1000


def test_a_run_that_is_still_running_is_not_called_damaged(corridor, tmp_path):
    run_dir = tmp_path / "run"
    train(with_run(corridor, total_steps=500), run_dir)
    for path in (run_dir / "checkpoints").iterdir():
        path.write_bytes(path.read_bytes()[:100])  # as if it was being written
    with ProcessLock(run_dir / LOCK_NAME, "another"), pytest.raises(ChannelError, match="is in use by"):
        train(corridor, run_dir, resume=True)
    with pytest.raises(CheckpointError, match="is intact"):
        train(corridor, run_dir, resume=True)
    assert not is_held(run_dir / LOCK_NAME)


def test_a_run_that_has_no_checkpoint_yet_is_locked_for_a_second_one(corridor, tmp_path):
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    options = {"nan_at": "the environment is never made"}
    with ProcessLock(run_dir / LOCK_NAME, "another"), pytest.raises(ChannelError, match="is in use by"):
        train(corridor, run_dir, env_options=options)


def test_a_run_that_began_while_the_environment_was_made_is_kept(corridor, tmp_path):
    folder = RunFolder(tmp_path / "run", corridor)
    train(with_run(corridor, total_steps=500), tmp_path / "run")
    with pytest.raises(CheckpointError, match="already holds a run"):
        folder.begin()
    folder.close()


def test_temporary_files_of_killed_runs_are_removed(corridor, tmp_path):
    run_dir = tmp_path / "run"
    train(with_run(corridor, total_steps=500), run_dir)
    left = [
        run_dir / ".policy.safetensors.4711.tmp",
        run_dir / ".config.toml.4711.tmp",
        run_dir / "checkpoints" / ".step_000000000000512.safetensors.4711.tmp",
        run_dir / "replay" / ".rows_00000_000000000000000_abc.safetensors.4711.tmp",
    ]
    others = [run_dir / ".notes.tmp", run_dir / "policy.safetensors.4711.tmp"]
    (run_dir / "replay").mkdir()
    for path in (*left, *others):
        path.touch()
    train(with_run(corridor, total_steps=1000), run_dir, resume=True)
    assert not any(path.exists() for path in left)
    assert all(path.exists() for path in others)


def test_resuming_needs_a_run_with_the_same_settings(corridor, tmp_path):
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        train(corridor, tmp_path / "run", resume=True)
    train(with_run(corridor, total_steps=1000), tmp_path / "run")
    other = msgspec.structs.replace(corridor, learner=msgspec.structs.replace(corridor.learner, gamma=0.5))
    with pytest.raises(IncompatibleCheckpointError, match=r"learner.gamma = 0.99, but the settings say 0.5"):
        train(other, tmp_path / "run", resume=True)
    with pytest.raises(IncompatibleCheckpointError, match=r"run.seed = 3, but the settings say 4"):
        train(with_run(corridor, seed=4), tmp_path / "run", resume=True)


def test_a_checkpoint_from_before_a_setting_existed_had_its_default(corridor, tmp_path):
    run_dir = tmp_path / "run"
    train(with_run(corridor, total_steps=1000), run_dir)
    tensors, header = newest(run_dir)
    del header["settings"]["env"]["frame_stack"]
    del header["settings"]["network"]["convolutions"]
    write_archive(sorted((run_dir / "checkpoints").iterdir())[-1], tensors, header)
    assert train(with_run(corridor, total_steps=2000), run_dir, resume=True).env_steps >= 2000


def test_a_folder_that_cannot_be_made_is_named(corridor, tmp_path):
    (tmp_path / "file").touch()
    run_dir = tmp_path / "file" / "run"
    with pytest.raises(CheckpointError, match=r"file/run: could not be written: Not a directory"):
        train(corridor, run_dir, sinks=run_sinks(run_dir))


@pytest.mark.parametrize(
    ("env_id", "options", "error"),
    [
        ("toys/Nothing-v0", {}, gymnasium.error.NameNotFound),
        ("toys/Corridor-v0", {"width": 3}, EnvironmentUsageError),
        ("toys/Corridor-v0", {"num_envs": 3}, ConfigError),
    ],
)
def test_a_run_that_never_begins_leaves_nothing_behind(corridor, tmp_path, env_id, options, error):
    run_dir = tmp_path / "run"
    settings = msgspec.structs.replace(corridor, env=msgspec.structs.replace(corridor.env, id=env_id))
    with pytest.raises(error):
        train(settings, run_dir, env_options=options, sinks=run_sinks(run_dir))
    assert not run_dir.exists()


def test_an_interrupted_run_is_reported_as_saved_after_the_save(corridor, tmp_path, caplog):
    class Lines(Listener):
        def write(self, message):
            super().write(message)
            if isinstance(message, CheckpointSaved):
                assert "the run is saved" not in caplog.text

    with caplog.at_level(logging.INFO):
        train(corridor, tmp_path / "run", sinks=[Lines(stop_after=1)])
    assert "SIGTERM: the run is saved" in caplog.text


def test_the_resolved_settings_are_kept(corridor, tmp_path):
    settings = with_run(corridor, total_steps=1000)
    train(settings, tmp_path / "run")
    assert load_settings(TrainSettings, tmp_path / "run" / "config.toml") == settings
