"""A watched policy has the same inputs and actions as in training."""

from contextlib import closing

import gymnasium
import numpy as np
import pytest

import soulslab  # noqa: F401 (registers the environments)
from soulslab.arena.vocabulary import N_ACTIONS, NOTHING, action_name
from soulslab.envs.registration import ARENA_ID, ARENA_LIVE_ID
from soulslab.errors import IncompatibleCheckpointError
from soulslab.learn.demonstrations.recorded_episode import PolicyActor, play_episode
from soulslab.learn.inputs import ExtraInputs, Inputs
from soulslab.play.policy_actions import fight_options, policy_actions
from support.policies import actor_critic, q_policy

EXTRAS = ExtraInputs(previous_actions=2, time_left_decisions=200)
N_FEATURES = {"features": 74, "relative": 73}


def arena_policy(env_id=ARENA_ID, observation="relative", **options):
    return q_policy(
        1,
        env_id=env_id,
        n_features=N_FEATURES.get(observation, 74),
        n_actions=N_ACTIONS,
        extras=EXTRAS,
        env_options={"observation": observation, **options},
    )


@pytest.mark.parametrize("observation", ["features", "relative"])
@pytest.mark.parametrize("skip_locked", [True, False])
def test_a_watched_policy_plays_the_same_fight_as_in_training(observation, skip_locked):
    player = arena_policy(observation=observation, skip_locked=skip_locked, phase="1")
    options = {**player.header.env_options, "random_pose": True}
    with closing(gymnasium.make(ARENA_ID, **options)) as env:
        episode = play_episode(env, PolicyActor(player, env.observation_space, ARENA_ID), 5)
    assert len(set(episode.actions.tolist())) > 1
    # The terminal shows every decision, so its environment passes over none.
    chosen, n_decisions, is_over = [], 0, False
    with closing(gymnasium.make(ARENA_ID, **fight_options(ARENA_ID, player.header))) as env:
        act = policy_actions(player, env)
        observed, info = env.reset(seed=5)
        while not is_over:
            action = act(observed, info["action_mask"], n_decisions)
            if not skip_locked or n_decisions == 0 or info["action_mask"].sum() > 1:
                chosen.append(action)
            observed, _, terminated, truncated, info = env.step(action)
            n_decisions += info["n_decisions"]
            is_over = terminated or truncated
    np.testing.assert_array_equal(chosen, episode.actions)
    assert n_decisions == episode.n_decisions.sum()


def test_options_of_the_training_can_be_overridden():
    header = arena_policy(boss="trickster", phase="2", skip_locked=True, reward="sparse").header
    own = {"boss": "trickster", "phase": "2", "random_pose": True, "observation": "relative"}
    assert fight_options(ARENA_ID, header) == fight_options(ARENA_LIVE_ID, header) == own
    assert fight_options(ARENA_ID, header, boss="judge", phase="1") == {**own, "boss": "judge", "phase": "1"}
    assert fight_options(ARENA_ID, None) == {"boss": "judge", "phase": "full", "random_pose": True}


def test_a_policy_of_the_window_keeps_its_observations():
    seen = {"observation": "pixels", "pixels": {"width_px": 40, "height_px": 30}, "step_ms": 200}
    header = arena_policy(ARENA_LIVE_ID, **seen, renderer="gpu", skip_locked=True).header
    options = fight_options(ARENA_LIVE_ID, header)
    assert options == {**seen, "boss": "judge", "phase": "full", "random_pose": True}
    with closing(gymnasium.make(ARENA_LIVE_ID, disable_env_checker=True, **options)) as env:
        assert env.observation_space.shape == (30, 40, 1)


def test_a_policy_of_the_simulator_fits_the_window():
    player = arena_policy()
    options = fight_options(ARENA_LIVE_ID, player.header)
    with closing(gymnasium.make(ARENA_LIVE_ID, disable_env_checker=True, **options)) as env:
        assert callable(policy_actions(player, env))


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        (ARENA_LIVE_ID, "was trained on soulslab/ArenaLive-v0, not on soulslab/Arena-v0"),
        ("CartPole-v1", "was trained on CartPole-v1, not on soulslab/Arena-v0"),
    ],
)
def test_a_policy_of_another_environment(env_id, message):
    player = arena_policy(env_id)
    with (
        closing(gymnasium.make(ARENA_ID, **fight_options(ARENA_ID, player.header))) as env,
        pytest.raises(IncompatibleCheckpointError, match=message),
    ):
        policy_actions(player, env)


def test_a_policy_with_other_observations_is_an_error():
    player = arena_policy(observation="relative")
    with (
        closing(gymnasium.make(ARENA_ID, observation="features")) as env,
        pytest.raises(IncompatibleCheckpointError, match="has 73 features, but soulslab/Arena-v0 has 74"),
    ):
        policy_actions(player, env, "policy.safetensors")


def test_the_scores_are_those_of_the_choice():
    rng = np.random.default_rng(0)
    inputs = Inputs(rng.normal(size=(5, 6)).astype(np.float32))
    mask = rng.random((5, 4)) < 0.6
    mask[:, 0] = True
    values = q_policy(1)
    kind, numbers = values.scores(inputs, mask)
    assert kind == "value"
    np.testing.assert_array_equal(np.where(mask, numbers, -np.inf).argmax(1), values.act(inputs, mask))
    actor = actor_critic(1, n_features=6, n_actions=4)
    kind, numbers = actor.scores(inputs, mask)
    assert kind == "probability"
    np.testing.assert_allclose(numbers.sum(1), 1.0, rtol=1e-5)
    assert (numbers[~mask] == 0).all()
    np.testing.assert_array_equal(numbers.argmax(1), actor.act(inputs, mask))


def test_a_choice_is_described():
    player = arena_policy(skip_locked=True)
    with closing(gymnasium.make(ARENA_ID, **fight_options(ARENA_ID, player.header))) as env:
        act = policy_actions(player, env)
        observed, info = env.reset(seed=5)
        action = act(observed, info["action_mask"], 0)
        assert act.describe().startswith(f"value [{action_name(action)} ")
        only = np.arange(N_ACTIONS) == NOTHING
        assert act(observed, only, 1) == NOTHING
        assert act.describe() == "only nothing is allowed"
