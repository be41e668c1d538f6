"""A server without space or without an answer: games keep their steps, then drop whole episodes, and never wait."""

import os
import signal
from contextlib import closing
from itertools import pairwise

import pytest
from redis.exceptions import OutOfMemoryError

from benchmarks.full_disk import LENGTH, ROW, SHAPE, fill_disk, numbered_rows, small_disk
from soulslab.fleet.access import Keys, connect, write
from soulslab.fleet.fleet_folder import FleetFolder
from soulslab.fleet.game_roster import GameRoster
from soulslab.fleet.messages import Lease
from soulslab.fleet.operating import give_order
from soulslab.fleet.redis_actor_end import RedisActorEnd
from soulslab.fleet.redis_learner_end import RedisLearnerEnd
from soulslab.fleet.spool import Spool
from support.redis import redis_server
from support.steps import some_weights
from support.waiting import wait_for


@pytest.fixture
def served(tmp_path):
    with redis_server(tmp_path / "redis", max_memory_mb=16) as server:
        yield server


def a_lease(actor):
    return Lease(worker="game", incarnation=actor.incarnation, host="here", state="playing", n_envs=1, soulslab="0")


def take_all(learner, until):
    """Take and commit, as a learner with checkpoints, until a condition holds; return the numbers of the rows."""
    found = []

    def is_over():
        found.extend(learner.take()["features"][:, 0].astype(int).tolist())
        learner.commit(learner.state())
        return until(found)

    wait_for(is_over, "the rows")
    return found


def test_a_full_server_delays_steps_and_loses_none_and_orders_reach_the_games(served, tmp_path):
    spool = Spool(tmp_path / "spool", 256 << 20, memory_bytes=1 << 20)
    actor = RedisActorEnd(served.game, "game", 1, ROW, spool, some_weights(0).tensors)
    actor.keep_lease(lambda: a_lease(actor))
    assert actor.refresh()
    n = 20_000  # 40 MB
    for start in range(0, n, 50):
        actor.push(numbered_rows(start, 50))
    wait_for(lambda: spool.n_file_bytes > 10 << 20, "a spool")
    assert not actor.flush(0.5)
    # Orders and weights reach a game of a server that has no byte left, and the game is not lost.
    with closing(connect(served.learner)) as client:
        client.config_set("maxmemory", 8 << 20)
    learner = RedisLearnerEnd(served.learner, SHAPE, 1)
    roster = GameRoster(served.learner, learner, 0.0)
    learner.set_duty(lambda client: roster.attend(client, is_behind=False))
    learner.publish(some_weights(3))
    folder, keys = FleetFolder(tmp_path / "run"), Keys(served.learner.run)
    folder.make(served.learner)
    with closing(connect(served.learner)) as client:
        write(client, "SET", keys.learner, "{}")
        give_order(folder, "pause")
        lease = keys.lease(served.game.user, actor.incarnation)
        client.pexpire(lease, 6000)
        wait_for(lambda: actor.order is not None and actor.control.state == "pause", "the orders")
        wait_for(lambda: (weights := actor.pull(-1)) is not None and weights.version == 3, "the weights")
        wait_for(lambda: client.pttl(lease) > 7000, "the lease")
        assert [each.worker for each in roster.leases()] == ["game"]
        assert spool.n_file_bytes > 10 << 20  # the server is still full
        client.config_set("maxmemory", 16 << 20)

    def fail(_):
        raise OutOfMemoryError("refused")

    learner.set_duty(fail)  # the learner reads and trims nevertheless
    assert take_all(learner, lambda found: len(found) == n) == list(range(n))
    assert actor.flush(10.0)
    assert actor.n_dropped == 0
    assert spool.n_bytes == 0
    actor.close()
    learner.close()


def test_without_space_whole_episodes_are_dropped_and_counted(served, tmp_path):
    spool = Spool(tmp_path / "spool", 2 << 20, memory_bytes=1 << 20)
    os.kill(served.server.pid, signal.SIGSTOP)  # as if the network was interrupted
    actor = RedisActorEnd(served.game, "game", 1, ROW, spool, some_weights(0).tensors)
    n = 5000  # 10 MB
    for start in range(0, n, 50):
        actor.push(numbered_rows(start, 50))
    wait_for(lambda: actor.n_dropped > 0, "dropped rows")
    os.kill(served.server.pid, signal.SIGCONT)
    assert actor.flush(20.0)
    actor.push(numbered_rows(n, LENGTH))
    learner = RedisLearnerEnd(served.learner, SHAPE, 1)
    found = take_all(learner, lambda found: found and found[-1] == n + LENGTH - 1)
    assert len(found) + actor.n_dropped == n + LENGTH
    # What arrives is whole episodes, or the beginning of one.
    for before, after in pairwise(found):
        assert after == before + 1 or after % LENGTH == 0
    assert learner.n_dropped == 0
    actor.close()
    learner.close()


def test_messages_of_a_backlog_survive_sigkill_of_the_server(tmp_path):
    with redis_server(tmp_path / "redis", max_memory_mb=64) as served:
        actor = RedisActorEnd(served.game, "game", 1, ROW, Spool(tmp_path, 64 << 20), some_weights(0).tensors)
        n = 4000  # 8 MB, in many messages
        for start in range(0, n, 50):
            actor.push(numbered_rows(start, 50))
        assert actor.flush(20.0)
        os.kill(served.server.pid, signal.SIGKILL)
        learner = RedisLearnerEnd(served.learner, SHAPE, 1)

        def is_complete(found):
            served.server.watch(served.users)
            return len(found) == n

        assert take_all(learner, is_complete) == list(range(n))
        actor.close()
        learner.close()


def test_a_full_disk_of_the_server_delays_steps_and_loses_none(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        if disk is None:
            pytest.skip("this user may not mount a file system")
        report = fill_disk(disk, tmp_path)
    assert (report.n_lost, report.n_repeated, report.n_dropped) == (0, 0, 0)
    assert report.n_failures > 0


def test_a_game_never_waits_for_a_server_that_does_not_answer(served, tmp_path):
    spool = Spool(tmp_path / "spool", 64 << 20)
    actor = RedisActorEnd(served.game, "game", 1, ROW, spool, some_weights(0).tensors)
    os.kill(served.server.pid, signal.SIGSTOP)
    try:
        for number in range(2000):
            actor.push(numbered_rows(number, 1))
            assert actor.pull(-1) is None
    finally:
        os.kill(served.server.pid, signal.SIGCONT)
    assert actor.flush(20.0)
    actor.close()
