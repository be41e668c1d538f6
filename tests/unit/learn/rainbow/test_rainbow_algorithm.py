"""Whole runs on tiny environments: they learn, stop, resume, survive, and say what is wrong."""

import json
import logging
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

from soulslab.config import load_settings
from soulslab.errors import (
    ChannelError,
    CheckpointError,
    ConfigError,
    CorruptCheckpointError,
    DemonstrationError,
    IncompatibleCheckpointError,
    NonFiniteError,
    NonFinitePriorityError,
)
from soulslab.learn.archive import read_archive, write_archive
from soulslab.learn.evaluate import EvaluationSettings, evaluate
from soulslab.learn.players import load_player
from soulslab.learn.process_lock import ProcessLock
from soulslab.learn.rainbow.rainbow_settings import DemonstrationSettings, RainbowSettings
from soulslab.learn.run_folder import LOCK_NAME, StopReason
from soulslab.learn.sinks import PROGRESS_NAME, JsonLinesSink, read_json_lines
from soulslab.learn.telemetry import (
    ActorStats,
    CheckpointSaved,
    Evaluated,
    FightStats,
    LearningStats,
    TrainFinished,
    TrainProgress,
    TrainStarted,
)
from soulslab.learn.train import train
from soulslab.learn.training import load_run_settings
from support.fights import ARENA, record_random
from support.forked import ForkedPopen
from support.waiting import PATIENCE_S, wait_for

TESTS = Path(__file__).parents[3]

# A fresh process that starts or resumes runs; arguments: folder of the tests, "begin" or "resume", and for each run
# its folder and its config.
PROCESS = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from support.toys import register_toys
from soulslab.learn.sinks import JsonLinesSink
from soulslab.learn.training import load_run_settings
from soulslab.learn.train import train
from support.fights import ARENA, record_random
register_toys()
for run_dir, config in zip(map(Path, sys.argv[3::2]), map(Path, sys.argv[4::2])):
    sinks = [JsonLinesSink(run_dir / "progress.jsonl")]
    print(train(load_run_settings(config), run_dir, resume=sys.argv[2] == "resume", sinks=sinks).reason.value)
