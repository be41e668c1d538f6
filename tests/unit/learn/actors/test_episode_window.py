"""Statistics of episodes, for each way in which an environment reports them."""

import gymnasium
import msgspec
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from soulslab.envs.arena import ArenaVectorEnv
from soulslab.envs.registration import ARENA_ID
from soulslab.learn.actors.episode_window import MIN_REPORTED_EPISODES, WINDOW, EpisodeCounter, EpisodeWindow
from soulslab.learn.environment import FightNames, decisions_taken, fight_names, make_vector
from support.steps import result

ATTACKS = FightNames(("fall", "boredom"))
REWARD = {"boss_damage": 3.0, "win": 5.0, "time": -0.01}
OPTIONS = {"phase": "1", "random_pose": True, "skip_locked": True, "reward": REWARD}


def play(env, n_steps, n_actions, names, seed=3):
    """Play open actions at random; return the results, and a plain account of the same episodes."""
    rng = np.random.default_rng(seed)
    n_envs = env.num_envs
    counter = EpisodeCounter(n_envs, n_actions, names)
    results, account = [], []
    running = [[] for _ in range(n_envs)]
    _, info = env.reset(seed=seed)
    for version in range(n_steps):
        mask = np.asarray(info["action_mask"], np.bool_)
        actions = (rng.random(mask.shape) - ~mask).argmax(axis=1)
        _, rewards, terminated, truncated, info = env.step(actions)
        taken = decisions_taken(info, n_envs)
        dones = terminated | truncated
        for i in range(n_envs):
            running[i].append((int(actions[i]), float(rewards[i]), int(taken[i])))
        results += counter.record(actions, rewards, taken, dones, info, version)
        for i in np.flatnonzero(dones):
            account.append((running[i], bool(terminated[i]), version))
            running[i] = []
    return results, account


def assert_like(results, account, n_actions):
    assert len(results) == len(account) > 0
    for told, (steps, _, version) in zip(results, account, strict=True):
        actions, rewards, taken = (np.array(column) for column in zip(*steps, strict=True))
        assert told.n_steps == len(steps)
        assert told.n_decisions == taken.sum()
        assert told.total_reward == pytest.approx(rewards.sum(), abs=1e-6)
        assert told.actions == tuple(np.bincount(actions, minlength=n_actions).tolist())
        assert told.weights_version == version


# --- counting -----------------------------------------------------------------------------------------------


def test_statistics_of_the_corridor_have_wins_and_damage(monkeypatch):
    monkeypatch.setattr("support.toys.LIMIT", 5)
    results, account = play(make_vector("toys/Corridor-v0", 7, {}), 200, 4, ATTACKS)
    assert_like(results, account, 4)
    outcomes = set()
    for told, (steps, is_terminated, _) in zip(results, account, strict=True):
        last_reward = steps[-1][1]
        assert told.is_won == (last_reward == 1.0)
        assert told.damage_by_attack == {"fall": 10.0 * (last_reward == -1.0), "boredom": float(len(steps))}
        assert told.reward_terms == {}
        outcomes.add((told.is_won, is_terminated))
    assert outcomes == {(True, True), (False, True), (False, False)}


def test_an_environment_without_wins_and_damage():
    results, account = play(make_vector("toys/Lights-v0", 3, {}), 20, 4, FightNames())
    assert_like(results, account, 4)
    assert all(told.is_won is None and told.damage_by_attack == {} for told in results)


def test_without_names_of_attacks_there_are_no_statistics_of_them():
    results, _ = play(make_vector("toys/Corridor-v0", 3, {}), 50, 4, FightNames())
    assert all(told.damage_by_attack == {} and told.is_won is not None for told in results)


