"""The toy environments exist in every test of the learner; small runs on two of them are at hand."""

from __future__ import annotations

import pytest

from soulslab.learn.settings import EnvSettings, NetworkSettings, PPOSettings, RunSettings, TrainSettings
from support.pixel_toys import register_pixel_toys
from support.toys import register_toys


@pytest.fixture(scope="session", autouse=True)
def toys():
    register_toys()
    register_pixel_toys()


@pytest.fixture
def corridor():
    """A run of 32 iterations on the corridor; half a second."""
    return TrainSettings(
        env=EnvSettings(id="toys/Corridor-v0", n_envs=64),
        learner=PPOSettings(n_steps=16, minibatch_size=256, lr=3e-3),
        network=NetworkSettings(widths=(32,)),
        run=RunSettings(total_steps=40_000, seed=3),
    )


@pytest.fixture
def dot():
    """A run of 31 iterations on the dot, from two frames at once; two seconds."""
    return TrainSettings(
        env=EnvSettings(id="toys/Dot-v0", n_envs=8, frame_stack=2),
        learner=PPOSettings(n_steps=32, minibatch_size=64, lr=2e-3, lr_end=2e-3, gamma=0.5),
        network=NetworkSettings(convolutions=((8, 4, 2), (16, 3, 2)), widths=(32,), shared=True),
        run=RunSettings(total_steps=8000, seed=0),
    )
