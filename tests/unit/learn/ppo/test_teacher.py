"""PPO with a teacher: a policy that the new policy also imitates."""

import msgspec
import pytest
import torch

from soulslab.errors import CheckpointError, ConfigError, IncompatibleCheckpointError
from soulslab.learn.environment import make_vector
from soulslab.learn.evaluate import EvaluationSettings, evaluate
from soulslab.learn.players import load_player
from soulslab.learn.policy import Policy, PolicyHeader
from soulslab.learn.ppo.ppo_algorithm import open_teacher
from soulslab.learn.settings import NetworkSettings
from soulslab.learn.sinks import JsonLinesSink, read_json_lines
from soulslab.learn.telemetry import UpdateStats
from soulslab.learn.train import train
from support.policies import q_policy


def policy(**fields):
    header = {"env_id": "toys/Corridor-v0", "n_features": 6, "n_actions": 4, "network": NetworkSettings(widths=(8,))}
    return Policy(PolicyHeader(env_options={}, soulslab="", commit="", **{**header, **fields}))


def with_teacher(settings, path, **learner):
    learner = msgspec.structs.replace(settings.learner, teacher=str(path), **learner)
    run = msgspec.structs.replace(settings.run, total_steps=8000)
    return msgspec.structs.replace(settings, learner=learner, run=run)


def test_a_teacher_is_imitated_even_against_the_reward(corridor, tmp_path):
    losing = policy()
    with torch.no_grad():
        losing.network.actor.bias[0] = 10.0  # to the left, where each walk is lost
    losing.save(tmp_path / "teacher.safetensors")
    taught = with_teacher(corridor, tmp_path / "teacher.safetensors", teacher_weight=100.0, teacher_weight_end=100.0)
    train(taught, tmp_path / "run", sinks=[JsonLinesSink(tmp_path / "run.jsonl")])
    losses = [each.teacher_loss for each in read_json_lines(tmp_path / "run.jsonl") if isinstance(each, UpdateStats)]
    assert losses[-1] < 0.5 * losses[0]
    fights = EvaluationSettings(env_id="toys/Corridor-v0", n_fights=200)
    assert evaluate(load_player(tmp_path / "run"), fights).mean_return == -1.0


@pytest.mark.parametrize(
    ("teacher", "error", "message"),
    [
        (q_policy(), ConfigError, r"learner\.teacher: must be a policy of PPO"),
        (policy(network=NetworkSettings(memory=4)), ConfigError, r"learner\.teacher: .* without network\.memory"),
        (policy(n_features=5), IncompatibleCheckpointError, "has 5 features, but toys/Corridor-v0 has 6"),
        (policy(env_id="toys/Lights-v0"), IncompatibleCheckpointError, "was trained on toys/Lights-v0"),
    ],
)
def test_a_teacher_that_cannot_be_asked_is_refused(tmp_path, teacher, error, message):
    path = tmp_path / "policy.safetensors"
    teacher.save(path)
    with pytest.raises(error, match=message):
        open_teacher(str(path), policy().header, make_vector("toys/Corridor-v0", 2, {}))


def test_a_teacher_that_does_not_exist_is_named_and_no_run_is_left(corridor, tmp_path):
    with pytest.raises(CheckpointError, match="nobody"):
        train(with_teacher(corridor, tmp_path / "nobody"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
