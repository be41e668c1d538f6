"""The [env] table: each mistake is a `ProfileError` that names its place."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soulslab.envs.tasks.process.process_env import ProcessEnv
from soulslab.envs.tasks.process.process_settings import read_settings
from soulslab.errors import ProfileError
from soulslab.games.doom import PROFILE_PATH
from soulslab.siphon.profile import ClockFacts, load_profile
from soulslab.testing.fake_session import TOY_PROFILE
from support.long_form import examples
from support.toy_env import TOY_ENV, Toys, toy_profile, toy_table

CONDITION = {"attribute": "hp", "at_most": 0}

MISTAKES = [
    ({"step_ticks": None}, "env.step_ticks", "either step_ticks or step_s"),
    ({"step_s": 0.1}, "env.step_ticks", "either"),
    ({"step_ticks": 0}, "env.step_ticks", ">= 1"),
    ({"frame_skip": "4"}, "env.frame_skip", "a whole number"),
    ({"frameskip": 4}, "env.frameskip", "did you mean 'frame_skip'"),
    ({"observation": "images"}, "env.observation", "not one of its values"),
    ({"state": []}, "env.state", "names no attribute"),
    ({"state": ["hp", "mp"]}, "env.state[1]", "unknown attribute 'mp'"),
    ({"state": ["hp", "hp"]}, "env.state[1]", "twice"),
    ({"state": ["name"]}, "env.state[0]", "text"),
    ({"info": ["nam"]}, "env.info[0]", "did you mean 'name'"),
    ({"feature_range": {"level": [0, 1]}}, "env.feature_range.level", "not observed"),
    ({"feature_range": {"x": [1, 1]}}, "env.feature_range.x", "less than"),
    ({"feature_range": {"x": [0.0, float("inf")]}}, "env.feature_range.x", "finite"),
    ({"pixels": {"width_px": 0}}, "env.pixels.width_px", ">= 1"),
    ({"actions": None}, "env.actions", "missing"),
    ({"actions": {}}, "env.actions", "length >= 1"),
    ({"actions": {"jump": ["jmp"]}}, "env.actions.jump[0]", "[keys] has no 'jmp'"),
    ({"actions": {"wait": []}, "action_mode": "multi_binary"}, "env.actions", "no keys"),
    ({"action_groups": [["up", "down"]]}, "env.action_groups[0][1]", "unknown action 'down'"),
    ({"action_groups": [["up"], ["up"]]}, "env.action_groups[1][0]", "two groups"),
    ({"action_groups": [[]]}, "env.action_groups[0]", "empty"),
    ({"reward": {"a b": {"attribute": "mp"}}}, 'env.reward."a b".attribute', "unknown attribute"),
    ({"reward": {"a": {}}}, "env.reward.a.attribute", "missing"),
    ({"reward": {"a": {"attribute": ["x", "mp"], "kind": "distance"}}}, "env.reward.a.attribute[1]", "unknown"),
    ({"reward": {"a": {"attribute": "name"}}}, "env.reward.a.attribute", "needs numbers"),
    ({"reward": {"a": {"attribute": "velocity"}}}, "env.reward.a.attribute", "vector"),
    ({"reward": {"a": {"attribute": ["x", "y"]}}}, "env.reward.a.attribute", "takes one attribute"),
    ({"reward": {"a": {"attribute": "x", "kind": "gian"}}}, "env.reward.a.kind", "did you mean 'gain'"),
    ({"reward": {"a": {"attribute": "x", "cell": 0}}}, "env.reward.a.cell", "> 0"),
    ({"end": {"a": {"attribute": "hp"}}}, "env.end.a", "has no comparison"),
    ({"end": {"a": {"attribute": "hp", "at_most": 0, "unreadable": True}}}, "env.end.a", "give unreadable alone"),
    ({"end": {"a": {"attribute": "velocity", "at_least": 1}}}, "env.end.a.attribute", "not a single value"),
    ({"end": {"a": {"attribute": "name", "at_least": 1}}}, "env.end.a", "only be compared with equals"),
    ({"end": {"a": {"attribute": "name", "equals": 1}}}, "env.end.a.equals", "never holds"),
    ({"end": {"a": {"attribute": "hp", "equals": "1"}}}, "env.end.a.equals", "never holds"),
    ({"reset": [{}]}, "env.reset[0]", "not nothing"),
    ({"reset": [{"tap": ["up"], "restart": True}]}, "env.reset[0]", "not tap and restart"),
    ({"reset": [{"restart": True}, {"tap": ["uo"]}]}, "env.reset[1].tap[0]", "[keys]"),
    ({"reset": [{"hold": ["up"]}]}, "env.reset[0]", "needs a length"),
    ({"reset": [{"hold": ["up"], "ticks": 1, "s": 1.0}]}, "env.reset[0]", "give one"),
    ({"reset": [{"write": {"hp": 1}, "s": 1.0}]}, "env.reset[0]", "takes no time"),
    ({"reset": [{"write": {"mp": 1}}]}, "env.reset[0].write.mp", "unknown attribute"),
    ({"reset": [{"write": {"ticks": 1}}]}, "env.reset[0].write.ticks", "not writable"),
    ({"reset": [{"copy": {"hp": "mp"}}]}, "env.reset[0].copy.hp", "unknown attribute 'mp'"),
    ({"reset": [{"copy": {"ticks": "hp"}}]}, "env.reset[0].copy.ticks", "not writable"),
    ({"reset": [{"wait": CONDITION}]}, "env.reset[0]", "deadline"),
    ({"reset": [{"wait": {"attribute": "mp", "at_most": 0}, "s": 1}]}, "env.reset[0].wait.attribute", "unknown"),
]


@pytest.mark.parametrize(
    ("changes", "place", "problem"), MISTAKES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_the_error_names_the_position_of_a_mistake(changes, place, problem):
    with pytest.raises(ProfileError) as caught:
        read_settings(toy_profile(**changes), "toy.toml")
    assert caught.value.path == place
    assert problem in caught.value.problem
    assert str(caught.value).startswith(f"toy.toml: {place}: ")


def test_a_profile_without_the_table_is_refused():
    with pytest.raises(ProfileError, match=r"no \[env\] table"):
        read_settings(TOY_PROFILE)


def test_ticks_need_a_known_simulation_step():
    profile = msgspec.structs.replace(toy_profile(), clock=ClockFacts())
    with pytest.raises(ProfileError, match=r"clock\.tick_hz"):
        read_settings(profile)
    table = toy_table(step_ticks=None, step_s=0.1, reset=[{"hold": [], "ticks": 3}])
    with pytest.raises(ProfileError, match=r"reset\[0\]\.ticks"):
        read_settings(msgspec.structs.replace(profile, env=table))


def test_features_need_finite_ranges():
    attribute = msgspec.structs.replace(TOY_PROFILE.attributes["x"], range=(float("-inf"), float("inf")))
    attributes = {**TOY_PROFILE.attributes, "x": attribute}
    table = toy_table(observation="features", feature_range={})
    profile = msgspec.structs.replace(TOY_PROFILE, attributes=attributes, env=table)
    with pytest.raises(ProfileError, match="not finite"):
        read_settings(profile)


def test_the_tables_of_the_toy_and_of_doom_are_valid():
    assert read_settings(toy_profile()).reward["walk"].attributes == ("x", "y")
    assert read_settings(load_profile(PROFILE_PATH)).step_ticks == 1


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from(["hp", "x", "name", "up", "distance", "pixels", ""])
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["hp", "up", "attribute", "s"]), inner),
    max_leaves=6,
)


@settings(max_examples=examples(200, in_long_form=2000), deadline=None)
@given(
    st.dictionaries(st.sampled_from([*TOY_ENV, "retry_ticks", "action_groups", "step_s", "wrong"]), VALUES, max_size=3)
)
def test_any_table_is_an_environment_or_a_profile_error(changes):
    """A table that passes the check can be played."""
    table = {**TOY_ENV, "max_steps": 5, **changes}
    profile = msgspec.structs.replace(TOY_PROFILE, env=table)
    try:
        read = read_settings(profile)
    except ProfileError as error:
        assert error.path.startswith("env")
        return
    if read.step_s is not None or read.pixels.width_px > 500 or read.pixels.height_px > 500:
        return
    env = ProcessEnv(profile=profile, session=Toys(table))
    assert env.observation_space.contains(env.reset(seed=1)[0])
    assert env.observation_space.contains(env.step(env.action_space.sample())[0])
