"""The lateness of steps is found wherever an environment tells it, and nothing else is changed."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from soulslab.learn.environment import make_vector, sizes
from soulslab.learn.rainbow.apart.status import create_status
from soulslab.learn.rainbow.apart.stopwatch import Stopwatch
from support.toys import register_toys


class Late(gymnasium.Env):
    """Tells its lateness, 10 ms for each step of an episode, of which there are three."""

    observation_space = Box(0.0, 1.0, (1,), np.float32)
    action_space = Discrete(2)

    def reset(self, *, seed=None, options=None):  # noqa: ARG002
        super().reset(seed=seed)
        self.n = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):  # noqa: ARG002
        self.n += 1
        return np.zeros(1, np.float32), 0.0, self.n == 3, False, {"late_s": 0.01 * self.n}


@pytest.fixture(scope="module", autouse=True)
def ids():
    register_toys()
    if "toys/Late-v0" not in gymnasium.registry:
        gymnasium.register("toys/Late-v0", entry_point=Late)


def test_the_latest_of_all_environments_counts_also_at_the_end_of_an_episode(tmp_path):
    board = create_status(tmp_path / "status", 1)
    env = Stopwatch(make_vector("toys/Late-v0", 2, {}), board)
    env.reset(seed=0)
    assert not env.has_pace
    seen = []
    for _ in range(4):
        before = board.lateness()
        env.step(np.zeros(2, np.int64))
        seen.append(int(np.flatnonzero(board.lateness() - before)[0]))
    env.close()
    assert env.has_pace
    assert seen[0] < seen[1] < seen[2]
    assert seen[3] == seen[0]
    assert board.read().n_steps == board.read().n_late == 4


def test_an_environment_that_tells_none_has_no_pace(tmp_path):
    board = create_status(tmp_path / "status", 1)
    plain = make_vector("toys/Corridor-v0", 3, {})
    env = Stopwatch(plain, board)
    assert sizes(env) == sizes(plain)
    assert env.unwrapped.attack_names == plain.attack_names
    env.reset(seed=0)
    env.step(np.ones(3, np.int64))
    env.close()
    assert not env.has_pace
    assert board.read().n_steps == 1
    assert board.lateness().sum() == 0
