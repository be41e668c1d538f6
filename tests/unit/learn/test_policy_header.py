"""Observations of the same length are distinguished by the names of their features."""

import gymnasium
import msgspec
import pytest
from gymnasium.wrappers import FlattenObservation

from soulslab.arena.features import FEATURE_NAMES
from soulslab.arena.relative_features import RELATIVE_NAMES
from soulslab.envs.registration import ARENA_ID
from soulslab.errors import CorruptCheckpointError, IncompatibleCheckpointError
from soulslab.fights.recording import FightRecorder
from soulslab.learn.archive import read_archive, write_archive
from soulslab.learn.environment import Sizes, make_vector, sizes, sizes_of_one
from soulslab.learn.evaluate import EvaluationSettings, evaluate
from soulslab.learn.phases import PhasePolicy, Switch
from soulslab.learn.players import load_player, start_from
from soulslab.learn.rainbow.rainbow_settings import QLearningSettings, RainbowRunSettings, RainbowSettings
from soulslab.learn.settings import EnvSettings
from soulslab.learn.train import train
from soulslab.play.policy_actions import policy_actions
from support.policies import SMALL, actor_critic, q_policy

OTHER_NAMES = ("someone_else", *FEATURE_NAMES[1:])
DIFFERENCE = rf"has 'someone_else' as feature 0, which is '{FEATURE_NAMES[0]}' in "


def arena_policy(names, seed=0):
    return q_policy(seed, env_id=ARENA_ID, n_features=len(FEATURE_NAMES), n_actions=20, feature_names=names)


def test_a_run_writes_down_what_its_policy_sees(tmp_path):
    for kind, names in (("features", FEATURE_NAMES), ("relative", RELATIVE_NAMES)):
        settings = RainbowSettings(
            env=EnvSettings(n_envs=1, options={"observation": kind}),
            learner=QLearningSettings(learning_starts=1_000_000),
            network=SMALL,
            run=RainbowRunSettings(total_steps=20, evaluate_every=0),
        )
        train(settings, tmp_path / kind)
        assert load_player(tmp_path / kind).header.feature_names == names


def test_an_evaluation_of_another_observation_of_equal_size_is_refused():
    settings = EvaluationSettings(env_id=ARENA_ID, n_fights=1)
    with pytest.raises(IncompatibleCheckpointError, match=DIFFERENCE + f"{ARENA_ID}; check the environment's options"):
        evaluate(arena_policy(OTHER_NAMES), settings)
    assert evaluate(arena_policy(FEATURE_NAMES), settings).n_fights == 1
    assert evaluate(arena_policy(()), settings).n_fights == 1  # of a file that knew no names


def test_it_is_refused_in_a_single_environment_too(tmp_path):
    with gymnasium.make(ARENA_ID) as env, pytest.raises(IncompatibleCheckpointError, match=DIFFERENCE):
        policy_actions(arena_policy(OTHER_NAMES), env)
    with (
        FightRecorder(tmp_path / "shown", ARENA_ID, {}, "policy") as recorder,
        pytest.raises(IncompatibleCheckpointError, match=DIFFERENCE),
    ):
        recorder.play(arena_policy(OTHER_NAMES), 0)


def test_a_run_does_not_begin_with_a_policy_that_saw_something_else(tmp_path):
    arena_policy(OTHER_NAMES).save(tmp_path / "other")
    with pytest.raises(IncompatibleCheckpointError, match=DIFFERENCE):
        start_from(arena_policy(FEATURE_NAMES), tmp_path / "other")


def test_policies_that_saw_different_things_are_not_joined(tmp_path):
    switch = Switch(feature=2, at_most=(0.5,))
    with pytest.raises(IncompatibleCheckpointError, match=r"policy 2: has '.*' as feature 0, which is 'someone_else'"):
        PhasePolicy([arena_policy(OTHER_NAMES), arena_policy(FEATURE_NAMES)], switch)
    joined = PhasePolicy([arena_policy(()), arena_policy(FEATURE_NAMES, seed=1)], switch)
    assert joined.header.feature_names == FEATURE_NAMES
    joined.save(tmp_path / "joined")
    assert load_player(tmp_path / "joined").header == joined.header


def test_names_that_are_not_those_of_the_features_are_none():
    with gymnasium.make(ARENA_ID) as env:
        assert sizes_of_one(env) == Sizes(1, len(FEATURE_NAMES), 20, None, FEATURE_NAMES)
    with FlattenObservation(gymnasium.make(ARENA_ID, observation="dict")) as env:
        assert sizes_of_one(env).feature_names == ()
    env = make_vector(ARENA_ID, 2, {"observation": "relative"})
    assert sizes(env) == Sizes(2, len(RELATIVE_NAMES), 20, None, RELATIVE_NAMES)
    env.close()


@pytest.mark.parametrize("policy", [q_policy(), actor_critic()], ids=["values", "actor-critic"])
def test_a_file_with_more_or_fewer_names_than_features_is_malformed(policy, tmp_path):
    path = tmp_path / "policy.safetensors"
    policy.header = msgspec.structs.replace(policy.header, feature_names=tuple("abcdef"))
    policy.save(path)
    assert load_player(path).header == policy.header
    tensors, header = read_archive(path)
    write_archive(path, tensors, {**header, "feature_names": ["a"]})
    with pytest.raises(CorruptCheckpointError, match="has a malformed header: 1 names of 6 features"):
        load_player(path)