def test_the_terms_of_the_reward_add_up_to_the_return():
    env = make_vector(ARENA_ID, 8, OPTIONS)
    assert isinstance(env.unwrapped, ArenaVectorEnv)
    results, account = play(env, 400, 20, fight_names(env))
    assert_like(results, account, 20)
    for told in results:
        assert sum(told.reward_terms.values()) == pytest.approx(told.total_reward, abs=1e-5)
        assert told.damage_by_attack.keys() == set(env.unwrapped.attack_names)
    assert any(told.reward_terms["boss_damage"] > 0.0 for told in results)
    assert any(sum(told.damage_by_attack.values()) > 0.0 for told in results)
    killed = [told for told in results if told.killed_by]
    assert killed
    assert all(told.damage_by_attack[told.killed_by] > 0.0 and not told.is_won for told in killed)
    assert min(told.start_pose for told in results) >= 0
    for told in results:
        counts = told.fight
        assert all(counts.hits_by_attack[name] <= counts.uses_by_attack[name] for name in counts.uses_by_attack)
        assert all((told.damage_by_attack[name] > 0.0) == (n > 0) for name, n in counts.hits_by_attack.items())
        assert sum(counts.damage_taken_by_phase.values()) == pytest.approx(sum(told.damage_by_attack.values()))
    env.close()


def test_gymnasiums_own_loop_gives_the_same_statistics():
    vector = make_vector(ARENA_ID, 3, OPTIONS)
    loop = gymnasium.make_vec(
        ARENA_ID,
        3,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
        **OPTIONS,
    )
    names = fight_names(vector)
    ours, _ = play(vector, 300, 20, names)
    theirs, account = play(loop, 300, 20, names)
    assert_like(theirs, account, 20)
    for one, other in zip(ours, theirs, strict=True):
        assert (one.n_decisions, one.is_won, one.damage_by_attack) == (
            other.n_decisions,
            other.is_won,
            other.damage_by_attack,
        )
        assert one.fight == other.fight
        assert sum(map(sum, one.fight.actions_by_situation.values())) == one.n_steps
        assert sum(one.fight.decisions_by_phase.values()) == one.n_decisions
        assert one.reward_terms == pytest.approx(other.reward_terms, abs=1e-6)
        assert sum(other.reward_terms.values()) == pytest.approx(other.total_reward, abs=1e-5)
    vector.close()
    loop.close()


def test_a_function_as_reward_is_its_only_term():
    env = make_vector(ARENA_ID, 4, {**OPTIONS, "reward": lambda step: step.terms["boss_damage"] + 1.0})
    results, account = play(env, 300, 20, fight_names(env))
    assert_like(results, account, 20)
    assert all(told.reward_terms == {"function": pytest.approx(told.total_reward)} for told in results)
    env.close()


def test_an_episode_whose_game_failed_has_no_result():
    fight = {
        "won": np.array([True, False, False]),
        "_won": np.array([True, False, True]),
        "damage_by_attack": np.array([[1.0, 2.0], [0.0, 0.0], [3.0, 4.0]]),
    }
    info = {"final_info": {"fight": fight, "failure": {"message": np.array([None, "it was closed", None])}}}
    counter = EpisodeCounter(3, 2, ATTACKS)
    done = np.ones(3, np.bool_)
    results = counter.record(np.array([0, 1, 1]), np.ones(3), np.array([1, 2, 3]), done, info, 0)
    assert [told.is_won for told in results] == [True, None, False]
    assert [told.damage_by_attack for told in results] == [
        {"fall": 1.0, "boredom": 2.0},
        {},
        {"fall": 3.0, "boredom": 4.0},
    ]
    assert [told.n_decisions for told in results] == [1, 2, 3]


