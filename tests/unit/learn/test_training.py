"""Which algorithm trains, its settings say."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from soulslab.errors import CheckpointError, ConfigError, SoulslabError
from soulslab.learn.checkpoint import CheckpointStore
from soulslab.learn.configs import config_path
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
from soulslab.learn.settings import TrainSettings
from soulslab.learn.telemetry import TrainProgress
from soulslab.learn.train import train
from soulslab.learn.training import load_new_run_settings, load_run_settings


@pytest.fixture
def config(tmp_path):
    """Writes a config and returns its path."""

    def write(text):
        path = tmp_path / "config.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize(
    ("text", "overrides", "kind"),
    [
        (None, (), TrainSettings),
        (None, ("algorithm=rainbow",), RainbowSettings),
        ("", (), TrainSettings),
        ("algorithm = 'ppo'", (), TrainSettings),
        ("algorithm = 'rainbow'", (), RainbowSettings),
        ("algorithm = 'rainbow'", ("algorithm = 'ppo'",), TrainSettings),
        ("algorithm = 'ppo'", ("algorithm=ppo", "run.seed=1", 'algorithm="rainbow"'), RainbowSettings),
    ],
)
def test_the_algorithm_is_named_by_the_file_or_the_last_override(config, text, overrides, kind):
    settings = load_run_settings(config(text) if text is not None else None, overrides)
    assert type(settings) is kind
    assert settings.algorithm == {TrainSettings: "ppo", RainbowSettings: "rainbow"}[kind]


def test_the_configs_that_come_with_soulslab_are_of_their_algorithms():
    assert type(load_run_settings(config_path(Path("demo.toml")))) is TrainSettings
    assert type(load_run_settings(config_path(Path("rainbow.toml")))) is RainbowSettings


@pytest.mark.parametrize("overrides", [("algorithm=rianbow",), ("algorithm='rianbow'",)])
def test_an_algorithm_that_there_is_not(overrides):
    with pytest.raises(ConfigError, match="algorithm: 'rianbow' is not an algorithm; did you mean 'rainbow'"):
        load_run_settings(None, overrides)


@pytest.mark.parametrize("text", ["algorithm = 'dqn'", "algorithm = 3"])
def test_an_algorithm_that_there_is_not_names_the_file(config, text):
    with pytest.raises(ConfigError, match=r"config.toml: algorithm: '(dqn|3)' is not an algorithm .*ppo"):
        load_run_settings(config(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[learner]\nn_step = 5", r"config.toml: learner.n_step: .*did you mean 'n_steps'"),
        ("[replay]\ncapacty = 5", r"replay.capacty: .*did you mean 'capacity'"),
        ("[network]\nis_duelling = true", r"network.is_duelling: .*did you mean 'is_dueling'"),
        ("[demonstration]\npath = 'x'", r"demonstration: .*did you mean 'demonstrations'"),
        ("[run]\nstart_form = 'x'", r"run.start_form: .*did you mean 'start_from'"),
        ("[learner]\nclip = 0.2", r"learner.clip: "),  # PPO has it
        ("[learner]\nbatch_size = 0", r"learner.batch_size: "),
        ("[learner]\nepsilon = 1.5", r"learner.epsilon: "),
        ("[run]\nactor = 'there'", r"run.actor: "),
    ],
)
def test_mistakes_in_a_config_are_named_with_their_place(config, text, message):
    path = config(f"algorithm = 'rainbow'\n{text}")
    with pytest.raises(ConfigError, match=message):
        load_run_settings(path)


def test_a_setting_of_the_other_algorithm_is_none():
    with pytest.raises(ConfigError, match=r"replay"):
        load_run_settings(None, ["replay.capacity=10"])
    assert load_run_settings(None, ["algorithm=rainbow", "replay.capacity=10"]).replay.capacity == 10


@pytest.mark.parametrize("text", ["algorithm = [", "algorithm = 'rainbow'\n[env"])
def test_a_file_that_is_not_toml_is_reported(config, text):
    with pytest.raises(ConfigError, match="is not valid TOML"):
        load_run_settings(config(text))


def test_no_file(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        load_run_settings(tmp_path / "nothing.toml")


@pytest.mark.parametrize("algorithm", ["ppo", "rainbow"])
def test_each_is_trained_by_its_own_trainer(algorithm, tmp_path):
    overrides = [f"algorithm={algorithm}", "env.id=toys/Corridor-v0", "env.n_envs=4", "network.widths=[8]"]
    overrides += ["run.total_steps=300"]
    overrides += ["run.evaluate_every=0"] if algorithm == "rainbow" else ["learner.n_steps=16"]
    settings = load_run_settings(None, overrides)
    result = train(settings, tmp_path / "run")
    assert result.env_steps >= 300
    assert load_run_settings(tmp_path / "run" / "config.toml") == settings


# --- what ends a run ----------------------------------------------------------------------------------------


class Leaving(gymnasium.Env):
    """A game that is gone after a while, for good or until it is made anew."""

    observation_space = Box(0.0, 1.0, (2,), np.float32)
    action_space = Discrete(2)

    def __init__(self, goes_at=300, is_plain=False):
        self._n_steps_left, self._error = goes_at, ValueError if is_plain else SoulslabError

    def reset(self, *, seed=None, options=None):  # noqa: ARG002
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):  # noqa: ARG002
        if self._n_steps_left == 0:
            raise self._error("the game is gone")
        self._n_steps_left -= 1
        return np.ones(2, np.float32), 1.0, self._n_steps_left % 10 == 0, False, {}


@pytest.fixture
def leaving():
    gymnasium.register("toys/Leaving-v0", entry_point=Leaving)
    yield "toys/Leaving-v0"
    del gymnasium.registry["toys/Leaving-v0"]


SMALL = {
    "ppo": ["learner.n_steps=64", "learner.minibatch_size=64", "network.widths=[8]"],
    "rainbow": ["learner.learning_starts=100", "network.widths=[8]", "run.evaluate_every=0"],
}


def small(algorithm, env_id, *more):
    changes = [f"algorithm={algorithm}", f"env.id={env_id}", "env.n_envs=1", "run.total_steps=100_000"]
    return load_run_settings(None, [*changes, *SMALL[algorithm], *more])


class Failing:
    """Cannot write from the n-th progress on, and cannot be closed."""

    def __init__(self, n):
        self._n = n

    def write(self, message):
        self._n -= isinstance(message, TrainProgress)
        if self._n == 0:
            raise CheckpointError("progress", "the disk is full")

    def close(self):
        raise CheckpointError("progress", "the disk is full")


class Closed:
    is_closed = False

    def write(self, message):
        pass

    def close(self):
        self.is_closed = True


@pytest.mark.parametrize("error", [SoulslabError, ValueError])
@pytest.mark.parametrize("algorithm", ["ppo", "rainbow"])
def test_a_game_that_is_gone_ends_a_run_that_saved_everything_first(algorithm, error, leaving, tmp_path):
    settings = small(algorithm, leaving, f"env.options.is_plain={'true' if error is ValueError else 'false'}")
    for n_parts in (1, 2):
        with pytest.raises(error, match="the game is gone"):
            train(settings, tmp_path / "run", resume=n_parts == 2)
        (*_, path) = CheckpointStore(tmp_path / "run" / "checkpoints", 3).paths()
        assert path.stem == f"step_{n_parts * 300:015d}"


@pytest.mark.parametrize("algorithm", ["ppo", "rainbow"])
def test_every_listener_is_closed_though_one_fails(algorithm, tmp_path):
    sinks = [Failing(1), Closed(), Failing(99), Closed()]
    settings = small(algorithm, "toys/Corridor-v0")
    with pytest.raises(CheckpointError, match="the disk is full"):
        train(settings, tmp_path / "run", sinks=sinks)
    assert sinks[1].is_closed
    assert sinks[3].is_closed
    assert not CheckpointStore(tmp_path / "run" / "checkpoints", 3).paths()  # nothing is tried that will fail too


@pytest.mark.parametrize(
    ("overrides", "config"),
    [
        ([], "demo.toml"),
        (["env.id=soulslab/Arena-v0", "run.seed=3"], "demo.toml"),
        (["algorithm=rainbow"], "rainbow.toml"),
        (["env.id=soulslab/Doom-v0"], "doom.toml"),
        (["env.id='CartPole-v1'"], "any.toml"),
        (["env.id=CartPole-v1", "env.id=soulslab/Arena-v0"], "demo.toml"),
    ],
)
def test_a_run_without_a_config_takes_the_one_for_its_environment(overrides, config):
    assert load_new_run_settings(None, overrides) == load_run_settings(config_path(config), overrides)


def test_rainbow_on_any_environment_takes_its_defaults():
    overrides = ["algorithm=rainbow", "env.id=CartPole-v1"]
    assert load_new_run_settings(None, overrides) == load_run_settings(None, overrides)


def test_a_given_config_is_taken():
    assert load_new_run_settings(config_path("pixels.toml")) == load_run_settings(config_path("pixels.toml"))


def test_the_settings_for_any_environment_learn(tmp_path):
    overrides = ["env.id=toys/Corridor-v0", "run.total_steps=20_000", "run.seed=1"]
    assert train(load_new_run_settings(None, overrides), tmp_path / "run").win_rate > 0.9
