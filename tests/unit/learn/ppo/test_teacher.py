"""PPO with a teacher: a policy that the new policy also imitates."""

from contextlib import closing

import msgspec
import numpy as np
import pytest
import torch

from soulslab.errors import CheckpointError, ConfigError, IncompatibleCheckpointError
from soulslab.learn.environment import make_vector
from soulslab.learn.evaluate import EvaluationSettings, evaluate
from soulslab.learn.players import load_player
from soulslab.learn.policy import Policy, PolicyHeader
from soulslab.learn.ppo.ppo_algorithm import open_teacher
from soulslab.learn.ppo.remote_ppo import open_remote_ppo
from soulslab.learn.run_folder import RunFolder
from soulslab.learn.settings import EnvSettings, NetworkSettings, PPOSettings, RunSettings, TrainSettings
from soulslab.learn.sinks import JsonLinesSink, read_json_lines
from soulslab.learn.telemetry import UpdateStats
from soulslab.learn.train import train
from support.policies import q_policy
from support.toys import N_CUES


def policy(**fields):
    header = {"env_id": "toys/Corridor-v0", "n_features": 6, "n_actions": 4, "network": NetworkSettings(widths=(8,))}
    return Policy(PolicyHeader(env_options={}, soulslab="", commit="", **{**header, **fields}))


def decided(**fields):
    """Return a policy that nearly always chooses the first action: in the corridor to the left, where it loses."""
    teacher = policy(**fields)
    with torch.no_grad():
        teacher.network.actor.bias[0] = 10.0
    return teacher


def with_teacher(settings, path, **learner):
    learner = msgspec.structs.replace(settings.learner, teacher=str(path), **learner)
    run = msgspec.structs.replace(settings.run, total_steps=8000)
    return msgspec.structs.replace(settings, learner=learner, run=run)


def test_a_teacher_is_imitated_even_against_the_reward(corridor, tmp_path):
    decided().save(tmp_path / "teacher.safetensors")
    taught = with_teacher(corridor, tmp_path / "teacher.safetensors", teacher_weight=100.0, teacher_weight_end=100.0)
    train(taught, tmp_path / "run", sinks=[JsonLinesSink(tmp_path / "run.jsonl")])
    losses = [each.teacher_loss for each in read_json_lines(tmp_path / "run.jsonl") if isinstance(each, UpdateStats)]
    assert losses[-1] < 0.5 * losses[0]
    fights = EvaluationSettings(env_id="toys/Corridor-v0", n_fights=200)
    assert evaluate(load_player(tmp_path / "run"), fights).mean_return == -1.0


@pytest.mark.parametrize(
    ("teacher", "error", "message"),
    [
        (q_policy(), ConfigError, r"learner\.teacher: .* is not a policy of PPO, or has a memory"),
        (policy(network=NetworkSettings(memory=4)), ConfigError, r"name a policy of PPO without network\.memory"),
        (policy(n_features=5), IncompatibleCheckpointError, "has 5 features, but toys/Corridor-v0 has 6"),
        (policy(env_id="toys/Lights-v0"), IncompatibleCheckpointError, "was trained on toys/Lights-v0"),
    ],
)
def test_an_unsuitable_teacher_is_refused(tmp_path, teacher, error, message):
    path = tmp_path / "policy.safetensors"
    teacher.save(path)
    with pytest.raises(error, match=message), closing(make_vector("toys/Corridor-v0", 2, {})) as env:
        open_teacher(path, policy().header, env)


def test_a_teacher_that_does_not_exist_is_named_and_no_run_is_left(corridor, tmp_path):
    with pytest.raises(CheckpointError, match="nobody"):
        train(with_teacher(corridor, tmp_path / "nobody"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_is_resumed_bit_for_bit_with_a_copy_of_its_teacher(corridor, tmp_path):
    policy().save(tmp_path / "teacher.safetensors")
    taught = with_teacher(corridor, tmp_path / "teacher.safetensors")
    whole = train(taught, tmp_path / "whole")
    half = msgspec.structs.replace(taught, run=msgspec.structs.replace(taught.run, max_seconds=1e-9))
    assert train(half, tmp_path / "parts").env_steps < whole.env_steps
    (tmp_path / "teacher.safetensors").unlink()
    train(taught, tmp_path / "parts", resume=True)
    states = [load_player(tmp_path / name).state() for name in ("whole", "parts")]
    for name, tensor in states[0].items():
        np.testing.assert_array_equal(states[1][name], tensor, err_msg=name)


def test_a_policy_with_memory_may_have_a_teacher(tmp_path):
    fields = {"env_id": "toys/Recall-v0", "n_features": N_CUES + 1, "n_actions": N_CUES}
    decided(**fields).save(tmp_path / "teacher.safetensors")
    teacher = {"teacher": str(tmp_path / "teacher.safetensors"), "teacher_weight": 10.0, "teacher_weight_end": 10.0}
    settings = TrainSettings(
        env=EnvSettings(id="toys/Recall-v0", n_envs=8),
        learner=PPOSettings(n_steps=8, minibatch_size=32, lr=1e-2, **teacher),
        network=NetworkSettings(widths=(16,), memory=8, shared=True),
        run=RunSettings(total_steps=4000),
    )
    train(settings, tmp_path / "run", sinks=[JsonLinesSink(tmp_path / "run.jsonl")])
    losses = [each.teacher_loss for each in read_json_lines(tmp_path / "run.jsonl") if isinstance(each, UpdateStats)]
    assert losses[-1] < 0.5 * losses[0]


def test_a_fleet_has_no_teacher(corridor, tmp_path):
    folder = RunFolder(tmp_path / "run", with_teacher(corridor, "judge"))
    with pytest.raises(ConfigError, match=r"learner\.teacher: must be empty in a fleet"):
        open_remote_ppo(folder, None, None)
