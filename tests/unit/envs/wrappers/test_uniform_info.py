"""The same info keys after every reset and step."""

import functools

import gymnasium
import numpy as np
import pytest

from soulslab.arena.vocabulary import NOTHING
from soulslab.envs.arena import ArenaEnv
from soulslab.envs.tasks.duel.arena_live import ArenaLiveEnv
from soulslab.envs.wrappers import (
    Boundary,
    DodgeShaping,
    EdgeShaping,
    FightReport,
    HealthRefund,
    SafeGround,
    UniformInfo,
)
from soulslab.errors import EnvironmentUsageError
from soulslab.testing.fake_arena import FakeArenaSession
from support.players import script

GROUND = Boundary.circle((142.0, 594.0), 24.0)


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


def test_a_truncated_fight_is_reported_in_every_order():
    for wrappers in ([UniformInfo, FightReport], [FightReport, UniformInfo]):
        env = gymnasium.make("soulslab/Arena-v0", max_episode_steps=5)
        for wrapper in wrappers:
            env = wrapper(env)
        env.reset(seed=1)
        infos = [env.step(NOTHING)[-1] for _ in range(5)]
        assert infos[-1]["fight"]["n_decisions"] == 5


@pytest.mark.parametrize(
    "wrapper",
    [
        DodgeShaping,
        functools.partial(EdgeShaping, boundary=GROUND),
        functools.partial(SafeGround, boundary=GROUND),
        HealthRefund,
    ],
    ids=["dodge", "edge", "ground", "refund"],
)
def test_wrappers_add_the_same_keys_to_resets_and_steps(make_live, wrapper):
    env = UniformInfo(wrapper(make_live()))
    _, first = env.reset(seed=1)
    *_, info = env.step(NOTHING)
    assert structure(info) == structure(first)
