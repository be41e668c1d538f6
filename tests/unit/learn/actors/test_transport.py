"""The contract of a transport, for each implementation."""

from collections.abc import Iterator

import numpy as np
import pytest

from soulslab.fleet.redis_actor_end import RedisActorEnd
from soulslab.fleet.redis_learner_end import RedisLearnerEnd
from soulslab.fleet.redis_transport import RedisTransport
from soulslab.learn.actors.shared_memory import create_memory
from soulslab.learn.actors.shared_memory_transport import SharedMemoryTransport
from soulslab.learn.actors.transport import InProcessTransport, Transport
from soulslab.learn.replay.step_rows import Outcome
from support.redis import redis_server
from support.steps import ROW, SHAPE, assert_of_one_version, numbers_of, result, some_weights, steps

N_STREAMS = 2


@pytest.fixture(params=["in process", "shared memory", "redis"])
def transport(request, tmp_path) -> Iterator[Transport]:
    weights = some_weights(0).tensors
    if request.param == "in process":
        yield InProcessTransport(ROW, N_STREAMS)
    elif request.param == "shared memory":
        yield SharedMemoryTransport(create_memory(tmp_path, ROW, N_STREAMS, weights), N_STREAMS)
    else:
        with redis_server(tmp_path) as served:
            yield RedisTransport(served.learner, served.game, SHAPE, N_STREAMS, weights)


@pytest.fixture
def actor(transport):
    end = transport.actor_end()
    yield Delivered(end) if isinstance(end, RedisActorEnd) else end
    if isinstance(end, RedisActorEnd):
        end.close()


@pytest.fixture
def learner(transport):
    end = transport.learner_end()
    yield Delivered(end) if isinstance(end, RedisLearnerEnd) else end
    if isinstance(end, RedisLearnerEnd):
        end.close()


class Delivered:
    """An end of a transport over a network: each call also waits until everything is delivered."""

    def __init__(self, end):
        self._end = end

    def __getattr__(self, name):
        method = getattr(self._end, name)

        def call(*arguments):
            if name == "pull":
                assert self._end.refresh()
            elif name.startswith("take"):
                assert self._end.flush()
            value = method(*arguments)
            if name.startswith("push"):
                assert self._end.flush(5.0)
            elif name in ("publish", "commit"):
                assert self._end.flush()
            return value

        return call if callable(method) else method


def push_step(actor, number, *, n_decisions=1):
    """Push one step of both environments; an episode takes five steps."""
    rows = np.concatenate([steps(number, 1, stream=stream) for stream in range(N_STREAMS)])
    rows["n_decisions"] = n_decisions
    actor.push(rows)


def test_a_new_transport_is_empty(actor, learner):
    assert len(learner.take()) == 0
    assert learner.take().dtype == ROW
    assert learner.take_episodes() == []
    assert actor.pull(-1) is None
    assert learner.n_dropped == 0


def test_rows_arrive_once_and_in_order(actor, learner):
    for number in range(3):
        push_step(actor, number)
    rows = learner.take()
    assert rows["stream"].tolist() == [0, 1] * 3
    assert numbers_of(rows, 0) == numbers_of(rows, 1) == [0, 1, 2]
    assert len(learner.take()) == 0
    push_step(actor, 3)
    assert numbers_of(learner.take()) == [3]


def test_rows_do_not_change_after_the_push(actor, learner):
    rows = steps(0, 1)
    actor.push(rows)
    rows["features"] = -1.0
    assert numbers_of(learner.take()) == [0]


def test_results_arrive_once_and_in_order(actor, learner):
    actor.push_episodes([result(1), result(2, n_attacks=100)])
    actor.push_episodes([result(3)])
    learner.take()
    assert learner.take_episodes() == [result(1), result(2, n_attacks=100), result(3)]
    assert learner.take_episodes() == []


def test_the_actor_gets_the_newest_weights_once(actor, learner):
    learner.publish(some_weights(3))
    learner.publish(some_weights(4))
    weights = actor.pull(-1)
    assert weights.version == 4
    assert_of_one_version(weights)
    assert actor.pull(4) is None
    learner.publish(some_weights(5))
    assert actor.pull(4).version == 5


def test_rows_stop_after_the_step_that_reaches_the_limit(actor, learner):
    for number in range(4):
        push_step(actor, number)
    # The third decision belongs to the second step; that step is kept for all environments.
    rows = learner.take(3)
    assert (numbers_of(rows, 0), numbers_of(rows, 1)) == ([0, 1], [0, 1])
    assert len(learner.take()) == 0


def test_a_limit_that_is_not_reached_changes_nothing(actor, learner):
    push_step(actor, 0, n_decisions=4)
    push_step(actor, 1, n_decisions=4)
    assert numbers_of(learner.take(16)) == [0, 1]
    push_step(actor, 2, n_decisions=4)
    push_step(actor, 3, n_decisions=4)
    assert numbers_of(learner.take(5)) == [2]


def test_a_limit_of_nothing_discards_all(actor, learner):
    push_step(actor, 0)
    assert len(learner.take(0)) == 0
    push_step(actor, 1)
    assert len(learner.take(0)) == 0
    assert learner.n_dropped == 0
    push_step(actor, 5)
    assert numbers_of(learner.take()) == [5]


def test_final_rows_stay_with_their_step(actor, learner):
    rows = np.concatenate([steps(0, 1, stream=0), steps(0, 1, stream=1), steps(1, 1, stream=0), steps(1, 1, stream=1)])
    rows["outcome"] = [Outcome.TRUNCATED, Outcome.TRUNCATED, Outcome.FINAL, Outcome.FINAL]
    actor.push(rows)
    push_step(actor, 5)
    assert learner.take(2)["outcome"].tolist() == rows["outcome"].tolist()


def test_after_a_limit_each_environment_continues_with_a_new_episode(actor, learner):
    for number in range(3):
        push_step(actor, number)
    assert numbers_of(learner.take(2)) == [0]
    for number in range(3, 7):
        push_step(actor, number)
    rows = learner.take()
    assert numbers_of(rows, 0) == numbers_of(rows, 1) == [5, 6]


def test_what_was_taken_can_be_committed(actor, learner):
    push_step(actor, 0)
    learner.take()
    learner.commit(learner.state())
    push_step(actor, 1)
    assert numbers_of(learner.take()) == [1]
