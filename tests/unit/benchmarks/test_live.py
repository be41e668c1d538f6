"""The benchmark of the live environment, on fake games."""

import gymnasium
import numpy as np
import pytest

from benchmarks import live
from benchmarks.live import GAME, OBSERVATIONS, PARTS, LiveBenchSettings, measure_live
from soulslab.envs.registration import ARENA_LIVE_ID
from soulslab.testing.fake_arena import FakeArenaSession

SETTINGS = LiveBenchSettings(n_steps=8, n_resets=2, games=(1, 2), n_peer_steps=0)


@pytest.fixture
def results(monkeypatch):
    monkeypatch.setitem(gymnasium.registry[ARENA_LIVE_ID].kwargs, "session", FakeArenaSession)
    return measure_live(SETTINGS)


@pytest.mark.long
def test_measures_steps_games_and_resets(results):
    *steps, games, resets = results
    assert len(steps) == len(OBSERVATIONS)
    for result, kind in zip(steps, OBSERVATIONS, strict=True):
        assert kind in result.title
        assert f"{SETTINGS.n_steps} steps" in result.title
        median = {row["part"]: row["p50 (ms)"] for row in result.rows}
        seen = {part for part in PARTS if "84x84" in kind or part != "taking the picture"}
        assert set(median) == {*seen, "all but the game", "the whole step"}
        assert 0.0 < median["all but the game"] <= median["the whole step"]
        assert median[GAME] <= median["the whole step"]
        assert all(row["p50 (ms)"] <= row["p95 (ms)"] <= row["p99 (ms)"] for row in result.rows)
    assert [(row["games"], row["observation"]) for row in games.rows] == [
        (n, kind) for n in (1, 2) for kind in OBSERVATIONS
    ]
    for row in games.rows:
        assert row["times real time"] == pytest.approx(row["steps/s"] / 10)
        assert row["beside one"] == pytest.approx(1.0) or row["games"] == 2
    assert [(row["part"], row["resets"]) for row in resets.rows] == [("in place", 2), ("a fresh fight", 2)]
    assert all(0.0 < row["p50 (ms)"] <= row["longest (ms)"] for row in resets.rows)


def test_a_row_has_the_quantiles():
    row = live._quantiles("keys", np.arange(101.0))
    assert row == {"part": "keys", "p50 (ms)": 50.0, "p95 (ms)": 95.0, "p99 (ms)": 99.0}


def test_quick_leaves_eldengym_out():
    quick = LiveBenchSettings.quick()
    assert (quick.n_peer_steps, quick.n_peer_resets) == (0, 0)
