"""The lateness of steps is read from each form of ``info``, and nothing else is changed."""

import numpy as np
import pytest

from soulslab.learn.actors.actor_status import LatenessWrapper
from soulslab.learn.environment import make_vector, sizes
from support.memory_parts import create_status
from support.toys import register_toys


@pytest.fixture(scope="module", autouse=True)
def ids():
    register_toys()


def test_the_latest_of_all_environments_counts_also_at_the_end_of_an_episode(tmp_path):
    board = create_status(tmp_path / "status", 1)
    env = LatenessWrapper(make_vector("toys/Late-v0", 2, {}), board.note_step)
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


def test_an_environment_without_lateness_has_no_pace(tmp_path):
    board = create_status(tmp_path / "status", 1)
    plain = make_vector("toys/Corridor-v0", 3, {})
    env = LatenessWrapper(plain, board.note_step)
    assert sizes(env) == sizes(plain)
    assert env.unwrapped.attack_names == plain.attack_names
    env.reset(seed=0)
    env.step(np.ones(3, np.int64))
    env.close()
    assert not env.has_pace
    assert board.read().n_steps == 1
    assert board.lateness().sum() == 0