"""


class Listener:
    """Keeps the messages; at the n-th of a kind it sends this process a signal."""

    def __init__(self, kind=None, stop_at=0):
        self.messages = []
        self._kind = kind
        self._stop_at = stop_at

    def write(self, message):
        self.messages.append(message)
        if self._kind and isinstance(message, self._kind) and len(self.of(self._kind)) == self._stop_at:
            os.kill(os.getpid(), signal.SIGTERM)

    def close(self):
        pass

    def of(self, kind):
        return [message for message in self.messages if isinstance(message, kind)]


def with_run(settings, **changes):
    return msgspec.structs.replace(settings, run=msgspec.structs.replace(settings.run, **changes))


def with_env(settings, **changes):
    return msgspec.structs.replace(settings, env=msgspec.structs.replace(settings.env, **changes))


def newest(run_dir):
    return read_archive(sorted((run_dir / "checkpoints").iterdir())[-1])


def start(how, *runs):
    command = [sys.executable, "-c", PROCESS, str(TESTS), how, *(str(path) for run in runs for path in run)]
    return ForkedPopen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def check_finished(process):
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    return out.split()


def check_same_tensors(run_dir, other_dir):
    (expected, _), (found, _) = newest(run_dir), newest(other_dir)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].tobytes() == tensor.tobytes(), name


@pytest.fixture(scope="module")
def trained(corridor, tmp_path_factory):
    """The folder of a finished run, its result, and its messages."""
    listener = Listener()
    run_dir = tmp_path_factory.mktemp("trained") / "run"
    return run_dir, train(corridor, run_dir, sinks=[listener]), listener


def test_a_run_learns_to_win_and_sends_all_messages(trained):
    _, result, listener = trained
    assert result.reason is StopReason.COMPLETED
    assert result.win_rate == 1.0
    assert [milestone.win_rate for milestone in result.milestones] == [0.5, 0.8, 0.9]
    assert isinstance(listener.messages[0], TrainStarted)
    assert isinstance(listener.messages[-1], TrainFinished)
    assert [e.env_steps // 1000 for e in listener.of(Evaluated)] == [1, 2, 3, 4]
    for kind in (TrainProgress, LearningStats, ActorStats, FightStats, CheckpointSaved):
        assert listener.of(kind), kind
    stats, fights = listener.of(LearningStats)[-1], listener.of(FightStats)[-1]
    assert stats.n_updates == pytest.approx(0.5 * (stats.n_replay - 100), abs=70)
    assert set(fights.damage_by_attack) == {"fall", "boredom"}
    assert fights.action_shares[3] == 0.0  # never allowed
    assert sum(fights.action_shares) == pytest.approx(1.0)


def test_a_policy_of_a_run_is_evaluated_as_any_other(trained):
    run_dir, result, _ = trained
    policy = load_player(run_dir)
    assert load_player(result.policy_path).header == policy.header
    found = evaluate(policy, EvaluationSettings(env_id="toys/Corridor-v0", n_fights=40, n_envs=8))
    assert found.win_rate == 1.0


def test_the_policy_that_is_kept_is_the_average_and_the_checkpoint_goes_on_with_the_last(corridor, tmp_path):
    train(with_run(corridor, total_steps=1000), tmp_path / "run")
    kept = load_player(tmp_path / "run").network.parameters_flat.numpy()
    tensors, _ = newest(tmp_path / "run")
    np.testing.assert_array_equal(kept, tensors["learner/average"])
    online = {name for name in tensors if name.startswith("policy/network/")}
    average, _ = read_archive(tmp_path / "run" / "policy.safetensors")
    assert any((tensors[name] != average[name.removeprefix("policy/")]).any() for name in online)


def test_a_checkpoint_holds_the_policy_that_was_kept_then(corridor, tmp_path):
    settings = with_run(corridor, total_steps=2000, checkpoint_every_s=0.05, keep_checkpoints=2)
    train(settings, tmp_path / "run")
    before, last = (load_player(path) for path in sorted((tmp_path / "run" / "checkpoints").iterdir()))
    kept = load_player(tmp_path / "run")
    assert last.header == kept.header
    assert torch.equal(last.network.parameters_flat, kept.network.parameters_flat)
    assert before.header.env_steps < kept.header.env_steps
    assert not torch.equal(before.network.parameters_flat, kept.network.parameters_flat)


def test_stopped_runs_are_resumed_bit_for_bit_by_a_fresh_process(corridor, tmp_path):
    # With this learning rate the biases become denormal, unless the processor flushes such results to zero.
    denormal = changed(corridor, {"learner": {"lr": 1e-40}})
    runs = {
        "denormal": with_run(denormal, total_steps=1000, evaluate_every=250),
        "normal": with_run(corridor, total_steps=1600, evaluate_every=600),
    }
    for name, settings in runs.items():
        train(settings, tmp_path / name / "whole")
        stopped = train(settings, tmp_path / name / "parts", sinks=[Listener(Evaluated, 2)])
        assert stopped.reason is StopReason.INTERRUPTED
        assert 0 < stopped.env_steps < settings.run.total_steps
    folders = [tmp_path / name / "parts" for name in runs]
    resumed = start("resume", *((folder, folder / "config.toml") for folder in folders))
    assert check_finished(resumed) == ["completed", "completed"]
    for name in runs:
        check_same_tensors(tmp_path / name / "whole", tmp_path / name / "parts")


VARIANTS = {
    "seldom updated": {"learner": {"updates_per_step": 0.005, "epsilon_decisions": 600}},
    "with memory": {
        "network": {"memory": 5},
        "replay": {"sequence_steps": 8, "burn_in_steps": 4, "capacity": 400},
    },
    "with shifted pixels": {
        "env": {"id": "toys/PixelCorridor-v0"},
        "learner": {"shift_px": 1, "updates_per_step": 0.2},
        "network": {"channels": (2,)},
    },
    "with shifted pixels and memory": {
        "env": {"id": "toys/PixelCorridor-v0"},
        "learner": {"shift_px": 1, "updates_per_step": 0.2},
        "network": {"channels": (2,), "memory": 5},
        "replay": {"sequence_steps": 8, "burn_in_steps": 4},
    },
    "often updated": {"learner": {"updates_per_step": 6.0, "learning_starts": 400}},
}


def changed(settings, tables):
    for table, values in tables.items():
        settings = msgspec.structs.replace(
            settings, **{table: msgspec.structs.replace(getattr(settings, table), **values)}
        )
    return settings


@pytest.mark.parametrize("name", VARIANTS)
def test_every_kind_of_run_continues_bit_for_bit(corridor, tmp_path, name):
    settings = with_run(changed(corridor, VARIANTS[name]), total_steps=600, evaluate_every=0)
    train(settings, tmp_path / "whole")
    # After a step that no update followed, where they are seldom.
    stopped = with_run(settings, checkpoint_every_s=0.0)
    train(stopped, tmp_path / "parts", sinks=[Listener(CheckpointSaved, 102)])
    train(settings, tmp_path / "parts", resume=True)
    check_same_tensors(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.parametrize("updates_per_step", [0.3, 12.0])
def test_as_many_updates_are_made_as_the_settings_say(corridor, tmp_path, updates_per_step):
    settings = changed(corridor, {"learner": {"updates_per_step": updates_per_step, "learning_starts": 100}})
    train(with_run(settings, total_steps=200, evaluate_every=0), tmp_path / "run")
    tensors, _ = newest(tmp_path / "run")
    n_steps, n_updates = tensors["run/counts"][1] - 100, tensors["learner/counts"][0]
    assert n_steps > 40
    assert updates_per_step * (n_steps - 4) - 1 < n_updates <= updates_per_step * n_steps  # the last step's may be due


def test_a_killed_run_continues_from_its_last_checkpoint_bit_for_bit(corridor, tmp_path):
    settings = with_run(corridor, total_steps=2000, checkpoint_every_s=0.1)
    train(settings, tmp_path / "whole")
    run_dir = tmp_path / "killed"
    process = start("begin", (run_dir, tmp_path / "whole" / "config.toml"))
    progress = run_dir / PROGRESS_NAME

    def has_saved():
        assert process.poll() is None, process.communicate()[1]
        return progress.exists() and progress.read_text().count("CheckpointSaved") >= 3

    wait_for(has_saved, "three checkpoints")
    process.kill()
    process.communicate()
    assert check_finished(start("resume", (run_dir, run_dir / "config.toml"))) == ["completed"]
    check_same_tensors(tmp_path / "whole", run_dir)
    kinds = [type(message) for message in read_json_lines(progress)]
    assert kinds.count(TrainStarted) == 2
    assert kinds[-1] is TrainFinished


def test_the_replay_buffer_is_saved_a_piece_at_a_time(corridor, tmp_path):
    train(with_run(corridor, checkpoint_every_s=0.0, total_steps=500), tmp_path / "run")
    _, header = newest(tmp_path / "run")
    named = json.dumps([read_archive(path)[1]["replay"] for path in (tmp_path / "run" / "checkpoints").iterdir()])
    files = list((tmp_path / "run" / "replay").iterdir())
    assert header["replay"]
    assert files
    assert all(file.name in named for file in files)


@pytest.mark.parametrize("is_mapped", [False, True])
def test_an_environment_without_state_continues_with_new_episodes(corridor, tmp_path, is_mapped):
    settings = with_env(corridor, id="toys/Lights-v0")
    replay = msgspec.structs.replace(settings.replay, is_mapped=is_mapped)
    settings = with_run(msgspec.structs.replace(settings, replay=replay), evaluate_every=0)
    train(with_run(settings, total_steps=200), tmp_path / "run")
    result = train(with_run(settings, total_steps=400), tmp_path / "run", resume=True)
    assert result.env_steps >= 400
    assert result.mean_return is not None


@pytest.mark.parametrize("memory", [0, 5])
def test_a_run_from_pixels_learns_and_can_be_resumed(corridor, tmp_path, memory):
    settings = with_env(corridor, id="toys/Dot-v0", frame_stack=2)
    tables = {"network": {"channels": (4, 8), "memory": memory}, "replay": {"sequence_steps": 8, "burn_in_steps": 4}}
    settings = with_run(changed(settings, tables), evaluate_every=0)
    train(with_run(settings, total_steps=200), tmp_path / "run")
    assert train(with_run(settings, total_steps=300), tmp_path / "run", resume=True).env_steps >= 300


def test_a_reward_that_is_no_number_is_located_and_all_saved_first(corridor, tmp_path):
    with pytest.raises(NonFiniteError, match=r"reward of environment 2 at step \d+ .*\(nan\)"):
        train(corridor, tmp_path / "run", env_options={"nan_at": 200})
    tensors, _ = newest(tmp_path / "run")
    assert tensors["run/counts"][1] == 199 * 4
    assert all(np.isfinite(t).all() for name, t in tensors.items() if name.startswith("policy/"))
    with pytest.raises(NonFiniteError):  # it goes on from there, until the environment fails again
        train(corridor, tmp_path / "run", resume=True, env_options={"nan_at": 200})
    assert newest(tmp_path / "run")[0]["run/counts"][1] == 2 * 199 * 4


def test_a_learner_that_has_diverged_leaves_the_policy_and_the_checkpoints_from_before(corridor, tmp_path):
    run_dir = tmp_path / "run"
    # Each update makes the weights a million times larger; the first part of the run ends before the first one.
    settings = changed(corridor, {"learner": {"lr": 1.0, "weight_decay": 1e6, "learning_starts": 400}})
    train(with_run(settings, total_steps=200, evaluate_every=0), run_dir)
    before = sorted((run_dir / "checkpoints").iterdir())
    with pytest.raises(NonFinitePriorityError, match="the learner has diverged"):
        train(with_run(settings, evaluate_every=0, checkpoint_every_s=1e9), run_dir, resume=True)
    assert sorted((run_dir / "checkpoints").iterdir()) == before
    assert torch.isfinite(load_player(run_dir).network.parameters_flat).all()  # a new run may start from it


def test_a_full_disk_leaves_the_last_checkpoint_whole(corridor, tmp_path):
    run_dir = tmp_path / "run"
    train(with_run(corridor, total_steps=1000), run_dir)
    before = newest(run_dir)[0]["run/counts"].tolist()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(CheckpointError, match="could not be written: File too large; free some space"):
            train(with_run(corridor, total_steps=1500), run_dir, resume=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert newest(run_dir)[0]["run/counts"].tolist() == before
    assert train(with_run(corridor, total_steps=1500), run_dir, resume=True).env_steps >= 1500


def test_a_damaged_checkpoint_is_passed_over(corridor, tmp_path, caplog):
    run_dir = tmp_path / "run"
    train(with_run(corridor, total_steps=400, checkpoint_every_s=0.0), run_dir)
    damaged = sorted((run_dir / "checkpoints").iterdir())[-1]
    damaged.write_bytes(damaged.read_bytes()[:1000])
    with caplog.at_level(logging.WARNING):
        result = train(with_run(corridor, total_steps=600), run_dir, resume=True)
    assert str(damaged) in caplog.text
    assert result.env_steps >= 600


def test_a_checkpoint_whose_number_of_due_updates_is_not_finite_is_refused(corridor, tmp_path):
    run_dir = tmp_path / "run"
    train(with_run(corridor, total_steps=400), run_dir)
    (path,) = (run_dir / "checkpoints").glob("*.safetensors")
    tensors, header = read_archive(path)
    write_archive(path, {**tensors, "run/credit": np.array([np.nan])}, header)
    with pytest.raises(CorruptCheckpointError, match="'credit' holds NaN or infinity"):
        train(with_run(corridor, total_steps=600), run_dir, resume=True)


def chunks_of(checkpoint):
    return {chunk["name"] for chunk in read_archive(checkpoint)[1]["replay"]["chunks"]}


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-9])])
def test_a_checkpoint_whose_rows_are_damaged_is_passed_over(corridor, tmp_path, caplog, damage):
    settings = with_run(corridor, total_steps=500, evaluate_every=200)
    train(settings, tmp_path / "whole")
    run_dir = tmp_path / "parts"
    train(with_run(settings, checkpoint_every_s=0.0), run_dir, sinks=[Listener(Evaluated, 1)])
    older, newest_one = sorted((run_dir / "checkpoints").iterdir())[-2:]
    damaged = run_dir / "replay" / (chunks_of(newest_one) - chunks_of(older)).pop()
    damage(damaged)
    listener = Listener()
    with caplog.at_level(logging.WARNING):
        train(settings, run_dir, resume=True, sinks=[listener])
    (warning,) = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert str(newest_one) in warning
    assert str(damaged) in warning
    assert listener.messages[0].env_steps == int(older.stem.removeprefix("step_"))
    check_same_tensors(tmp_path / "whole", run_dir)


def test_a_run_without_complete_rows_is_reported_and_not_changed(corridor, tmp_path, caplog):
    settings = with_run(corridor, total_steps=500, checkpoint_every_s=0.0)
    train(settings, tmp_path / "run")
    for chunk in (tmp_path / "run" / "replay").iterdir():
        chunk.write_bytes(b"")
    before = sorted((tmp_path / "run").rglob("*"))
    with caplog.at_level(logging.WARNING), pytest.raises(CheckpointError, match=r"none of its 3 checkpoints is intact"):
        train(settings, tmp_path / "run", resume=True)
    assert caplog.text.count("skipping") == 3
    assert sorted((tmp_path / "run").rglob("*")) == before


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


def test_resuming_needs_a_run_with_the_same_settings(corridor, tmp_path):
    train(with_run(corridor, total_steps=500), tmp_path / "run")
    other = msgspec.structs.replace(corridor, learner=msgspec.structs.replace(corridor.learner, lr=0.5))
    with pytest.raises(IncompatibleCheckpointError, match=r"learner.lr = 0.003, but the settings say 0.5"):
        train(other, tmp_path / "run", resume=True)
    with pytest.raises(IncompatibleCheckpointError, match=r"env.id = 'toys/Corridor-v0', but .* 'toys/Lights-v0'"):
        train(with_env(corridor, id="toys/Lights-v0"), tmp_path / "run", resume=True)
    with pytest.raises(CheckpointError, match="already holds a run"):
        train(corridor, tmp_path / "run")


def test_a_run_of_another_algorithm_is_not_gone_on_with(corridor, tmp_path):
    train(with_run(corridor, total_steps=500), tmp_path / "run")
    ppo = load_run_settings(None, ["env.id=toys/Corridor-v0", "env.n_envs=4"])
    with pytest.raises(IncompatibleCheckpointError, match="written by another algorithm"):
        train(ppo, tmp_path / "run", resume=True)


def test_the_resolved_settings_are_kept(corridor, tmp_path):
    settings = with_run(corridor, total_steps=500)
    train(settings, tmp_path / "run")
    assert load_settings(RainbowSettings, tmp_path / "run" / "config.toml") == settings


@pytest.mark.parametrize("changes", [[], ["env.id=toys/Corridor-v0"], ["env.options.boss=judge"]])
def test_whoever_does_not_say_how_many_gets_one_game(changes):
    assert load_run_settings(None, ["algorithm=rainbow", *changes]).env.n_envs == 1


def test_a_misspelt_setting_is_named_before_anything_begins(tmp_path):
    config = tmp_path / "rainbow.toml"
    config.write_text('algorithm = "rainbow"\n[learner]\nupdates_per_stpe = 2.0\n')
    with pytest.raises(ConfigError, match=r"learner.updates_per_stpe: unknown setting.*updates_per_step"):
        load_run_settings(config)
    with pytest.raises(ConfigError, match=r"'rainbo' is not an algorithm; did you mean 'rainbow'"):
        load_run_settings(None, ["algorithm=rainbo"])


def test_the_actor_may_see_what_it_did_and_how_much_time_is_left(corridor, tmp_path):
    inputs = msgspec.structs.replace(corridor.inputs, previous_actions=2, time_left_decisions=40)
    settings = with_run(msgspec.structs.replace(corridor, inputs=inputs), total_steps=2000)
    result = train(settings, tmp_path / "run", sinks=[JsonLinesSink(tmp_path / "run" / PROGRESS_NAME)])
    assert load_player(result.policy_path).header.extras == inputs
    assert result.win_rate is not None


def test_a_run_learns_from_recorded_fights_and_continues_bit_for_bit(corridor, tmp_path):
    record_random(tmp_path / "shown", "soulslab/Arena-v0", ARENA, 3)
    shown = DemonstrationSettings(path=str(tmp_path / "shown"), cloning_updates=20)
    settings = with_env(corridor, id="soulslab/Arena-v0", options=ARENA, n_envs=1)
    settings = with_run(msgspec.structs.replace(settings, demonstrations=shown), total_steps=1500, evaluate_every=500)
    train(settings, tmp_path / "whole")
    train(settings, tmp_path / "parts", sinks=[Listener(Evaluated, 1)])
    train(settings, tmp_path / "parts", resume=True)
    check_same_tensors(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.parametrize("cloning_updates", [0, 5])
def test_what_was_cloned_is_followed_from_the_first_step(corridor, tmp_path, cloning_updates):
    record_random(tmp_path / "shown", "soulslab/Arena-v0", ARENA, 1)
    shown = DemonstrationSettings(path=str(tmp_path / "shown"), cloning_updates=cloning_updates)
    settings = with_env(corridor, id="soulslab/Arena-v0", options=ARENA, n_envs=1)
    settings = with_run(msgspec.structs.replace(settings, demonstrations=shown), total_steps=1000, evaluate_every=0)
    listener = Listener()
    train(settings, tmp_path / "run", sinks=[listener])
    told = [(stats.env_steps, stats.epsilon) for stats in listener.of(LearningStats)]
    assert told
    for env_steps, epsilon in told:
        expected = shown.epsilon - (shown.epsilon - corridor.learner.epsilon_end) * env_steps / shown.epsilon_decisions
        assert (epsilon == pytest.approx(expected)) == (cloning_updates > 0)


def test_recorded_fights_of_another_environment_are_refused_before_anything_begins(corridor, tmp_path):
    record_random(tmp_path / "shown", "soulslab/Arena-v0", ARENA, 1)
    shown = DemonstrationSettings(path=str(tmp_path / "shown"))
    with pytest.raises(DemonstrationError, match=r"toys/Corridor-v0"):
        train(msgspec.structs.replace(corridor, demonstrations=shown), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_other_reasons_to_stop(corridor, tmp_path):
    assert train(with_run(corridor, max_seconds=1e-9), tmp_path / "a").reason is StopReason.TIME
    assert train(with_run(corridor, stop_win_rate=0.6), tmp_path / "b").reason is StopReason.WIN_RATE


def test_one_environment_is_enough(corridor, tmp_path):
    settings = with_run(with_env(corridor, n_envs=1), total_steps=600)
    assert train(settings, tmp_path / "run").env_steps >= 600
