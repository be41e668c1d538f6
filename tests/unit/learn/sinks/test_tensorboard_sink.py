"""Logs read back as TensorBoard reads them."""

import msgspec
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from soulslab.learn.sinks import TensorBoardSink
from soulslab.learn.sinks.metric_names import MESSAGES, numbers, tagged_values
from soulslab.learn.telemetry import (
    ActorStats,
    Evaluated,
    FightStats,
    LearningStats,
    TrainFinished,
    TrainProgress,
    TrainStarted,
    UpdateStats,
)
from support.messages import PROGRESS, example, unknown

STARTED = TrainStarted(env_id="toys/Corridor-v0", total_steps=1_000_000, env_steps=0, seed=0, is_resumed=False)


def read(folder, *messages):
    """Write messages; return all that the log says now."""
    sink = TensorBoardSink(folder)
    for message in messages:
        sink.write(message)
    sink.close()
    return EventAccumulator(str(folder)).Reload()


@pytest.mark.parametrize("kind", [TrainProgress, UpdateStats, LearningStats, ActorStats, Evaluated])
def test_every_number_is_a_scalar_at_its_decision(tmp_path, kind):
    message = example(kind)
    log = read(tmp_path, STARTED, message)
    expected = tagged_values(message)
    assert set(log.Tags()["scalars"]) == set(expected)
    for tag, value in expected.items():
        (point,) = log.Scalars(tag)
        assert (point.step, point.value) == (message.env_steps, pytest.approx(value))


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_what_is_unknown_has_no_point(tmp_path, kind):
    message = unknown(example(kind))
    log = read(tmp_path, STARTED, message)
    for number in numbers(kind):
        if getattr(message, number.field) is None:
            assert number.tag not in log.Tags()["scalars"]


def test_groups():
    tags = {kind: {n.tag.partition("/")[0] for n in numbers(kind) if n.tag} for kind in MESSAGES}
    assert tags[TrainProgress] == {"train"}
    assert tags[UpdateStats] == tags[LearningStats] == {"update"}
    assert tags[ActorStats] == {"actor"}
    assert tags[FightStats] == {"fight"}
    assert tags[Evaluated] == {"evaluation"}


def test_fights_have_a_curve_per_term_and_attack_and_a_histogram_of_actions(tmp_path):
    shares = (0.5, 0.0, 0.25, 0.25)
    message = FightStats(
        env_steps=70,
        n_fights=3,
        reward_terms={"win": 1.0, "death": -0.5},
        damage_by_attack={"left sweep": 120.0},
        action_shares=shares,
    )
    log = read(tmp_path, STARTED, message)
    expected = {"fight/n_fights", "fight/reward/win", "fight/reward/death", "fight/damage/left sweep"}
    assert set(log.Tags()["scalars"]) == expected
    assert log.Scalars("fight/reward/death")[0].value == -0.5
    (drawn,) = log.Histograms("fight/actions")
    assert (drawn.step, drawn.histogram_value.num, drawn.histogram_value.sum) == (70, 1.0, pytest.approx(1.25))
    assert drawn.histogram_value.bucket_limit == [0.5, 1.5, 2.5, 3.5]
    assert drawn.histogram_value.bucket == list(shares)


def test_fights_without_details_are_written(tmp_path):
    message = FightStats(env_steps=7, n_fights=3, reward_terms={}, damage_by_attack={})
    assert read(tmp_path, message).Tags()["scalars"] == ["fight/n_fights"]


def test_a_resumed_run_hides_what_it_plays_again(tmp_path):
    def point(env_steps, win_rate):
        return msgspec.structs.replace(PROGRESS, env_steps=env_steps, win_rate=win_rate)

    read(tmp_path, STARTED, *(point(n, 0.1) for n in (10, 20, 30, 40)))  # killed; its last checkpoint is at 20
    resumed = msgspec.structs.replace(STARTED, env_steps=20, is_resumed=True)
    log = read(tmp_path, resumed, point(30, 0.5), TrainFinished(env_steps=30, seconds=1.0, reason="interrupted"))
    assert [(p.step, p.value) for p in log.Scalars("train/win_rate")] == [
        (10, pytest.approx(0.1)),
        (20, pytest.approx(0.1)),
        (30, 0.5),
    ]


def test_charts_name_tags_that_are_written(tmp_path):
    """The layout of "Custom Scalars" is written with the log."""
    log = read(tmp_path, STARTED, example(Evaluated), example(FightStats))
    layout = log.Tensors("custom_scalars__config__")[0].tensor_proto.string_val[0].decode("utf-8", "replace")
    for tag in ("evaluation/win_rate", "evaluation/low", "evaluation/high", "fight/reward/", "fight/damage/"):
        assert tag in layout
        assert any(known.startswith(tag) for known in log.Tags()["scalars"])
