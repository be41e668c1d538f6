"""The toy environments exist in every test of the learner; a small run on one of them is at hand."""

from __future__ import annotations

import pytest

from soulslab.learn.settings import EnvSettings, NetworkSettings, PPOSettings, RunSettings, TrainSettings
from support.toys import register_toys


@pytest.fixture(scope="session", autouse=True)
def toys():
    register_toys()


@pytest.fixture
def corridor():
    """A run of 32 iterations on the corridor; half a second."""
    return TrainSettings(
        env=EnvSettings(id="toys/Corridor-v0", n_envs=64),
        learner=PPOSettings(n_steps=16, minibatch_size=256, lr=3e-3),
        network=NetworkSettings(widths=(32,)),
        run=RunSettings(total_steps=40_000, seed=3),
    )