def test_what_is_loaded_counts_on_and_what_is_forgotten_does_not():
    counter = EpisodeCounter(2, 3, FightNames())
    step = (np.array([0, 2]), np.array([1.5, -1.0]), np.array([1, 4]))
    terms = {"reward_terms": {"win": np.array([1.5, -1.0]), "_win": np.ones(2, np.bool_)}}
    none, all_envs = np.zeros(2, np.bool_), np.ones(2, np.bool_)
    assert counter.record(*step, none, terms, 0) == []
    other = EpisodeCounter(2, 3, FightNames())
    other.load(counter.state())
    first, second = other.record(*step, all_envs, terms, 5)
    assert (first.total_reward, first.n_decisions, first.actions) == (3.0, 2, (2, 0, 0))
    assert (second.total_reward, second.n_decisions, second.actions) == (-2.0, 8, (0, 0, 2))
    assert (first.reward_terms, second.reward_terms) == ({"win": 3.0}, {"win": -2.0})
    counter.forget_running()
    assert [told.n_steps for told in counter.record(*step, all_envs, terms, 5)] == [1, 1]


# --- averages -----------------------------------------------------------------------------------------------


def test_before_the_first_episode_there_are_no_averages():
    window = EpisodeWindow()
    assert (window.win_rate, window.mean_return, window.mean_decisions, window.stats(0)) == (None, None, None, None)
    assert not window.is_full


def test_the_averages_are_over_the_last_episodes():
    window = EpisodeWindow()
    window.add([result(number) for number in range(2 * WINDOW + 1)])
    assert window.n_episodes == 2 * WINDOW + 1
    assert window.is_full
    assert window.mean_return == pytest.approx(np.arange(WINDOW + 1, 2 * WINDOW + 1).mean())
    assert (window.win_rate, window.mean_decisions) == (0.5, 7.0)


def test_episodes_without_a_result_are_no_losses():
    window = EpisodeWindow()
    window.add([result(0), msgspec.structs.replace(result(2), is_won=None)])
    assert window.win_rate == 1.0
    assert window.n_episodes == 2


def test_statistics_need_a_new_episode_and_include_earlier_ones_if_there_are_few():
    window = EpisodeWindow()
    window.add([result(0), result(1)])
    stats = window.stats(50)
    assert (stats.env_steps, stats.n_fights) == (50, 2)
    assert stats.action_shares == (0.1, 0.2, 0.3, 0.4)
    assert stats.reward_terms == {"damage": 1.5}
    assert stats.damage_by_attack == {"attack 0": 0.0, "attack 1": 1.0}
    assert window.stats(60) is None
    window.add([result(3, n_attacks=0)])
    assert window.stats(70).n_fights == 3
    window.add([result(4)] * MIN_REPORTED_EPISODES)
    stats = window.stats(80)
    assert (stats.n_fights, stats.damage_by_attack) == (MIN_REPORTED_EPISODES, {"attack 0": 0.0, "attack 1": 1.0})
    window.add([result(5)] * (MIN_REPORTED_EPISODES + 5))
    assert window.stats(90).n_fights == MIN_REPORTED_EPISODES + 5


def test_the_mean_over_episodes_of_which_some_lack_a_term():
    window = EpisodeWindow()
    window.add([result(0, n_attacks=2), result(1, n_attacks=0)])
    assert window.stats(1).damage_by_attack == {"attack 0": 0.0, "attack 1": 0.5}


def test_a_window_is_loaded_as_it_was_saved():
    window, other = EpisodeWindow(), EpisodeWindow()
    window.add([result(number) for number in range(WINDOW + 5)])
    other.load(window.state())
    for each in (window, other):
        each.add([result(1)])
    assert other.state() == window.state()
    assert other.stats(3) == window.stats(3)
    assert other.is_full


def test_statistics_have_kills_by_attack_and_wins_by_pose():
    window = EpisodeWindow()
    fights = [
        msgspec.structs.replace(result(0), is_won=won, killed_by=killer, start_pose=pose)
        for won, killer, pose in ((True, "", 0), (False, "sweep", 0), (False, "sweep", 2), (False, "", -1))
    ]
    window.add(fights)
    stats = window.stats(9)
    assert stats.kills_by_attack == {"sweep": 0.5}
    assert stats.wins_by_pose == {"0": 0.5, "2": 0.0}
