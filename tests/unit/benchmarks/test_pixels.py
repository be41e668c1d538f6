"""The benchmark of learning from frames, on fake games."""

import gymnasium
import msgspec
import pytest

from benchmarks.pixels import PixelsBenchSettings, measure_pixels
from soulslab.envs.registration import ARENA_LIVE_ID
from soulslab.learn.settings import EnvSettings
from soulslab.testing.fake_arena import FakeArenaSession

OPTIONS = {
    "phase": "1",
    "observation": "pixels",
    "pixels": {"width_px": 36, "height_px": 36, "is_grey": True},
    "skip_locked": True,
    "reward": {"boss_damage": 4.0, "player_damage": -1.0},
    "max_episode_steps": 25,
}


@pytest.fixture
def settings(small_config, tmp_path):
    env = EnvSettings(id=ARENA_LIVE_ID, n_envs=2, frame_stack=2, options=OPTIONS)
    run = msgspec.structs.replace(small_config.run, total_steps=32)
    train = msgspec.structs.replace(small_config, env=env, run=run)
    return PixelsBenchSettings(train=train, n_fights=4, picture=tmp_path / "curves" / "curve.png")


def test_measures_both_players_and_draws_the_curve(settings, monkeypatch):
    monkeypatch.setitem(gymnasium.registry[ARENA_LIVE_ID].kwargs, "session", FakeArenaSession)
    (result,) = measure_pixels(settings)
    random, trained = result.rows
    assert (random["player"], trained["player"]) == ("keys at random", "PPO from pictures")
    assert (random["decisions"], random["training (s)"]) == (0, 0.0)
    assert trained["decisions"] >= 32
    assert trained["training (s)"] > 0.0
    for row in result.rows:
        assert row["fights"] == 4
        assert 0.0 <= row["boss damage (% of its health)"] <= 100.0
        assert 0.0 <= row["damage taken (hp)"] <= 454.0
        assert row["± return"] >= 0.0
        # Without a win the return is nothing but both losses of health.
        lost = 4.0 * row["boss damage (% of its health)"] / 100.0 - row["damage taken (hp)"] / 454.0
        assert row["return"] == pytest.approx(lost, abs=1e-6)
    assert settings.picture.stat().st_size > 1000
