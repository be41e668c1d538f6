"""The same info keys after every reset and step."""

import functools

import gymnasium
import numpy as np
import pytest

from soulslab.envs.arena import ArenaEnv
from soulslab.envs.tasks.duel.arena_live import ArenaLiveEnv
from soulslab.envs.wrappers import UniformInfo
from soulslab.errors import EnvironmentUsageError
from soulslab.testing.fake_arena import FakeArenaSession
from support.players import script


def structure(info):
    """Return the keys of an info and, for each value, its shape and type."""
    if isinstance(info, dict):
        return {key: structure(value) for key, value in info.items()}
    return "text" if isinstance(info, str) else (np.shape(info), np.asarray(info).dtype.kind)


@pytest.mark.parametrize("make", [ArenaEnv, functools.partial(ArenaLiveEnv, session=FakeArenaSession)])
def test_each_info_has_the_structure_of_the_first(make):
    env = UniformInfo(make())
    _, first = env.reset(seed=1)
    assert (first["fight"]["won"], first["fight"]["n_decisions"], first["fight"]["killed_by"]) == (False, 0, -1)
    is_over = False
    for action in script(1, 2000):
        *_, terminated, truncated, info = env.step(int(action))
        assert structure(info) == structure(first)
        is_over = terminated or truncated
        assert (info["fight"]["n_decisions"] > 0) == is_over
        if is_over:
            break
    assert is_over
    assert structure(env.reset()[1]) == structure(first)
    env.close()


def test_other_environments_are_refused():
    with pytest.raises(EnvironmentUsageError, match=r"UniformInfo: .* does not report fights"):
        UniformInfo(gymnasium.make("CartPole-v1"))
