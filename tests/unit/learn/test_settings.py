from pathlib import Path

import pytest

import soulslab.learn
from soulslab.config import load_settings
from soulslab.errors import ConfigError
from soulslab.learn.settings import TrainSettings
from soulslab.learn.training import load_run_settings

CONFIGS = sorted((Path(soulslab.learn.__file__).parent / "configs").glob("*.toml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_shipped_configs_load(path):
    assert load_run_settings(path).env.id


@pytest.mark.parametrize(
    ("override", "place"),
    [
        ("learner.learning_rate=1", "learner.learning_rate"),
        ("learner.clip=1.5", "learner.clip"),
        ("learner.gamma=0.0", "learner.gamma"),
        ("learner.n_epochs=0", "learner.n_epochs"),
        ("network.activation=gelu", "network.activation"),
        ("network.widths=[]", "network.widths"),
        ("env.n_envs=0", "env.n_envs"),
        ("run.seed=-1", "run.seed"),
        ("run.max_seconds=0.0", "run.max_seconds"),
    ],
)
def test_mistakes_are_located(override, place):
    with pytest.raises(ConfigError) as caught:
        load_settings(TrainSettings, None, [override])
    assert caught.value.path == place
