"""The soak benchmark on fake games: all events are counted."""

import msgspec
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from benchmarks import fault_injection, soak
from benchmarks.result import as_table
from soulslab.envs.tasks.duel.arena_live import ArenaLiveVectorEnv
from soulslab.testing.fake_arena import FakeArenaSession

#: Two minutes, in which each of two games has a fault every 6 s.
SETTINGS = soak.SoakSettings(n_games=2, game_hours=1 / 30, fault_rate=600.0, seed=1)


def kill(env):
    env.session.arena.is_alive = False


def freeze(env):
    env.session.arena.is_stalled = True


@pytest.fixture
def harmless(monkeypatch):
    """Faults that a fake game can have; those of `benchmarks.fault_injection` kill processes."""
    known = {"killed": kill, "frozen": freeze}
    known |= {
        name: fault_injection.FAULTS[name] for name in ("lock-on lost", "player out of bounds", "fight loaded anew")
    }
    monkeypatch.setattr(fault_injection, "FAULTS", known)
    return tuple(known)


def make(n_games):
    return ArenaLiveVectorEnv(n_games, AutoresetMode.SAME_STEP, session=FakeArenaSession, episodes="in_place")


def test_all_events_are_counted(harmless):
    settings = msgspec.structs.replace(SETTINGS, faults=harmless)
    report = soak.soak(make, settings)
    assert report.n_steps == 1200
    assert report.game_s == pytest.approx(120.0)
    assert set(report.inflicted) == set(harmless)
    # A game that is gone already can have another fault before it is noticed.
    n_lost = report.inflicted["killed"] + report.inflicted["frozen"]
    assert 0 < report.n_game_restarts <= n_lost
    assert set(report.failures) == {"ProcessExitedError", "ClockStalledError", "PointerError"}
    assert report.failures["ProcessExitedError"] + report.failures["ClockStalledError"] == report.n_game_restarts
    assert report.n_episodes > 0
    assert report.leaks == {}
    assert report.warm is not None
    results = soak.as_results(report, settings)
    assert [row["number"] for row in results[1].rows if row["what"] == "killed"] == [report.inflicted["killed"]]
    assert all(as_table(result).row_count for result in results)


def test_equal_seeds_give_equal_faults(harmless):
    settings = msgspec.structs.replace(SETTINGS, faults=harmless, game_hours=1 / 120)
    first, second = soak.soak(make, settings), soak.soak(make, settings)
    assert first.inflicted == second.inflicted
    assert first.failures == second.failures
    assert first.n_episodes == second.n_episodes


def test_a_fault_in_an_ended_game_is_not_counted(harmless):
    env = make(1)
    env.reset(seed=1)
    assert fault_injection.inject_fault(env.envs[0], "killed")
    assert not fault_injection.inject_fault(env.envs[0], "lock-on lost")
    *_, truncated, _ = env.step(np.array([19]))
    assert truncated.all()
    env.close()
