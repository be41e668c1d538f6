"""Joining runs: the feature by name or number, options, and what cannot be joined."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode

from soulslab.arena.features import FEATURE_NAMES
from soulslab.envs.registration import ARENA_ID
from soulslab.errors import CheckpointError, ConfigError, IncompatibleCheckpointError
from soulslab.learn.environment import feature_names, make_vector
from soulslab.learn.players import find_switch, join_runs
from support.policies import actor_critic, q_policy

N_FEATURES = len(FEATURE_NAMES)


def arena_policy(seed=0, **options):
    return q_policy(seed, env_id=ARENA_ID, n_features=N_FEATURES, n_actions=20, env_options=options)


@pytest.fixture
def runs(tmp_path):
    """Saves policies as runs do, and returns the folders."""

    def save(*policies):
        folders = [tmp_path / f"p{number}" for number in range(1, len(policies) + 1)]
        for folder, policy in zip(folders, policies, strict=True):
            folder.mkdir()
            policy.save(folder / "policy.safetensors")
        return folders

    return save


def test_two_phases_of_the_arena(runs, caplog):
    folders = runs(arena_policy(1, phase=1, random_pose=True), arena_policy(2, phase=2, random_pose=True))
    joined = join_runs(folders, "boss_hp", [0.5], {"phase": "full"})
    assert (joined.switch.feature, joined.switch.name) == (FEATURE_NAMES.index("boss_hp"), "boss_hp")
    assert joined.header.env_options == {"phase": "full", "random_pose": True}
    assert not caplog.records
    np.testing.assert_array_equal(joined.members[1].weights()["parameters"], arena_policy(2).weights()["parameters"])


def test_the_switch_is_thrown_where_the_second_phase_begins():
    """A fight of the second phase alone begins with the second policy; one of the whole with the first."""
    switch = find_switch(arena_policy(phase=2).header, "boss_hp", [0.5])
    for boss in ("judge", "frost_beast", "trickster"):
        for phase, expected in (("1", 0), ("full", 0), ("2", 1)):
            env = make_vector(ARENA_ID, 3, {"boss": boss, "phase": phase})
            obs, _ = env.reset(seed=1)
            assert switch.phases(obs).tolist() == [expected] * 3
            env.close()


def test_an_option_that_no_policy_was_given_is_not_added(runs):
    joined = join_runs(runs(q_policy(1), actor_critic(2)), "0", [0.5], {"phase": "full"})
    assert joined.header.env_options == {}


def test_different_options_are_reported(runs, caplog):
    folders = runs(arena_policy(1, phase=1, boss="judge"), arena_policy(2, phase=2, boss="trickster", skip_locked=True))
    joined = join_runs(folders, "2", [0.5], {"phase": "full"})
    assert joined.header.env_options == {"phase": "full", "boss": "judge"}
    told = [record.getMessage() for record in caplog.records]
    assert [message.split(": ", 1)[1] for message in told] == [
        f"trained with boss=trickster; the joined policy uses judge of {folders[0]}",
        f"trained with skip_locked=True; the joined policy uses None of {folders[0]}",
    ]


def test_a_reward_function_that_a_file_cannot_hold_is_no_obstacle():
    header = arena_policy(reward="<function mine.reward>").header
    assert find_switch(header, "distance", [0.2]).feature == 3


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        ("bos_hp", "switch.feature: soulslab/Arena-v0 has no feature 'bos_hp'; did you mean 'boss_hp'?"),
        ("74", "switch.feature: feature 74 does not exist: the policies have 74 features, counted from 0"),
        ("-1", "has no feature '-1'"),
    ],
)
def test_no_such_feature(runs, feature, message):
    with pytest.raises(ConfigError) as caught:
        join_runs(runs(arena_policy(1), arena_policy(2)), feature, [0.5])
    assert str(caught.value).startswith(message) or message in str(caught.value)


def test_an_environment_without_names(runs):
    with pytest.raises(
        ConfigError, match="toys/Corridor-v0 does not define names of its features, so 'cell' is unknown"
    ):
        join_runs(runs(q_policy(1), q_policy(2)), "cell", [0.5])


def test_too_few_and_too_many(runs):
    folders = runs(q_policy(1), q_policy(2), q_policy(3))
    with pytest.raises(ConfigError, match="join: needs policies of at least two phases, not 1"):
        join_runs(folders[:1], "0", [0.5])
    with pytest.raises(ConfigError, match="has 1 thresholds for 3 policies"):
        join_runs(folders, "0", [0.5])
    assert len(join_runs(folders, "0", [0.5, 0.2]).members) == 3


def test_a_policy_that_is_joined_already(runs, tmp_path):
    folders = runs(q_policy(1), q_policy(2))
    join_runs(folders, "0", [0.5]).save(tmp_path / "joined")
    with pytest.raises(IncompatibleCheckpointError, match="joined: is a joined policy; join the policies that it"):
        join_runs([tmp_path / "joined", folders[0]], "0", [0.5])


def test_runs_that_do_not_go_together_are_named(runs, tmp_path):
    folders = runs(q_policy(1), arena_policy(2))
    with pytest.raises(IncompatibleCheckpointError, match=r"p2: has env_id soulslab/Arena-v0, but .*p1 has toys/Corr"):
        join_runs(folders, "0", [0.5])
    with pytest.raises(CheckpointError, match="nothing: does not exist"):
        join_runs([folders[0], tmp_path / "nothing"], "0", [0.5])


# --- names of features ----------------------------------------------------------------------------------


class Named(gymnasium.Env):
    """An environment of one step, with names of its features."""

    observation_space = Box(0.0, 1.0, (2,), np.float32)
    action_space = Discrete(2)
    feature_names = ("health", "distance")

    def reset(self, *, seed=None, options=None):  # noqa: ARG002
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):  # noqa: ARG002
        return np.zeros(2, np.float32), 0.0, True, False, {}


def test_names_are_found_in_single_environments_too():
    gymnasium.register("toys/Named-v0", entry_point=Named)
    try:
        env = make_vector("toys/Named-v0", 2, {})
        assert feature_names(env) == ("health", "distance")
        env.close()
    finally:
        del gymnasium.registry["toys/Named-v0"]


def test_the_arena_names_its_features():
    assert feature_names(make_vector(ARENA_ID, 2, {})) == FEATURE_NAMES
    in_a_loop = gymnasium.make_vec(
        ARENA_ID, 2, vectorization_mode="sync", vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP}
    )
    assert feature_names(in_a_loop) == FEATURE_NAMES
    fields = gymnasium.make_vec(ARENA_ID, 2, vectorization_mode="vector_entry_point", observation="dict")
    assert feature_names(fields) == ()
