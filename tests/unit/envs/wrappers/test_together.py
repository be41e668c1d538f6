"""Combinations of wrappers: in any order, in vectors, with Gymnasium's wrappers, and rebuilt from a spec."""

import functools
import itertools

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import FlattenObservation, RecordEpisodeStatistics, TimeLimit

from soulslab.arena.duel_state import DUEL_FIELDS
from soulslab.envs.wrappers import (
    AnimationTimers,
    Boundary,
    BoundaryObservation,
    DodgeShaping,
    EdgeShaping,
    HealthRefund,
    SafeGround,
    ScaleObservation,
    SoulsGymView,
)
from soulslab.errors import EnvironmentUsageError
from support.players import script

GROUND = Boundary.circle((142.0, 594.0), 24.0)
ADDED = ("boundary_distance", "boundary_normal", "boss_animation_one_hot")

OBSERVERS = {
    "timers": functools.partial(AnimationTimers, of=["boss"]),
    "edge": functools.partial(BoundaryObservation, boundary=GROUND),
    "scale": functools.partial(ScaleObservation, ranges={}),
}
REWARDERS = (DodgeShaping, functools.partial(EdgeShaping, boundary=GROUND))


def wrapped(env, *wrappers):
    for wrapper in wrappers:
        env = wrapper(env)
    return env


def run(env, n=40):
    """Return (observation, reward, info) of a script."""
    seen, info = env.reset(seed=1)
    steps = [(seen, 0.0, info)]
    for action in script(1, n):
        seen, reward, terminated, truncated, info = env.step(int(action))
        assert seen in env.observation_space
        steps.append((seen, reward, info))
        if terminated or truncated:
            break
    return steps


@pytest.mark.parametrize("order", list(itertools.permutations(OBSERVERS)), ids="-".join)
def test_the_order_does_not_change_the_values(order):
    """Wrappers read the duel, not the observation, so scaling before them does not change their values."""
    env = gymnasium.make("soulslab/Arena-v0", observation="dict")
    alone = run(OBSERVERS["edge"](OBSERVERS["timers"](env)))
    together = run(wrapped(env, *(OBSERVERS[name] for name in order)))
    for (one, _, _), (two, _, _) in zip(alone, together, strict=True):
        for key in ADDED:
            space, values = alone_space(key), two[key]
            is_scaled = order.index("scale") > order.index("edge" if "boundary" in key else "timers")
            if is_scaled:
                values = space.low + (values + 1.0) / 2.0 * (space.high - space.low)
            np.testing.assert_allclose(values, one[key], atol=1e-4)


@functools.cache
def alone_space(key):
    env = OBSERVERS["edge"](OBSERVERS["timers"](gymnasium.make("soulslab/Arena-v0", observation="dict")))
    return env.observation_space[key]


def test_shaping_adds_up_in_both_orders(make_duel):
    one, two = (run(wrapped(make_duel(), *order), 25) for order in (REWARDERS, REWARDERS[::-1]))
    for (_, reward, info), (_, reward_2, info_2) in zip(one[1:], two[1:], strict=True):
        assert reward == pytest.approx(reward_2)
        assert info["reward_terms"] == pytest.approx(info_2["reward_terms"])


def test_all_wrappers_on_a_live_game(make_live):
    inner = make_live(observation="pixels+state", n_last_actions=2)
    env = wrapped(
        inner,
        functools.partial(SafeGround, boundary=Boundary.circle((142.0, 594.0), 20.0)),
        functools.partial(HealthRefund, keeps_alive=True),
        *OBSERVERS.values(),
        *REWARDERS,
        functools.partial(TimeLimit, max_episode_steps=25),
        RecordEpisodeStatistics,
    )
    for _ in range(2):
        steps = run(env, 30)
        assert len(steps) == 26
        assert "episode" in steps[-1][2]
        assert sum(info["ground"]["is_teleported"] for _, _, info in steps[1:]) > 0
        for _, reward, info in steps[1:]:
            assert sum(info["reward_terms"].values()) == pytest.approx(reward)


@pytest.mark.parametrize("observation", ["features", "dict"])
@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_in_a_vector(observation, mode):
    wrappers = [*OBSERVERS.values(), *REWARDERS, functools.partial(SafeGround, boundary=GROUND, on_exit="truncate")]
    envs = gymnasium.make_vec(
        "soulslab/Arena-v0",
        num_envs=2,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": mode},
        wrappers=wrappers,
        observation=observation,
    )
    alone = run(wrapped(gymnasium.make("soulslab/Arena-v0", observation=observation), *wrappers))
    seen, _ = envs.reset(seed=1)
    for action, (_, reward, _) in zip(script(1, 40), alone[1:], strict=False):
        seen, rewards, *_ = envs.step(np.array([action, action]))
        assert envs.observation_space.contains(seen)
        assert rewards[0] == pytest.approx(reward)
    envs.close()


def test_flattened_observations(make_duel):
    env = FlattenObservation(wrapped(make_duel(observation="dict"), *OBSERVERS.values()))
    for seen, _, _ in run(env, 10):
        assert seen.ndim == 1


def test_an_environment_is_rebuilt_from_its_spec():
    env = wrapped(gymnasium.make("soulslab/Arena-v0", observation="dict"), *OBSERVERS.values(), *REWARDERS)
    again = gymnasium.make(env.spec)
    assert again.observation_space == env.observation_space
    for (one, reward, _), (two, reward_2, _) in zip(run(env, 20), run(again, 20), strict=True):
        assert reward == reward_2
        for key in one:
            np.testing.assert_array_equal(one[key], two[key])


# --- the view of SoulsGym -----------------------------------------------------------------------------------

#: Names, types and sizes of SoulsGym 1.1.0 (``soulsgym/envs/darksouls3/iudex.py``, MIT).
SOULSGYM = {
    "phase": spaces.Discrete(2, start=1),
    "player_hp": (1,),
    "player_max_hp": spaces.Discrete(1, start=454),
    "player_sp": (1,),
    "player_max_sp": spaces.Discrete(1, start=95),
    "boss_hp": (1,),
    "boss_max_hp": spaces.Discrete(1, start=1037),
    "player_pose": (4,),
    "boss_pose": (4,),
    "camera_pose": (6,),
    "player_animation": spaces.Discrete,
    "player_animation_duration": (1,),
    "boss_animation": spaces.Discrete,
    "boss_animation_duration": (1,),
    "lock_on": spaces.Discrete(2),
}


def test_the_view_equals_that_of_soulsgym(make_duel):
    env = SoulsGymView(wrapped(make_duel(observation="dict"), OBSERVERS["timers"], OBSERVERS["edge"]))
    assert set(env.observation_space) == set(SOULSGYM)
    assert list(SOULSGYM) == [field.name for field in DUEL_FIELDS]
    for name, wanted in SOULSGYM.items():
        space = env.observation_space[name]
        if isinstance(wanted, tuple):
            assert (space.shape, space.dtype) == (wanted, np.float32)
        elif isinstance(wanted, spaces.Discrete):
            assert space == wanted
        else:
            assert isinstance(space, wanted)
            assert space.start == -1
    for seen, _, info in run(env, 20):
        assert list(seen) == list(SOULSGYM)
        assert set(info) == {"action_mask"}


def test_a_view_of_features_is_refused(make_duel):
    with pytest.raises(EnvironmentUsageError, match=r"SoulsGymView: .*observation='dict'"):
        SoulsGymView(make_duel())
