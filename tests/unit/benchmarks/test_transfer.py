"""The benchmark of transfer: evaluations of a policy of the simulator, and their table."""

import msgspec
import pytest

from benchmarks import transfer
from benchmarks.transfer import SIMULATOR, TransferBenchSettings, measure_souls, measure_transfer
from soulslab.envs.registration import ARENA_ID, ARENA_LIVE_ID, IUDEX_DEMO_ID, IUDEX_ID
from soulslab.learn.evaluate import Evaluation, wilson_interval
from soulslab.testing.fake_arena import FakeArenaSession


@pytest.fixture
def settings(small_config):
    return TransferBenchSettings(
        train=msgspec.structs.replace(small_config, run=msgspec.structs.replace(small_config.run, total_steps=64)),
        n_fights=2,
        n_real_time_fights=1,
        delays_ms=(50.0,),
        masks=("dark_souls_3",),
    )


def test_each_evaluation_is_compared_with_the_simulator(settings, monkeypatch):
    asked = []

    def evaluate(policy, where, *, sinks=()):
        assert policy.header.env_id == ARENA_ID
        asked.append(where)
        n_wins = where.n_fights if where.env_id == ARENA_ID else where.n_fights // 2
        interval = wilson_interval(n_wins, where.n_fights)
        rate = n_wins / where.n_fights
        return Evaluation(
            n_fights=where.n_fights,
            mean_return=0.0,
            mean_decisions=1.0,
            n_wins=n_wins,
            win_rate=rate,
            interval=interval,
        )

    monkeypatch.setattr(transfer, "evaluate", evaluate)
    (result,) = measure_transfer(settings)
    real_time, mask = {"timing": "realtime"}, {"mask": "dark_souls_3"}
    own = [{key: where.env_options.get(key) for key in ("timing", "latency_ms", "mask")} for where in asked]
    delay = {"latency_ms": 50.0}
    expected = [{}, {}, real_time, {**real_time, **delay}, mask, {**mask, **real_time, **delay}]
    assert [{key: value for key, value in one.items() if value} for one in own] == expected
    assert [where.n_fights for where in asked] == [20, 2, 1, 1, 1, 1]
    assert {where.env_id for where in asked[1:]} == {ARENA_LIVE_ID}
    # What the policy was trained with stays: it is the same fight.
    assert all(where.env_options["skip_locked"] and where.env_options["random_pose"] for where in asked)
    assert [row["where"] for row in result.rows] == [
        SIMULATOR,
        "window, lockstep",
        *["window, real time"] * 2,
        "window as dark_souls_3, lockstep",
        "window as dark_souls_3, real time",
    ]
    assert [row["won (%)"] for row in result.rows] == [100, 50, 0, 0, 0, 0]
    assert [row["beside the simulator (points)"] for row in result.rows] == [0, -50, -100, -100, -100, -100]
    assert all(row["from"] <= row["won (%)"] <= row["to"] for row in result.rows)
    asked.clear()
    measure_transfer(msgspec.structs.replace(settings, boss="trickster", only="as dark_souls_3, real"))
    assert [where.env_options["boss"] for where in asked] == ["trickster"] * 2
    assert [where.env_options.get("mask") for where in asked] == [None, "dark_souls_3"]


def test_environments_of_real_games_are_compared_with_the_simulator(settings, monkeypatch):
    asked = []

    def evaluate(policy, where, *, sinks=()):
        asked.append(where)
        interval = wilson_interval(where.n_fights, where.n_fights)
        return Evaluation(
            n_fights=where.n_fights,
            mean_return=0.0,
            mean_decisions=1.0,
            n_wins=where.n_fights,
            win_rate=1.0,
            interval=interval,
        )

    monkeypatch.setattr(transfer, "evaluate", evaluate)
    (result,) = measure_souls(settings)
    assert [where.env_id for where in asked] == [ARENA_ID, IUDEX_ID, IUDEX_DEMO_ID]
    assert [where.env_options.get("stand_in", False) for where in asked] == [False, True, True]
    assert all("boss" not in where.env_options for where in asked[1:])
    assert [row["fights"] for row in result.rows] == [20, 1, 1]


def test_the_window_gives_a_policy_the_inputs_of_the_simulator(settings, monkeypatch):
    """Only the window is a fake."""
    config = msgspec.structs.replace(
        settings.train, env=msgspec.structs.replace(settings.train.env, options={"phase": "1", "skip_locked": True})
    )
    here = transfer._PolicyEvaluation("here", ARENA_LIVE_ID, {"session": FakeArenaSession}, 50.0, 2, 2)
    small = msgspec.structs.replace(settings, train=config)
    evaluation = transfer._fight(transfer._policy(small), here, small)
    assert evaluation.n_fights == 2
    assert 0.0 <= evaluation.win_rate <= 1.0
