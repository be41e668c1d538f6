"""Spaces of observations and actions."""

import math

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from hypothesis import given
from hypothesis import strategies as st

from soulslab.envs.tasks.process.process_settings import Pixels, read_settings
from soulslab.envs.tasks.process.process_spaces import (
    ActionKeys,
    FeatureEncoder,
    ObservationEncoder,
    attribute_space,
    pixel_space,
)
from soulslab.errors import InvalidActionError
from soulslab.siphon.profile import Attribute
from support.toy_env import toy_profile


def fact(kind, limits=None, *, length=1, scale=1.0, unit=""):
    return Attribute(
        base="b", offsets=(0,), type=kind, range=limits, length=length, scale=scale, unit=unit, source="made up"
    )


@pytest.mark.parametrize(
    ("attribute", "space"),
    [
        (fact("flag"), Discrete(2)),
        (fact("bool"), Discrete(2)),
        (fact("i32", (0, 200)), Box(0, 200, (1,), np.int64)),
        (fact("u64", (0, 2**64)), Box(0, 2.0**64, (1,), np.float32)),
        (fact("i32", (-0.5, 2.5), scale=0.5), Box(-0.5, 2.5, (1,), np.float32)),
        (fact("f32", (-1, 1), length=3), Box(-1, 1, (3,), np.float32)),
        (fact("f64", (-math.inf, math.inf)), Box(-math.inf, math.inf, (1,), np.float32)),
    ],
    ids=str,
)
def test_the_space_follows_from_type_and_range(attribute, space):
    assert attribute_space(attribute) == space


def test_the_space_of_frames():
    assert pixel_space(Pixels()) == Box(0, 255, (84, 84, 1), np.uint8)
    assert pixel_space(Pixels(width_px=40, height_px=30, is_grey=False)) == Box(0, 255, (30, 40, 3), np.uint8)


def test_state_has_the_order_and_types_of_the_table():
    profile = toy_profile()
    state = ObservationEncoder(read_settings(profile), profile)
    assert isinstance(state.space, Dict)
    values = {"hp": 7, "x": 1.5, "y": -1.0, "is_hurt": True, "velocity": np.array([0.0, 1.0])}
    observation = state.observation(values, None)
    assert list(observation) == ["hp", "x", "y", "is_hurt", "velocity"]
    assert state.space.contains(observation)
    assert (observation["hp"].dtype, observation["x"].dtype) == (np.int64, np.float32)


def test_features_are_scaled_and_clipped_and_encode_angles():
    facts = [
        fact("i32", (0, 10)),
        fact("flag"),
        fact("f32", (-math.pi, math.pi), unit="rad"),
        fact("f32", (0, 1), length=2),
    ]
    features = FeatureEncoder(["hp", "bit", "angle", "v"], facts, [(0, 10), None, facts[2].range, (0, 1)])
    assert features.size == 6
    vector = features({"hp": 99, "bit": False, "angle": math.pi / 2, "v": np.array([0.25, 0.5])})
    assert vector.tolist() == pytest.approx([1, -1, 1, 0, -0.5, 0], abs=1e-6)
    assert vector.dtype == np.float32


@given(st.floats(-1e9, 1e9), st.floats(0, 2 * math.pi))
def test_features_are_in_their_space(number, angle):
    facts = [fact("f64", (-1e9, 1e9)), fact("f32", (0, 2 * math.pi), unit="rad")]
    features = FeatureEncoder(["n", "a"], facts, [(-5, 5), facts[1].range])
    assert Box(-1, 1, (3,), np.float32).contains(features({"n": number, "a": angle}))


def actions(mode, groups=()):
    table = {"up": ["up"], "left": ["left"], "run_left": ["left", "hurt"]}
    profile = toy_profile(actions=table, action_mode=mode, action_groups=groups)
    return ActionKeys(read_settings(profile), profile)


def test_the_first_discrete_action_is_nothing():
    keys = actions("discrete")
    assert (keys.space, keys.names) == (Discrete(4), ("nothing", "up", "left", "run_left"))
    assert [keys.held(action) for action in (0, np.int64(1), np.array(2), 3)] == [(), ("W",), ("A",), ("A", "SPACE")]


def test_multi_binary_has_one_bit_per_key():
    keys = actions("multi_binary")
    assert (keys.space, keys.names) == (MultiBinary(3), ("up", "left", "hurt"))
    assert keys.held(np.array([1, 0, 1], np.int8)) == ("W", "SPACE")


def test_multi_discrete_chooses_from_each_group():
    keys = actions("multi_discrete", [["left", "run_left"], ["up"]])
    assert (keys.space, keys.names) == (MultiDiscrete([3, 2]), ("left|run_left", "up"))
    assert keys.held([2, 1]) == ("A", "SPACE", "W")
    assert keys.held([0, 0]) == ()
    assert actions("multi_discrete").space == MultiDiscrete([2, 2, 2])


@pytest.mark.parametrize("mode", ["discrete", "multi_binary", "multi_discrete"])
@pytest.mark.parametrize("action", [-1, 9, [3, 3, 3], [-1, 0, 0], [[1]], [1, [2]], "x", None, 0.5, [0.0, 1.0, 1.0], []])
def test_actions_outside_the_space_are_refused(mode, action):
    with pytest.raises(InvalidActionError):
        actions(mode).held(action)


@pytest.mark.parametrize("mode", ["discrete", "multi_binary", "multi_discrete"])
def test_every_action_of_the_space_can_be_held(mode):
    keys = actions(mode)
    keys.space.seed(0)
    for _ in range(30):
        assert set(keys.held(keys.space.sample())) <= {"W", "A", "SPACE"}
