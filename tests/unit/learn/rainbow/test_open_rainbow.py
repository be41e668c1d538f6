"""Opening a Rainbow run, new or resumed."""

import msgspec
import pytest
from gymnasium.vector import VectorWrapper

from soulslab.learn.rainbow import rainbow_algorithm
from soulslab.learn.rainbow.rainbow_algorithm import open_rainbow
from soulslab.learn.rainbow.rainbow_settings import (
    DemonstrationSettings,
    QLearningSettings,
    QNetworkSettings,
    RainbowRunSettings,
    RainbowSettings,
)
from soulslab.learn.run_folder import RunFolder
from soulslab.learn.settings import EnvSettings
from soulslab.learn.train import train
from support.fights import ARENA, record_random


class Counting(VectorWrapper):
    """Counts the resets of all environments."""

    n_resets = 0

    def reset(self, **arguments):
        Counting.n_resets += 1
        return self.env.reset(**arguments)


@pytest.mark.parametrize("actor", ["here", "apart"])
def test_resumed_run_starts_no_fight_when_it_reads_demonstrations(tmp_path, monkeypatch, actor):
    """A remote actor may be in the middle of a fight in the same game."""
    record_random(tmp_path / "shown", "soulslab/Arena-v0", ARENA, 1)
    settings = RainbowSettings(
        env=EnvSettings(n_envs=1, options=ARENA),
        learner=QLearningSettings(learning_starts=1_000_000),
        network=QNetworkSettings(widths=(8,), n_quantiles=2),
        demonstrations=DemonstrationSettings(path=str(tmp_path / "shown"), cloning_updates=0),
        run=RainbowRunSettings(total_steps=20, evaluate_every=0),
    )
    train(settings, tmp_path / "run")
    settings = msgspec.structs.replace(settings, run=msgspec.structs.replace(settings.run, actor=actor))
    make_vector = rainbow_algorithm.make_vector
    monkeypatch.setattr(rainbow_algorithm, "make_vector", lambda *arguments: Counting(make_vector(*arguments)))
    monkeypatch.setattr(Counting, "n_resets", 0)
    folder = RunFolder(tmp_path / "run", settings, resume=True)
    algorithm = open_rainbow(folder, lambda *_: None)
    algorithm.close()
    folder.close()
    assert algorithm._demonstrations is not None
    assert Counting.n_resets == 0
