"""Small runs for tests of whole Rainbow runs."""

import pytest

from soulslab.learn.rainbow.rainbow_settings import (
    QLearningSettings,
    QNetworkSettings,
    RainbowEnvSettings,
    RainbowRunSettings,
    RainbowSettings,
)
from soulslab.learn.settings import ReplaySettings


@pytest.fixture(scope="session")
def corridor():
    """A run on the corridor that learns to win; it takes two seconds."""
    return RainbowSettings(
        env=RainbowEnvSettings(id="toys/Corridor-v0", n_envs=4),
        learner=QLearningSettings(
            batch_size=32,
            updates_per_step=0.5,
            learning_starts=100,
            lr=3e-3,
            gamma=0.95,
            epsilon_decisions=2000,
            epsilon_end=0.05,
        ),
        replay=ReplaySettings(capacity=10_000),
        network=QNetworkSettings(widths=(32,), n_quantiles=4),
        run=RainbowRunSettings(total_steps=4000, seed=3, evaluate_every=1000, evaluate_fights=20, evaluate_envs=20),
    )
