"""The learners of the benchmark and their settings."""

from pathlib import Path

import pytest
from msgspec.structs import asdict, replace

from benchmarks.learner_recipes import OURS, PUBLISHED, SHOWN, contestants, published
from benchmarks.learner_run import MOST
from soulslab.config import load_settings
from soulslab.learn.configs import config_path
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings


@pytest.fixture
def config():
    return load_settings(RainbowSettings, config_path("rainbow.toml"))


def test_all_learners_have_the_same_task(config):
    tasks = contestants(config, (3, 4), 200, 1000, Path("shown"), has_tuned_peers=True)
    assert [task.settings.run.seed for task in tasks] == [3] * 7 + [4] * 7
    for task in tasks:
        run = task.settings.run
        assert task.settings.env == config.env
        assert task.settings.env.n_envs == 1
        assert (run.evaluate_every, run.evaluate_fights) == (config.run.evaluate_every, config.run.evaluate_fights)
        if task.name in (OURS, SHOWN):
            assert task.settings.learner == config.learner
            assert run == replace(config.run, seed=run.seed, total_steps=200)
        else:
            assert (run.total_steps, run.stop_win_rate) == (1000, MOST)
    shown = next(task for task in tasks if task.name == SHOWN)
    assert shown.settings.demonstrations.path == "shown"
    assert len(contestants(config, (0,), 200, 1000, Path("shown"))) == 5
    assert SHOWN not in {task.name for task in contestants(config, (0,), 200, 1000, None)}


def test_digests_depend_on_the_relevant_settings(config):
    tasks = contestants(config, (0, 1), 200, 1000, Path("shown"), has_tuned_peers=True)
    digests = [task.digest() for task in tasks]
    assert len(set(digests)) == len(tasks)
    moved = contestants(config, (0, 1), 200, 1000, Path("moved/shown"), has_tuned_peers=True)
    assert [task.digest() for task in moved] == digests
    assert replace(tasks[0], name="another name").digest() == digests[0]
    other = contestants(config, (0, 1), 200, 1001, Path("shown"), has_tuned_peers=True)
    changed = [a != b.digest() for a, b in zip(digests, other, strict=True)]
    assert changed == ([False] * 2 + [True] * 5) * 2


def test_the_published_recipe_has_the_published_settings(config):
    """Dueling double DQN, 128 wide, n-step 4, uniform 100 k, batch 64, one update per step, epsilon 0.1."""
    recipe = published(config)
    learner, network, memory = recipe.learner, recipe.network, recipe.replay
    assert (network.is_dueling, learner.is_double, set(network.widths)) == (True, True, {128})
    assert (learner.n_steps, learner.batch_size, learner.updates_per_step) == (4, 64, 1.0)
    assert (learner.epsilon, learner.epsilon_end, learner.is_target_masked) == (0.1, 0.1, False)
    assert (memory.capacity, memory.alpha) == (100_000, 0.0)
    assert (network.n_quantiles, network.has_layer_norm) == (1, False)
    assert (learner.munchausen, learner.weight_decay) == (0.0, 0.0)
    assert recipe.demonstrations.path == ""


def test_the_published_recipe_uses_no_learning_setting_of_ours(config):
    """Whatever our config becomes, the recipe stays: a new setting has to be given a value there."""
    taken_over = {"learner": {"munchausen_temperature", "epsilon_decisions"}}
    taken_over |= {"network": {"channels"}, "replay": {"is_mapped", "beta", "beta_end"}}
    base = published(RainbowSettings())
    for part, names in taken_over.items():
        ours = asdict(getattr(published(config), part))
        for name, value in asdict(getattr(base, part)).items():
            assert ours[name] == value or name in names
    assert PUBLISHED in {task.name for task in contestants(config, (0,), 10, 10, None)}
