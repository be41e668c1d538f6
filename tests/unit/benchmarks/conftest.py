"""A training config for short runs, and the statistics of SciPy."""

import pytest

from soulslab.learn.settings import EnvSettings, NetworkSettings, PPOSettings, RunSettings, TrainSettings


@pytest.fixture
def small_config():
    return TrainSettings(
        env=EnvSettings(n_envs=8, options={"skip_locked": True, "random_pose": True}),
        learner=PPOSettings(n_steps=8, n_epochs=1, minibatch_size=32),
        network=NetworkSettings(widths=(8,)),
        run=RunSettings(total_steps=1000),
    )


@pytest.fixture(scope="session")
def stats():
    """`scipy.stats`; its import takes a second, and each process of the suite collects these tests."""
    from scipy import stats  # noqa: PLC0415

    return stats
