"""The live environment equals the simulator: the same seed and actions give the same fight."""

import gymnasium
import numpy as np
import pytest

from soulslab.arena.boss_file import boss_names
from soulslab.arena.live_fight import BUTTONS
from soulslab.arena.records import MAX_DECISIONS
from soulslab.arena.vocabulary import ACTIONS, LIGHT_ATTACK, NOTHING
from soulslab.envs.arena import ArenaEnv
from soulslab.envs.registration import ARENA_LIVE_ID
from soulslab.envs.tasks.duel.duel_options import DuelOptions
from soulslab.testing.fake_arena import FakeArenaSession
from support.live_env import live_env
from support.players import script
from support.same_fight import ALL_TERMS, check_fight, check_observation


@pytest.mark.parametrize("skip_locked", [False, True])
@pytest.mark.parametrize("phase", ["1", "2", "full"])
@pytest.mark.parametrize("boss", boss_names())
def test_complete_fights_are_equal(boss, phase, skip_locked):
    options = {"boss": boss, "phase": phase, "skip_locked": skip_locked, "reward": ALL_TERMS}
    live, sim = live_env(**options), ArenaEnv(**options)
    check_fight(live, sim, 7)


@pytest.mark.parametrize("boss", boss_names())
def test_relative_observations_are_equal(boss):
    options = {"boss": boss, "observation": "relative", "random_pose": True, "skip_locked": True, "reward": ALL_TERMS}
    live, sim = live_env(**options), ArenaEnv(**options)
    assert live.observation_space == sim.observation_space
    assert live.feature_names == sim.feature_names
    check_fight(live, sim, 13)


@pytest.mark.parametrize("reward", ["soulsgym", "eldengym", "sparse"])
def test_all_fields_with_random_start_poses_are_equal(reward):
    options = {"observation": "dict", "random_pose": True, "reward": reward}
    live, sim = live_env(**options), ArenaEnv(**options)
    assert live.observation_space == sim.observation_space
    assert live.action_space == sim.action_space
    assert live.attack_names == sim.attack_names
    for seed in (3, 11):
        check_fight(live, sim, seed)


def test_reward_functions_get_equal_transitions():
    transitions = []

    def reward(transition):
        transitions.append(transition)
        return transition.terms["boss_damage"] + transition.before["player_hp"] - transition.after["player_hp"]

    check_fight(live_env(reward=reward), ArenaEnv(reward=reward), 2)
    for ours, theirs in zip(transitions[::2], transitions[1::2], strict=True):
        assert ours.before.dtype == theirs.before.dtype
        np.testing.assert_allclose(ours.after["player_pose"], theirs.after["player_pose"], atol=1e-9)
        assert (ours.terminated, ours.truncated) == (theirs.terminated, theirs.truncated)


def test_a_subset_of_the_actions_is_equal():
    names = ["light_attack", "nothing", "backward+roll", "forward"]
    live, sim = live_env(actions=names), ArenaEnv()
    numbers = [16, 19, 12, 0]
    assert (live.action_space, live.action_names) == (gymnasium.spaces.Discrete(4), tuple(names))
    live.reset(seed=5)
    sim.reset(seed=5)
    for action in script(5, 200) % 4:
        ours, theirs = live.step(int(action)), sim.step(numbers[action])
        check_observation(ours[0], theirs[0])
        np.testing.assert_array_equal(ours[4]["action_mask"], theirs[4]["action_mask"][numbers])
        np.testing.assert_array_equal(live.action_masks(), ours[4]["action_mask"])
        if theirs[2]:
            break


@pytest.mark.parametrize("mode", ["multi_binary", "continuous"])
def test_buttons_are_equal_to_actions(mode):
    live, sim = live_env(action_mode=mode), ArenaEnv()
    live.reset(seed=1)
    sim.reset(seed=1)
    for action in script(1, 150):
        buttons = np.array([name in ACTIONS[action] for name in BUTTONS], np.int8)
        ours = live.step(buttons if mode == "multi_binary" else buttons * np.float32(0.7))
        # A roll with buttons that is not open becomes a walk in its direction; a numbered roll becomes "nothing".
        is_walk = len(ACTIONS[action]) > 1 and "roll" in ACTIONS[action] and not sim.action_masks()[action]
        walk = ACTIONS.index(tuple(name for name in ACTIONS[action] if name != "roll")) if is_walk else action
        theirs = sim.step(walk if sim.action_masks()[walk] else NOTHING)
        check_observation(ours[0], theirs[0])
        if theirs[2]:
            break


@pytest.mark.parametrize("skip_locked", [False, True])
def test_max_episode_steps(skip_locked):
    env = live_env(max_episode_steps=7, skip_locked=skip_locked)
    for _ in range(2):
        env.reset(seed=0)
        steps = [env.step(LIGHT_ATTACK) for _ in range(7)]
        assert [step[2:4] for step in steps] == [(False, False)] * 6 + [(False, True)]
        assert (steps[-1][4]["fight"]["n_decisions"] > 7) == skip_locked


def test_a_report_when_the_limit_of_gymnasium_truncates():
    limited = gymnasium.make(ARENA_LIVE_ID, max_episode_steps=5, session=FakeArenaSession)
    native = live_env(max_episode_steps=5)
    for env in (limited, native):
        env.reset(seed=0)
    ours, theirs = ([env.step(NOTHING) for _ in range(5)] for env in (limited, native))
    assert ours[-1][3]
    np.testing.assert_equal(ours[-1][4]["fight"], theirs[-1][4]["fight"])
    assert "fight" not in ours[-2][4]
    limited.reset(seed=0)
    assert "fight" not in limited.step(NOTHING)[4]


@pytest.mark.parametrize(("options", "n_decisions"), [({}, MAX_DECISIONS), ({"step_ms": 20}, 5 * MAX_DECISIONS)])
def test_the_default_limit_equals_that_of_the_simulator(options, n_decisions):
    assert DuelOptions(**options).max_decisions == n_decisions
    assert DuelOptions(**options, max_episode_steps=9).max_decisions is None
