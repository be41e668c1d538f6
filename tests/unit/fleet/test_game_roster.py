"""The games of a learner: admission, refusal, and how far a simulator may be ahead."""

import sys
import time
from contextlib import closing, contextmanager

import msgspec
import numpy as np
import pytest

from soulslab.errors import ConfigError
from soulslab.fleet import game_roster, messages, redis_learner_end, stream_reader
from soulslab.fleet.access import Keys, connect
from soulslab.fleet.chunk import encode_chunk
from soulslab.fleet.game_roster import MAX_ROWS_AHEAD, MIN_ROWS_AHEAD, GameRoster, Pace
from soulslab.fleet.messages import Lease, ServerClock, printable
from soulslab.fleet.redis_actor_end import RedisActorEnd
from soulslab.fleet.redis_learner_end import RedisLearnerEnd
from soulslab.fleet.spool import Spool
from support.redis import redis_server
from support.steps import ROW, SHAPE, numbers_of, some_weights, steps
from support.waiting import wait_for

posix = pytest.mark.skipif(sys.platform == "win32", reason="the server runs on Linux")
KEYS = Keys("test")
CLEAR = "\x1b[2J"


def allowed_after(n_taken, seconds, n_envs=1):
    """Return the rows that may be sent beyond those taken, if the learner took these in some seconds."""
    before = Pace(n_taken=1000, at=time.monotonic() - seconds, n_allowed=0)
    pace = before.after(1000 + n_taken, n_envs, was_behind=True)
    return pace.n_allowed - pace.n_taken


def test_a_simulator_may_be_ahead_by_the_rows_of_a_second():
    assert allowed_after(400, 10.0) == pytest.approx(40, abs=1)
    assert allowed_after(400, 5.0, n_envs=4) == pytest.approx(80, abs=1)


def test_the_rows_ahead_are_bounded_for_each_environment():
    assert allowed_after(0, 10.0) == MIN_ROWS_AHEAD
    assert allowed_after(0, 10.0, n_envs=3) == 3 * MIN_ROWS_AHEAD
    assert allowed_after(100_000, 1.0, n_envs=2) == 2 * MAX_ROWS_AHEAD


def test_without_updates_that_are_due_a_simulator_gets_faster():
    pace = Pace(n_taken=0, at=0.0, n_allowed=0).after(0, 1, was_behind=False)
    windows = []
    for _ in range(6):
        windows.append(pace.n_allowed - pace.n_taken)
        pace = pace.after(pace.n_allowed, 1, was_behind=False)
    assert windows == [8, 16, 32, 64, 100, 100]
    waiting = pace.after(pace.n_allowed - 1, 1, was_behind=False)  # not all rows have arrived
    assert waiting.n_allowed - waiting.n_taken == 100


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def admin(served):
    with closing(connect(served.learner)) as client:
        client.flushdb()
        yield client


@pytest.fixture
def new_game(served, tmp_path):
    """Return a function that starts the end of a game with a lease."""
    ends = []

    def start():
        end = RedisActorEnd(served.game, "game", 1, ROW, Spool(tmp_path, 1 << 20), some_weights(0).tensors)
        end.keep_lease(lambda: a_lease(incarnation=end.incarnation))
        ends.append(end)
        return end

    yield start
    for end in ends:
        end.close()


@contextmanager
def learner_of(served, state=None):
    """Start the learner's end and the roster of its games."""
    with closing(RedisLearnerEnd(served.learner, SHAPE, 2, state)) as end:
        roster = GameRoster(served.learner, end, 0.0)
        end.set_duty(lambda client: roster.attend(client, is_behind=False))
        yield end, roster


def a_lease(**changes):
    fields = {"worker": "game", "incarnation": "0" * 16, "host": "pc", "state": "playing", "n_envs": 1, "soulslab": "0"}
    return Lease(**{**fields, **changes})


@posix
def test_games_beyond_the_limit_of_a_join_file_are_refused_with_the_reason(
    served, admin, new_game, monkeypatch, caplog
):
    monkeypatch.setattr(stream_reader, "MAX_GAMES_OF_USER", 1)
    monkeypatch.setattr(redis_learner_end, "MAX_GAMES_OF_USER", 1)
    first, second = new_game(), new_game()
    with learner_of(served) as (learner, _):
        first.push(steps(0, 5))
        assert first.flush(5.0)
        assert learner.flush()
        second.push(steps(5, 5))
        wait_for(lambda: second.order is not None and second.order.refusal, "the refusal")
        assert second.order.refusal.startswith("is one of more than 1 games of a join file")
        assert first.order.refusal == ""
        assert numbers_of(learner.take()) == [0, 1, 2, 3, 4]
    assert "more than 1 games use the join file of play-1; the others are refused" in caplog.text


@posix
def test_games_that_ended_long_ago_do_not_count_for_the_limit_of_a_join_file(served, admin, new_game, monkeypatch):
    monkeypatch.setattr(stream_reader, "MAX_GAMES_OF_USER", 1)
    state = {name: np.asarray(array) for name, array in learner_state(served, new_game).items()}
    admin.flushdb()  # a checkpoint removes streams; the positions of their games are kept
    game = new_game()
    game.push(steps(0, 5))
    assert game.flush(5.0)
    with learner_of(served, state) as (learner, _):
        assert learner.flush()
        assert numbers_of(learner.take(), stream=1) == [0, 1, 2, 3, 4]


def learner_state(served, new_game):
    """Return the state of a learner that has taken steps of a game which has ended."""
    game = new_game()
    with learner_of(served) as (learner, _):
        game.push(steps(0, 5))
        assert game.flush(5.0)
        assert learner.flush()
        learner.take()
        game.close()
        return learner.state()


