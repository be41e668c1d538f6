"""The paced environment: deadlines on a grid of wall time, and a log of the lateness of each step."""

import gymnasium
import numpy as np
import pytest

from soulslab.testing import paced_env
from soulslab.testing.paced_env import EPISODE, LIFE, PACED_ID, STEP, read_log
from support.windows_time import WindowsTime


def test_a_step_reports_its_lateness_and_logs_it(tmp_path):
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


def test_a_step_is_not_late_where_time_monotonic_has_ticks(monkeypatch):
    time = WindowsTime()
    monkeypatch.setattr(paced_env, "time", time)
    env = gymnasium.make(PACED_ID, step_s=0.1, n_steps=10)
    env.reset(seed=1)
    for _ in range(10):
        started_s = time.perf_counter()
        *_, info = env.step(np.int64(0))
        assert time.perf_counter() - started_s == pytest.approx(0.1)
        assert info["late_s"] < 1e-6
    env.close()
