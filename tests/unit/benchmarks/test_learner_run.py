"""Short training runs of each learner."""

import msgspec
import pytest
import torch
from msgspec.structs import replace

from benchmarks.learner_peers import DECISIONS_PER_STEP, our_settings
from benchmarks.learner_recipes import contestants
from benchmarks.learner_run import LearnerRun, LearnerTask, play
from soulslab.config import load_settings
from soulslab.learn.configs import config_path
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings

ARENA = contestants(load_settings(RainbowSettings, config_path("rainbow.toml")), (1,), 200, 200, None)


def shorten(task, **changes):
    settings = task.settings
    network = replace(settings.network, widths=(8,), n_quantiles=min(2, settings.network.n_quantiles))
    learner = replace(settings.learner, learning_starts=20, batch_size=4)
    run = replace(settings.run, **({"total_steps": 200, "evaluate_every": 80, "evaluate_fights": 3} | changes))
    return replace(task, settings=replace(settings, network=network, learner=learner, run=run))


@pytest.mark.parametrize("task", ARENA, ids=lambda task: task.name)
def test_a_learner_is_trained_and_evaluated(task):
    told = []
    run = play(shorten(task), told.append)
    assert list(run.points) == told
    assert [point.decisions for point in told] == [80, 160]  # the last fight may end later
    assert 200 <= run.n_decisions < 260
    assert all(point.win_rate in (0.0, 1 / 3, 2 / 3, 1.0) for point in told)
    assert all(-25.0 < point.mean_return < 45.0 for point in told)
    assert msgspec.json.decode(msgspec.json.encode(run), type=LearnerRun) == run


@pytest.mark.parametrize("kind", ["rainbow", "dqn"])
def test_training_stops_at_the_win_rate(kind):
    task = next(task for task in ARENA if task.kind == kind)
    # No run wins at once, and no run wins less than never.
    run = play(shorten(task, stop_win_rate=0.0, total_steps=400), lambda _: None)
    wins = [point.win_rate for point in run.points]
    assert all(rate == 0.0 for rate in wins[:-1])
    assert run.n_decisions >= 400 or wins[-1] > 0.0


def test_equal_seeds_give_equal_runs():
    task = shorten(ARENA[0])
    first, second = (play(task, lambda _: None) for _ in range(2))
    assert [(p.decisions, p.mean_return) for p in first.points] == [(p.decisions, p.mean_return) for p in second.points]


def test_our_settings_are_converted_for_peers():
    base = RainbowSettings()
    learner = replace(
        base.learner, updates_per_step=2.0, target_tau=0.01, target_every=1, epsilon_decisions=3000, n_steps=3
    )
    theirs = our_settings(replace(base, learner=learner, run=replace(base.run, total_steps=30_000)))
    assert (theirs["train_freq"], theirs["gradient_steps"]) == (1, 2)
    assert theirs["tau"] == pytest.approx(1 - 0.99**2)  # two of our updates in one of their steps
    assert theirs["target_update_interval"] == 1
    assert theirs["exploration_fraction"] == pytest.approx(3000 / 30_000)
    assert theirs["n_steps"] == 3
    assert theirs["policy_kwargs"]["optimizer_class"] is torch.optim.AdamW
    hard = replace(learner, updates_per_step=0.25, target_tau=1.0, target_every=100)
    theirs = our_settings(replace(base, learner=hard))
    assert (theirs["train_freq"], theirs["gradient_steps"], theirs["tau"]) == (4, 1, 1.0)
    assert theirs["target_update_interval"] == 400
    assert DECISIONS_PER_STEP >= 1


def test_a_task_is_serialised_without_changes():
    task = ARENA[0]
    assert task.settings.run.max_seconds == float("inf")
    copy = msgspec.msgpack.decode(msgspec.msgpack.encode(task), type=LearnerTask)
    assert copy == task
    assert copy.digest() == task.digest()
