"""PPO with actors elsewhere: it learns with weights that are old, and changes to one process and back."""

from collections import deque

import numpy as np
import pytest
from msgspec.structs import replace

from soulslab.config import Secret
from soulslab.errors import ConfigError
from soulslab.learn.actors.transition_actor import Actor, step_shape
from soulslab.learn.actors.transport import InProcessTransport
from soulslab.learn.environment import make_vector
from soulslab.learn.inputs import Inputs
from soulslab.learn.players import load_player
from soulslab.learn.policy import Policy
from soulslab.learn.replay.step_rows import row_type
from soulslab.learn.run_folder import StopReason
from soulslab.learn.telemetry import ActorStats, UpdateStats
from soulslab.learn.train import train
from support.message_sink import MessageSink


class StaleTransport(InProcessTransport):
    """A transport whose actor gets weights that are some versions old."""

    def __init__(self, row, n_envs, n_late):
        super().__init__(row, n_envs)
        self._waiting, self._n_late = deque(), n_late

    def publish(self, weights):
        self._waiting.append(weights)
        super().publish(self._waiting.popleft() if len(self._waiting) > self._n_late else self._waiting[0])


class StaleFleet:
    """An actor in this process, in place of a fleet; see `soulslab.learn.train.Fleet` and `ActorHandle`."""

    is_remote = True

    def __init__(self, n_late, changes=()):
        self._n_late, self._changes = n_late, dict(changes)

    def open_actor(self, folder, header):
        self._env = make_vector(header.env_id, header.n_envs, folder.options)
        self.channel = StaleTransport(row_type(step_shape(header)), header.n_envs, self._n_late)
        self._actor = Actor(self._env, Policy(header), self.channel, np.random.default_rng(0))
        return self

    def begin(self, state, env_steps):  # noqa: ARG002
        self._actor.reset(env_steps)

    def advance(self, n_updates_due):
        if not n_updates_due:
            self._actor.step()

    def stats(self, env_steps, version):
        staleness = version - self._actor.weights_version
        return ActorStats(
            env_steps=env_steps, staleness_updates=staleness, n_dropped=0, n_late=0, lateness_p99_ms=None, n_restarts=0
        )

    def state(self, *, with_env):  # noqa: ARG002
        return {}

    def saved(self):
        pass

    finish = saved

    def close(self):
        self._env.close()

    def is_stop_requested(self):
        return False

    takes_save_request = is_stop_requested

    def changed_settings(self):
        return self._changes

    def take_evaluation(self, algorithm):  # noqa: ARG002
        return None


def test_it_learns_with_weights_that_are_four_updates_old(corridor, tmp_path):
    sink = MessageSink()
    settings = replace(corridor, run=replace(corridor.run, total_steps=30_000))
    result = train(settings, tmp_path / "run", fleet=StaleFleet(4), sinks=[sink])
    assert result.win_rate > 0.97
    assert max(each.staleness_updates for each in sink.messages if isinstance(each, ActorStats)) >= 4
    seconds = [1.0 / each.updates_per_second for each in sink.messages if isinstance(each, UpdateStats)]
    assert len(seconds) > 20
    assert 0.0 < sum(seconds) <= result.train_seconds


def test_a_run_goes_from_one_process_to_actors_and_back(corridor, tmp_path):
    def until(total_steps):
        return replace(corridor, run=replace(corridor.run, total_steps=total_steps))

    run_dir = tmp_path / "run"
    train(until(5_000), run_dir)
    changes = {"learner.lr": 2e-3, "learner.lr_end": 2e-3, "learner.entropy_end": 0.0}
    fleet, sink = StaleFleet(0, changes), MessageSink()
    assert train(until(10_000), run_dir, resume=True, fleet=fleet, sinks=[sink]).reason is StopReason.COMPLETED
    assert set(rates(sink)) == {2e-3}
    resumed = train(until(15_000), run_dir, resume=True, fleet=StaleFleet(0))
    assert resumed.env_steps >= 15_000
    sink = MessageSink()
    assert train(until(40_000), run_dir, resume=True, sinks=[sink]).win_rate > 0.97
    assert set(rates(sink)) == {2e-3}  # changed settings are kept


def rates(sink):
    return [each.lr for each in sink.messages if isinstance(each, UpdateStats)]


def test_a_secret_is_not_sent_to_actors(corridor, tmp_path):
    options = {"token": Secret("x" * 40)}
    with pytest.raises(ConfigError, match="cannot be passed to the process of a remote actor"):
        train(corridor, tmp_path / "run", fleet=StaleFleet(0), env_options=options)


def test_the_critic_sees_features_that_are_hidden_from_the_actors(corridor, tmp_path):
    network = replace(corridor.network, hidden_features=("*",), critic_sees_hidden=True)
    env, run = replace(corridor.env, options={"is_named": True}), replace(corridor.run, total_steps=8000)
    train(replace(corridor, env=env, network=network, run=run), tmp_path / "run", fleet=StaleFleet(1))
    policy, cells = load_player(tmp_path / "run"), Inputs(np.eye(6, dtype=np.float32)[:5])
    values = policy.judge(cells)
    assert values[0] < values[4]
    assert (policy.scores(cells).numbers == policy.scores(cells).numbers[0]).all()
