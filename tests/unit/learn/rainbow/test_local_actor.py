"""Statistics of an actor in the process of the learner."""

import pytest

from soulslab.learn.actors.transport import Weights
from soulslab.learn.environment import make_vector
from soulslab.learn.rainbow.local_actor import LocalActor
from support.policies import q_policy


def begun(env_id, state=None, **sizes):
    policy = q_policy(env_id=env_id, **sizes)
    playing = LocalActor(make_vector(env_id, 2, {}), policy, 0)
    playing.begin(state, 0)
    playing.channel.publish(Weights(version=1, epsilon=1.0, tensors=policy.weights()))
    return playing


def test_late_steps_of_a_game_that_does_not_wait_are_reported():
    playing = begun("toys/Late-v0", n_features=1, n_actions=2)
    assert playing.stats(0, 0).lateness_p99_ms is None
    for _ in range(3):
        playing.advance()
    stats = playing.stats(6, 1)
    assert stats.n_late == 3
    assert stats.lateness_p99_ms == pytest.approx(30.0, rel=0.02)
    assert playing.stats(6, 1).lateness_p99_ms is None  # reported before
    again = begun("toys/Late-v0", playing.state(with_env=True), n_features=1, n_actions=2)
    again.advance()
    stats = again.stats(8, 1)
    assert stats.n_late == 4
    assert stats.lateness_p99_ms == pytest.approx(10.0)
    playing.close()
    again.close()


def test_a_game_that_waits_has_no_late_steps():
    playing = begun("toys/Corridor-v0")
    playing.advance()
    stats = playing.stats(2, 1)
    assert (stats.n_late, stats.lateness_p99_ms) == (0, None)
    playing.close()
