"""The benchmark of actor and learner apart, for a moment; and the game that is nothing but its pace."""

import gymnasium
import numpy as np
from msgspec.structs import replace

from benchmarks.remote_actor import RemoteActorBenchSettings, measure_remote_actor
from soulslab.testing.paced_env import EPISODE, LIFE, PACED_ID, STEP, read_log


def test_lateness_and_the_channel_are_measured():
    settings = replace(
        RemoteActorBenchSettings().quick(),
        step_s=0.02,
        n_steps=10,
        warm_up_s=0.2,
        batch_size=8,
        updates_per_step=1.0,
        n_publications=3,
    )
    late, channel = measure_remote_actor(settings)
    assert [row["actor"] for row in late.rows] == ["apart", "in the learner's process"]
    assert all(row["steps"] == 10 for row in late.rows)
    assert all(0.0 <= row["late p50 (ms)"] <= row["p99"] <= row["max"] for row in late.rows)
    assert all(row["median"] > 0.0 for row in channel.rows)


def test_the_game_has_its_pace_and_says_how_late_it_was(tmp_path):
    env = gymnasium.make(PACED_ID, step_s=0.01, n_steps=3, n_features=5, n_actions=2, log=str(tmp_path / "log"))
    obs, info = env.reset(seed=1)
    assert info["action_mask"].tolist() == [True, False]
    life = obs[LIFE]
    assert obs[[EPISODE, STEP]].tolist() == [1, 0]
    told = []
    for step in range(1, 4):
        obs, reward, terminated, truncated, info = env.step(np.int64(0))
        assert obs[[LIFE, EPISODE, STEP]].tolist() == [life, 1, step]
        assert (reward, terminated, truncated) == (1.0, step == 3, False)
        told.append(info["late_s"])
    obs, _ = env.reset()
    assert obs[[LIFE, EPISODE, STEP]].tolist() == [life, 2, 0]
    env.close()
    log = read_log(tmp_path / "log")
    assert log[:, 0].tolist() == told
    assert (log >= 0.0).all()
