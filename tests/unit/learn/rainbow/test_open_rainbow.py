"""Opening a Rainbow run, new or resumed."""

import msgspec
import pytest
import torch
from gymnasium.vector import VectorWrapper

from soulslab.errors import DemonstrationError
from soulslab.learn.rainbow import rainbow_algorithm
from soulslab.learn.rainbow.q_policy import QPolicy
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


def test_a_run_learns_in_the_true_fights_from_simulated_ones_and_is_resumed(tmp_path):
    record_random(tmp_path / "simulated", "soulslab/Arena-v0", ARENA, 1)
    shown = DemonstrationSettings(path=str(tmp_path / "simulated"), is_simulated=True, cloning_updates=2)
    settings = RainbowSettings(
        env=EnvSettings(n_envs=1, options={**ARENA, "boss": "trickster"}),
        learner=QLearningSettings(learning_starts=5, batch_size=8),
        network=QNetworkSettings(widths=(8,), n_quantiles=2),
        demonstrations=shown,
        run=RainbowRunSettings(total_steps=40, evaluate_every=0),
    )
    refused = msgspec.structs.replace(settings, demonstrations=msgspec.structs.replace(shown, is_simulated=False))
    with pytest.raises(DemonstrationError, match="boss is 'judge' in the recording and 'trickster' here"):
        train(refused, tmp_path / "run")
    first = train(settings, tmp_path / "run")
    before = QPolicy.load(first.policy_path).network.parameters_flat.clone()
    longer = msgspec.structs.replace(settings, run=msgspec.structs.replace(settings.run, total_steps=80))
    second = train(longer, tmp_path / "run", resume=True)
    assert 40 <= first.env_steps < 80 <= second.env_steps
    assert not torch.equal(before, QPolicy.load(second.policy_path).network.parameters_flat)
