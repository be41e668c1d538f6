"""Recorded fights in a run: seen by the normaliser, cloned before and beside, and resumed exactly."""

import msgspec
import numpy as np
import pytest
import torch

from soulslab.errors import DemonstrationError
from soulslab.learn.demonstrations.reading import read_demonstrations
from soulslab.learn.environment import make_vector
from soulslab.learn.rainbow.demonstration_learning import DemonstrationLearning
from soulslab.learn.rainbow.q_learner import Learner
from soulslab.learn.rainbow.q_policy import QHeader, QPolicy
from soulslab.learn.rainbow.rainbow_settings import (
    DemonstrationSettings,
    QLearningSettings,
    QNetworkSettings,
    RainbowSettings,
)
from soulslab.learn.replay.replay_buffer import ReplayBuffer
from soulslab.learn.replay.step_rows import StepShape
from soulslab.learn.settings import EnvSettings, ReplaySettings
from support.fights import ARENA, record_random

SHAPE = StepShape(n_features=74, n_actions=20)
SETTINGS = RainbowSettings(
    env=EnvSettings(n_envs=1, options=ARENA),
    learner=QLearningSettings(batch_size=16),
    replay=ReplaySettings(capacity=500),
    network=QNetworkSettings(widths=(16,), n_quantiles=2),
    demonstrations=DemonstrationSettings(cloning_updates=3, cloning_every=2, cloning_decisions=100),
)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shown") / "random"
    record_random(folder, "soulslab/Arena-v0", ARENA, 2)
    return read_demonstrations(folder, make_vector("soulslab/Arena-v0", 1, ARENA), SETTINGS.env, is_masked=True)


class Run:
    """The parts of a run that recorded fights have to do with."""

    def __init__(self, rows, settings=SETTINGS):
        header = QHeader(
            env_id=settings.env.id,
            env_options=ARENA,
            n_features=74,
            n_actions=20,
            network=settings.network,
            soulslab="",
            commit="",
        )
        self.policy = QPolicy(header, torch.Generator().manual_seed(1))
        self.rng = np.random.default_rng(2)
        self.own = ReplayBuffer(SHAPE, settings.replay, 1)
        self.own.append(rows[:40])
        self.teaching = DemonstrationLearning(settings, rows, SHAPE, self.own, self.policy, self.rng)
        self._settings = settings

    def begin(self):
        self.teaching.begin()
        self.learner = Learner(
            self._settings.learner, self._settings.replay, self.policy, self.teaching.replay, self.rng
        )

    def update(self, env_steps):
        self.learner.update(0.5)
        self.teaching.after_update(self.learner.n_updates, env_steps)

    def weights(self):
        return self.policy.network.parameters_flat.clone()


def with_changes(**changes):
    demonstrations = msgspec.structs.replace(SETTINGS.demonstrations, **changes)
    return msgspec.structs.replace(SETTINGS, demonstrations=demonstrations)


def test_the_normaliser_sees_what_was_shown(rows):
    run = Run(rows)
    run.begin()
    np.testing.assert_allclose(run.policy.moments.mean, rows["features"].mean(axis=0), atol=1e-4)


def test_cloning_before_and_beside_and_then_no_more(rows):
    weights = {}
    for name, settings in (
        ("none", with_changes(cloning_updates=0, cloning_every=0)),
        ("before", with_changes(cloning_every=0)),
        ("beside", with_changes(cloning_updates=0)),
    ):
        run = Run(rows, settings)
        run.begin()
        begun = run.weights()
        run.update(0)
        first = run.weights()
        run.update(0)
        weights[name] = begun, first, run.weights()
    assert not torch.equal(weights["none"][0], weights["before"][0])
    assert torch.equal(weights["none"][1], weights["beside"][1])
    assert not torch.equal(weights["none"][2], weights["beside"][2])
    faded = Run(rows, with_changes(cloning_updates=0))
    faded.begin()
    for _ in range(2):
        faded.update(100)
    assert torch.equal(faded.weights(), weights["none"][2])


def test_a_resumed_run_is_the_same(rows):
    run = Run(rows)
    run.begin()
    for env_steps in range(4):
        run.update(env_steps)
    resumed = Run(rows)
    resumed.policy.load_state(run.policy.state())
    resumed.teaching.load(run.teaching.state())
    resumed.learner = Learner(SETTINGS.learner, SETTINGS.replay, resumed.policy, resumed.teaching.replay, resumed.rng)
    resumed.learner.load(run.learner.state())
    resumed.own.load(run.own.state())
    resumed.rng.bit_generator.state = run.rng.bit_generator.state
    for env_steps in range(4, 8):
        run.update(env_steps)
        resumed.update(env_steps)
    assert torch.equal(run.weights(), resumed.weights())


def test_a_data_set_that_has_changed_since(rows):
    state = Run(rows).teaching.state()
    with pytest.raises(DemonstrationError, match=rf"has \d+ steps, but had {len(rows)} when the run began; restore it"):
        Run(rows[: rows["is_first"].nonzero()[0][1]]).teaching.load(state)
