"""Wrappers that add fields to observations: timers, the boundary, and combinations."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from soulslab.arena.features import FEATURE_NAMES
from soulslab.arena.knight_file import load_knight
from soulslab.arena.vocabulary import BOSS_ANIMATIONS
from soulslab.envs.wrappers import AnimationTimers, Boundary, BoundaryObservation, feature_names_of
from soulslab.errors import EnvironmentUsageError
from support.players import script

GROUND = Boundary.circle((142.0, 594.0), 24.0)


def play(env, seed=0, n=40):
    """Yield (observation, duel) after the reset and each step."""
    yield env.reset(seed=seed)[0]
    for action in script(seed, n):
        observation, _, terminated, truncated, _ = env.step(int(action))
        yield observation
        if terminated or truncated:
            return


# --- timers -------------------------------------------------------------------------------------------------


def test_timers_equal_the_duel(make_duel):
    timers = ("time", "frame", "steps", "one_hot")
    env = AnimationTimers(make_duel(observation="dict"), timers=timers)
    last, n = {}, {"player": 0, "boss": 0}
    for seen in play(env):
        assert seen in env.observation_space
        for who in ("player", "boss"):
            number, time_s = int(seen[f"{who}_animation"]), float(seen[f"{who}_animation_duration"][0])
            began = who not in last or last[who][0] != number or time_s < last[who][1]
            n[who] = 0 if began else n[who] + 1
            last[who] = number, time_s
            assert seen[f"{who}_animation_time"] == pytest.approx(time_s)
            assert seen[f"{who}_animation_frame"] == pytest.approx(time_s * 60, abs=0.01)
            assert seen[f"{who}_animation_steps"] == min(n[who], 100)
            assert np.flatnonzero(seen[f"{who}_animation_one_hot"]).tolist() == ([number] if number >= 0 else [])
    assert max(n.values()) > 0


def test_timers_are_reset_with_each_episode(make_duel):
    env = AnimationTimers(make_duel(observation="dict"), timers=["steps"])
    first = [seen["boss_animation_steps"][0] for seen in play(env, n=20)]
    assert [seen["boss_animation_steps"][0] for seen in play(env, n=20)] == first


def test_only_the_chosen_timers_are_added(make_duel):
    inner = make_duel(observation="dict")
    env = AnimationTimers(inner, of=["boss"], timers=["one_hot"])
    added = set(env.observation_space) - set(inner.observation_space)
    assert added == {"boss_animation_one_hot"}
    assert env.observation_space["boss_animation_one_hot"].shape == (len(BOSS_ANIMATIONS),)


@pytest.mark.parametrize("wrong", [{"of": ["bos"]}, {"timers": ["tiem"]}])
def test_unknown_timers(make_duel, wrong):
    with pytest.raises(EnvironmentUsageError, match=r"AnimationTimers.*did you mean"):
        AnimationTimers(make_duel(), **wrong)


@pytest.mark.parametrize("wrong", [{"of": "boss"}, {"of": []}])
def test_timers_must_be_lists(make_duel, wrong):
    with pytest.raises(EnvironmentUsageError, match="must be a list"):
        AnimationTimers(make_duel(), **wrong)


# --- the edge -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relative_to", ["player", "camera", "world"])
def test_the_distance_equals_that_of_the_simulator(relative_to):
    env = BoundaryObservation(gymnasium.make("soulslab/Arena-v0", observation="dict"), GROUND, relative_to)
    duel = env.unwrapped.simulator.duels[0]
    for seen in play(env, n=60):
        out = np.array([duel.p_x - 142.0, duel.p_y - 594.0])
        assert seen["boundary_distance"][0] == pytest.approx(24.0 - np.hypot(*out), abs=0.01)
        inwards = -out / np.hypot(*out)
        ahead = {"player": (duel.p_fx, duel.p_fy), "camera": (duel.c_fx, duel.c_fy), "world": (1.0, 0.0)}[relative_to]
        aside = (ahead[1], -ahead[0]) if relative_to != "world" else (0.0, 1.0)
        np.testing.assert_allclose(seen["boundary_normal"], (inwards @ ahead, inwards @ aside), atol=0.04)


def test_right_is_the_direction_of_the_action_right():
    """If the direction inwards is at the right, walking to the right increases the distance."""
    aside = Boundary.circle((172.0, 575.0), 60.0)
    env = BoundaryObservation(gymnasium.make("soulslab/Arena-v0", observation="dict"), aside, "camera")
    seen, _ = env.reset(seed=0)
    action = 2 if seen["boundary_normal"][1] > 0 else 6  # right, or left
    assert abs(seen["boundary_normal"][1]) > 0.5
    after = env.step(action)[0]
    assert after["boundary_distance"] > seen["boundary_distance"]


def test_distances_are_clipped_to_most_m(make_duel):
    env = BoundaryObservation(make_duel(observation="dict"), GROUND, most_m=2.0)
    assert env.reset(seed=0)[0]["boundary_distance"] == 2.0
    assert env.observation_space["boundary_distance"] == spaces.Box(-2.0, 2.0, (1,), np.float32)


@pytest.mark.parametrize("wrong", [{"relative_to": "plaer"}, {"most_m": 0.0}])
def test_wrong_options_of_the_boundary(make_duel, wrong):
    with pytest.raises(EnvironmentUsageError, match="BoundaryObservation"):
        BoundaryObservation(make_duel(), GROUND, **wrong)


# --- combinations ------------------------------------------------------------------------------------------


def test_a_box_is_extended_and_keeps_its_names(make_duel):
    env = AnimationTimers(BoundaryObservation(make_duel(), GROUND), of=["player"], timers=["time", "one_hot"])
    names = feature_names_of(env)
    assert names[:77] == (*FEATURE_NAMES, "boundary_distance", "boundary_normal[0]", "boundary_normal[1]")
    assert len(names) == 78 + len(load_knight().animations) == env.observation_space.shape[0]
    by_dict = AnimationTimers(BoundaryObservation(make_duel(observation="dict"), GROUND))
    for row, fields in zip(play(env, n=40), play(by_dict, n=40), strict=True):
        assert row in env.observation_space
        assert row.dtype == np.float32
        assert row[names.index("boundary_distance")] == fields["boundary_distance"]
        assert row[names.index("boundary_normal[1]")] == fields["boundary_normal"][1]
        assert row[names.index("player_animation_time")] == fields["player_animation_time"]


def test_names_of_other_boxes_are_positions():
    env = gymnasium.wrappers.FlattenObservation(gymnasium.make("soulslab/Arena-v0", observation="dict"))
    names = feature_names_of(BoundaryObservation(env, GROUND))
    assert names[0] == "observation[0]"
    assert names[-3] == "boundary_distance"
    assert feature_names_of(gymnasium.make("soulslab/Arena-v0", observation="dict")) == ()


def test_returned_observations_do_not_change_later(make_duel):
    env = AnimationTimers(make_duel(observation="dict"))
    seen, _ = env.reset(seed=0)
    kept = {key: np.copy(value) for key, value in seen.items()}
    env.step(0)
    for key, value in kept.items():
        np.testing.assert_array_equal(seen[key], value)


def test_wrapping_twice_is_an_error(make_duel):
    env = AnimationTimers(make_duel(observation="dict"))
    with pytest.raises(EnvironmentUsageError, match=r"AnimationTimers: .*already has .*; wrap it once"):
        AnimationTimers(env)


def test_pixels_alone_are_refused(make_live):
    with pytest.raises(EnvironmentUsageError, match=r"BoundaryObservation needs .*pixels\+state"):
        BoundaryObservation(make_live(observation="pixels"), GROUND)


def test_pixels_and_state_are_extended(make_live):
    env = BoundaryObservation(make_live(observation="pixels+state"), GROUND)
    seen, _ = env.reset(seed=0)
    assert seen in env.observation_space
    assert {"pixels", "boundary_distance"} <= set(seen)


@pytest.mark.parametrize("wrapper", [AnimationTimers, lambda env: BoundaryObservation(env, GROUND)])
def test_environments_without_a_duel_are_refused(wrapper):
    with pytest.raises(EnvironmentUsageError, match=r"needs a boss duel.*CartPoleEnv has no duel"):
        wrapper(gymnasium.make("CartPole-v1"))