@posix
@pytest.mark.parametrize("n_lost", [0, 300])
def test_a_simulator_does_not_wait_for_rows_that_its_learner_never_took(served, admin, tmp_path, monkeypatch, n_lost):
    """The next learner has no state of the fleet, as after a run in one process, or the game has dropped rows."""
    monkeypatch.setattr(game_roster, "STALL_S", 0.3)
    end = RedisActorEnd(served.game, "game", 1, ROW, Spool(tmp_path, 1 << 20), some_weights(0).tensors)
    with closing(end):
        end.keep_lease(lambda: a_lease(incarnation=end.incarnation, state="waiting", n_pushed=end.n_pushed))
        end.n_pushed += n_lost
        end.push(steps(0, 200))
        assert end.flush(5.0)
        with learner_of(served) as (learner, _):
            assert learner.flush()
            assert len(learner.take()) == 200
            learner.commit(learner.state())
            assert learner.flush()
        with learner_of(served):
            wait_for(lambda: end.order is not None and end.order.n_allowed > end.n_pushed, "an order to play on")


@posix
def test_hostile_text_reaches_no_log_and_no_status(served, admin, caplog):
    bad = [
        a_lease(host=f"pc{CLEAR}"),
        a_lease(last_fault=CLEAR),
        a_lease(soulslab=CLEAR),
        a_lease(worker="b\u00fcro/0"),
    ]
    for number, lease in enumerate(bad):
        admin.set(KEYS.lease("play-1", f"{number:016x}"), msgspec.json.encode(lease))
    admin.set(KEYS.lease("play-1", "f" * 16), msgspec.json.encode(a_lease(last_fault="x" * 50_000)))
    admin.xadd(KEYS.steps("play-1", f"a{CLEAR}"), {"c": b"x"}, id="1-0")
    header = {"kind": "steps", CLEAR: 1}
    chunk = encode_chunk(header, np.empty(0))
    admin.xadd(KEYS.steps("play-1", "e" * 16), {"c": chunk}, id="1-0")
    with learner_of(served) as (learner, roster):
        assert learner.flush()
        learner.take()
        (refusal,) = learner.refusals().values()
        assert refusal.isprintable()
        assert "unknown field" in refusal
        assert roster.leases() == []
        assert learner.flush()
        assert not admin.exists(KEYS.steps("play-1", f"a{CLEAR}"))
    assert f"the lease {KEYS.lease('play-1', '0' * 16)} is malformed, and its game is not admitted" in caplog.text
    assert "(5 such leases)" in caplog.text
    assert "\x1b" not in caplog.text


def test_printable_text_is_text_of_a_lease():
    text = printable("".join(map(chr, range(0x2100))))
    sent = msgspec.json.encode(a_lease(last_fault=text, host="pc"))
    assert msgspec.json.decode(sent, type=Lease).last_fault == text
    assert "b\u00fc\u0436" in printable("b\u00fc\u0436")


@posix
def test_no_row_is_repeated_if_many_games_have_ended(served, admin, new_game, monkeypatch):
    monkeypatch.setattr(redis_learner_end, "MAX_GAMES", 2)
    monkeypatch.setattr(redis_learner_end, "LEASE_S", 0.0)
    with learner_of(served) as (learner, roster):
        found = []

        def take():
            assert learner.flush()
            rows = learner.take()
            learner.commit(learner.state())
            found.extend(rows["features"][:, 0].astype(int).tolist())

        lasting = new_game()
        for number in range(3):  # the first game to send plays on, and the others end
            lasting.push(steps(10 * number, 5))
            game = new_game()
            game.push(steps(10 * number + 5, 5))
            assert lasting.flush(5.0) and game.flush(5.0)
            wait_for(lambda: len(roster.leases()) == 2, "both leases")
            take()
            game.close()
            wait_for(lambda: len(roster.leases()) == 1, "the end of one")
            take()
        lasting.push(steps(100, 5))
        assert lasting.flush(5.0)
        assert learner.flush()
        rows = learner.take()
        state = learner.state()  # not committed, so the last rows are still on the server
        assert lasting.incarnation in learner.sequences()
        assert len(learner.sequences()) <= 3  # the one that ended last may have a stream
    with learner_of(served, state) as (resumed, _):
        assert resumed.flush()
        assert len(resumed.take()) == 0
        assert lasting.incarnation in resumed.sequences()
    found += rows["features"][:, 0].astype(int).tolist()
    assert sorted(found) == sorted([10 * i + j for i in range(3) for j in range(10)] + [*range(100, 105)])


@posix
def test_weights_that_the_server_would_not_take_are_refused_at_the_start(served, admin):
    with closing(RedisLearnerEnd(served.learner, SHAPE, 1)) as learner:
        with pytest.raises(ConfigError, match=r"network: has weights of 34 MiB.*at most 31 MiB"):
            learner.publish(some_weights(0, 9_000_000))
        learner.publish(some_weights(1, 8_000_000))
        assert learner.flush(10.0)


@posix
def test_the_clocks_are_compared_again(served, admin, monkeypatch):
    class Adjusted:
        """The clock of the server after it was set forward by an hour."""

        def time(self):
            seconds, microseconds = admin.time()
            return seconds + 3600, microseconds

    clock = ServerClock()
    assert clock.now_s() == 0.0
    clock.synchronise(admin)
    assert clock.now_s() == pytest.approx(time.time(), abs=1.0)
    clock.synchronise(Adjusted())
    assert clock.now_s() == pytest.approx(time.time(), abs=1.0)
    monkeypatch.setattr(messages, "COMPARE_EVERY_S", 0.0)
    clock.synchronise(Adjusted())
    assert clock.now_s() == pytest.approx(time.time() + 3600, abs=1.0)
