"""The benchmark of our PPO and its peers: equal tasks, and the ratios."""

import msgspec
import pytest

from benchmarks import peers
from benchmarks.peers import PEERS, train_peer
from benchmarks.result import MoreThan
from benchmarks.train import OURS, TrainBenchSettings, compare, measure_training, train_ours
from benchmarks.training_outcome import HALF, MOST, Outcome, Trial
from soulslab.learn.telemetry import TrainFinished, TrainStarted
from support.message_sink import MessageSink
from support.waiting import PATIENCE_S

OUTCOME = Outcome(
    n_envs=8, seconds=10.0, n_decisions=5000, n_policy_steps=1000, half_s=4.0, most_s=8.0, n_fights=10, n_wins=9
)


@pytest.fixture
def trial(small_config):
    endless = msgspec.structs.replace(small_config.run, total_steps=10**9)
    return Trial(train=msgspec.structs.replace(small_config, run=endless), seed=1, limit_s=0.2, n_fights=5)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_a_peer_trains_until_the_time_limit(trial, peer):
    sink = MessageSink()
    outcome = train_peer(peer, trial, [sink])
    assert outcome.n_envs == 8
    assert outcome.n_decisions > outcome.n_policy_steps > 0
    assert outcome.seconds >= trial.limit_s
    assert (outcome.half_s, outcome.most_s) == (None, None)
    assert 0 <= outcome.n_wins <= outcome.n_fights == 5
    assert isinstance(sink.messages[0], TrainStarted)
    assert isinstance(sink.messages[-1], TrainFinished)


def test_a_peer_stops_at_the_win_rate(trial, monkeypatch):
    # One fight is a full window, and no fight has to be won.
    monkeypatch.setattr(peers, "WINDOW", 1)
    monkeypatch.setattr(peers, "HALF", 0.0)
    monkeypatch.setattr(peers, "MOST", 0.0)
    outcome = train_peer(PEERS[1], msgspec.structs.replace(trial, limit_s=PATIENCE_S), [])
    assert outcome.half_s == outcome.most_s <= outcome.seconds < PATIENCE_S


def test_our_policy_steps_are_counted(trial):
    outcome = train_ours(trial, [])
    assert outcome.n_policy_steps % 64 == 0
    assert outcome.n_decisions > outcome.n_policy_steps > 0
    assert outcome.n_fights == 5


def test_all_learners_get_a_row_per_seed(small_config):
    settings = TrainBenchSettings(train=small_config, seeds=(0, 1), limit_s=0.05, n_fights=2)
    runs, ratios = measure_training(settings)
    names = [OURS, *(peer.name for peer in PEERS)]
    assert [(row["seed"], row["learner"]) for row in runs.rows] == [(s, name) for s in (0, 1) for name in names]
    assert all(row["to 80 % (s)"] == MoreThan(0.05) for row in runs.rows)
    assert [row["learner"] for row in ratios.rows] == names[1:]


def change(**fields):
    return msgspec.structs.replace(OUTCOME, **fields)


@pytest.mark.parametrize(
    ("ours", "theirs", "ratio", "is_enough"),
    [
        ([8.0], [20.0], 2.5, False),
        ([8.0], [24.0], 3.0, True),
        ([8.0], [None], MoreThan(12.5), True),
        ([50.0], [None], MoreThan(2.0), None),
        ([None], [20.0], None, None),
        ([8.0, 10.0, None], [40.0, None, 20.0], 4.0, True),
    ],
)
def test_time_ratios(ours, theirs, ratio, is_enough):
    outcomes = {
        OURS: [change(most_s=time_s) for time_s in ours],
        "peer": [change(most_s=time_s) for time_s in theirs],
    }
    (row,) = compare(outcomes, 100.0)
    assert row["time to 80 %: theirs / ours"] == ratio
    assert row["at least 3"] is is_enough


def test_speed_ratios_are_ratios_of_policy_steps_per_second():
    (row,) = compare({OURS: [change(n_policy_steps=6000)], "peer": [OUTCOME]}, 100.0)
    assert row["policy steps/s: ours / theirs"] == pytest.approx(6.0)
    assert row["at least 5"] is True


def test_levels():
    assert 0.0 < HALF < MOST < 1.0
