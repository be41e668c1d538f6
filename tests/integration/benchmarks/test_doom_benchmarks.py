"""The benchmarks with the real Doom: each measurement has its row."""

import pytest
from msgspec.structs import replace

from benchmarks.doom import DoomLearningSettings, measure_doom_learning
from benchmarks.learner_doom import LearnerDoomSettings, measure_learner_doom
from benchmarks.siphon_doom import DoomBenchSettings, measure_doom
from benchmarks.siphon_public import ATTRIBUTES, PublicBenchSettings, measure_public
from soulslab.config import load_settings
from soulslab.learn.configs import config_path
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
from soulslab.learn.settings import TrainSettings

pytestmark = pytest.mark.long


def test_doom_is_stepped_in_every_way():
    (result,) = measure_doom(DoomBenchSettings(n_steps=2, n_rounds=1))
    assert len({row["stepping"] for row in result.rows}) == len(result.rows) == 8
    for row in result.rows:
        assert row["steps/s"] > 0
        assert (row["times one"] is not None) == ("two" in row["stepping"])


def test_both_protocols_answer(capsys):
    result = measure_public(PublicBenchSettings(n_calls=1, n_rounds=1))
    assert f"{len(ATTRIBUTES)} values" in result.title
    assert [row["client"] for row in result.rows] == ["pysiphon", "ours"] * 3
    assert all((row["faster than pysiphon by"] is None) == (row["client"] == "pysiphon") for row in result.rows)
    assert capsys.readouterr().out == ""  # what pysiphon prints would stand among the tables


def test_an_agent_is_compared_with_keys_at_random(tmp_path):
    changes = ["env.n_envs=2", "env.options.max_tics=70", "learner.n_steps=16", "learner.minibatch_size=16"]
    config = load_settings(TrainSettings, config_path("doom.toml"), [*changes, "run.total_steps=64"])
    picture = tmp_path / "curves" / "doom.png"
    (result,) = measure_doom_learning(DoomLearningSettings(train=config, n_episodes=4, picture=picture))
    assert [row["player"] for row in result.rows] == ["keys at random", "PPO"]
    for row in result.rows:
        assert row["episodes"] == 4
        assert row["from"] <= row["mean return"] <= row["to"]
    assert picture.stat().st_size > 1000


def test_the_config_of_the_arena_learns_on_doom(tmp_path):
    doom = load_settings(TrainSettings, config_path("doom.toml"), ["env.options.max_tics=70"])
    rainbow = ["learner.learning_starts=20", "learner.batch_size=8", "network.widths=[8]", "inputs.previous_actions=1"]
    config = load_settings(RainbowSettings, config_path("rainbow.toml"), rainbow)
    picture = tmp_path / "curves" / "doom.png"
    settings = LearnerDoomSettings(config=config, env=doom.env, n_episodes=4, decisions=60, picture=picture)
    train = settings.train()
    assert (train.learner, train.replay) == (config.learner, config.replay)
    assert train.network == replace(config.network, bins=())  # they name features of the arena
    (result,) = measure_learner_doom(settings)
    assert [row["player"] for row in result.rows] == ["keys at random", "Rainbow"]
    assert result.rows[1]["decisions"] >= 60
    assert picture.stat().st_size > 1000
