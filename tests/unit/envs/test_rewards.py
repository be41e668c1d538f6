"""Rewards: presets compared with their formulas, weights, reward functions, and errors."""

import functools
import math

import numpy as np
import pytest

from soulslab.arena.boss_rules import hurt_boss
from soulslab.arena.player_rules import hurt_player
from soulslab.arena.records import REWARD_TERMS
from soulslab.arena.vocabulary import FIRST_ROLL, LIGHT_ATTACK, NOTHING
from soulslab.compat.eldengym import CustomReward
from soulslab.envs.arena import ArenaEnv, ArenaVectorEnv
from soulslab.envs.rewards import PRESETS, reward_weights
from soulslab.envs.tasks.duel.arena_live import ArenaLiveEnv
from soulslab.errors import EnvironmentUsageError
from soulslab.testing.fake_arena import FakeArenaSession
from support.players import script, scripts


def soulsgym(before, after):
    """The formula of SoulsGym 1.1.0."""
    reward = (before.boss_hp - after.boss_hp) / after.boss_max_hp
    reward -= (before.player_hp - after.player_hp) / after.player_max_hp
    if after.player_hp <= 0:
        return reward - 0.1
    if after.boss_hp <= 0:
        return reward + 0.1
    near, far = (math.dist(state.player_pose[:2], (139.0, 596.0)) for state in (after, before))
    return reward + (0.01 * (far - near) if near > 4 else 0.0)


def eldengym(before, after):
    """The weights of EldenGym 0.6.0, without its bonus for each step."""
    reward = 0.5 * (before.boss_hp - after.boss_hp) / after.boss_max_hp
    reward -= (before.player_hp - after.player_hp) / after.player_max_hp
    return reward - 100 * (after.player_hp <= 0) + 100 * (after.boss_hp <= 0 < after.player_hp)


def sparse(before, after):
    return 1.0 * (after.boss_hp <= 0 < after.player_hp) - 1.0 * (after.player_hp <= 0)


FORMULAS = {"soulsgym": soulsgym, "eldengym": eldengym, "sparse": sparse}


def transitions(env, actions):
    """Play a fight; yield (state before, state after, the step)."""
    for action in actions:
        before = env.simulator.states[0].copy()
        step = env.step(int(action))
        yield before, env.simulator.states[0].copy(), step
        if step[2] or step[3]:
            return


def fresh(reward, **options):
    env = ArenaEnv(reward=reward, observation="dict", **options)
    env.reset(seed=options.pop("seed", 5))
    return env


def test_there_are_three_presets():
    assert set(PRESETS) == set(FORMULAS)


@pytest.mark.parametrize("preset", FORMULAS)
@pytest.mark.parametrize("seed", range(3))
def test_a_preset_equals_its_formula_in_a_lost_fight(preset, seed):
    env = fresh(preset, random_pose=True)
    total = 0.0
    for before, after, step in transitions(env, script(seed, 2000)):
        _, reward, terminated, _, info = step
        assert reward == pytest.approx(FORMULAS[preset](before, after), abs=1e-9)
        assert sum(info["reward_terms"].values()) == pytest.approx(reward, abs=1e-12)
        total += reward
    assert terminated
    assert after.player_hp == 0
    assert info["fight"]["return"] == pytest.approx(total)


@pytest.mark.parametrize("preset", FORMULAS)
def test_a_preset_equals_its_formula_in_a_won_fight(preset):
    env = fresh(preset)
    duel, fight = env.simulator.duels[0], env.simulator.fight[0]
    duel.phase = 2
    duel.b_wait = 10**6
    hurt_boss(duel, fight, duel.b_hp - 40.0, 0.0)
    duel.b_x, duel.b_y = duel.p_x + duel.p_fx * 2, duel.p_y + duel.p_fy * 2
    env.step(LIGHT_ATTACK)
    for before, after, step in transitions(env, [NOTHING] * 8):
        _, reward, _, _, info = step
        assert reward == pytest.approx(FORMULAS[preset](before, after), abs=1e-9)
    assert info["fight"]["won"]
    assert info["reward_terms"]["win"] == {"soulsgym": 0.1, "eldengym": 100, "sparse": 1}[preset]
    assert info["reward_terms"]["centre"] == 0


def test_walking_within_4_metres_of_the_centre_is_not_rewarded():
    env = fresh("soulsgym")
    duel = env.simulator.duels[0]
    duel.b_wait = 10**6
    duel.c_fx, duel.c_fy, duel.lock_on = 1.0, 0.0, 0
    duel.p_fx, duel.p_fy = 1.0, 0.0
    duel.p_x, duel.p_y = 139.0 - 5.2, 596.0
    duel.b_x, duel.b_y = 125.0, 596.0
    paid = []
    for _ in range(6):
        duel.lock_on, duel.c_fx, duel.c_fy = 0, 1.0, 0.0
        paid.append((139.0 - duel.p_x, env.step(0)[4]["reward_terms"]["centre"]))
    assert [gain > 0 for _, gain in paid] == [away - 0.46 > 4.0 for away, _ in paid]
    assert paid[0][1] == pytest.approx(0.01 * 0.46, rel=0.02)  # the camera, and so the direction, turns a little


def test_quantities_of_the_terms():
    env = fresh(dict.fromkeys(REWARD_TERMS, 1.0))
    duel, fight = env.simulator.duels[0], env.simulator.fight[0]
    duel.b_wait = 10**6
    terms = env.step(FIRST_ROLL)[4]["reward_terms"]
    assert set(terms) == set(REWARD_TERMS)
    assert (terms["roll"], terms["attack"], terms["time"]) == (1, 0, 1)
    for _ in range(8):
        env.step(NOTHING)
    terms = env.step(LIGHT_ATTACK)[4]["reward_terms"]
    assert (terms["roll"], terms["attack"], terms["time"]) == (0, 1, 1)
    for _ in range(15):
        env.step(NOTHING)
    duel.b_x, duel.b_y = duel.p_x + duel.p_fx * 2, duel.p_y + duel.p_fy * 2
    gains = {"boss_damage": 0.0, "hit_streak": 0.0}
    for action in [LIGHT_ATTACK, *[NOTHING] * 6, LIGHT_ATTACK, *[NOTHING] * 6]:
        terms = env.step(action)[4]["reward_terms"]
        for name in gains:
            gains[name] += terms[name]
    assert gains == {"boss_damage": pytest.approx(80 / 1037), "hit_streak": 1 + 2}
    hurt_player(duel, fight, 0, 10_000.0, 0, 1.0, 0.0)
    terms = env.step(NOTHING)[4]["reward_terms"]
    assert (terms["death"], terms["win"], terms["centre"]) == (1, 0, 0)


def test_a_mapping_of_weights():
    heavy, light = fresh({"player_damage": -2.0, "roll": -0.5}), fresh({"player_damage": -1.0, "roll": -0.25})
    for action in script(1, 300):
        first, second = heavy.step(int(action)), light.step(int(action))
        assert first[1] == pytest.approx(2 * second[1])
        assert {name for name, value in first[4]["reward_terms"].items() if value} <= {"player_damage", "roll"}
        if first[2]:
            break
    assert first[2]


def test_weights_of_all_types_of_reward():
    assert reward_weights("sparse") == {"win": 1.0, "death": -1.0}
    assert reward_weights({"time": -1}) == {"time": -1.0}
    assert reward_weights({}) == {}
    assert reward_weights(lambda step: step) == {}
    changed = reward_weights("sparse")
    changed["win"] = 5.0
    assert PRESETS["sparse"]["win"] == 1.0


# --- functions ----------------------------------------------------------------------------------------------


def as_function(step):
    """The formula of SoulsGym as a reward function for N fights."""
    after, before = step.after, step.before
    reward = (before["boss_hp"] - after["boss_hp"]) / after["boss_max_hp"]
    reward = reward - (before["player_hp"] - after["player_hp"]) / after["player_max_hp"]
    reward = reward + 0.1 * step.terms["win"] - 0.1 * step.terms["death"]
    return reward + 0.01 * step.terms["centre"]


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("skip_locked", [False, True])
def test_a_function_of_many_fights_equals_the_preset(mode, skip_locked):
    options = {"num_envs": 6, "autoreset_mode": mode, "random_pose": True, "skip_locked": skip_locked}
    preset, function = (ArenaVectorEnv(reward=reward, **options) for reward in ("soulsgym", as_function))
    preset.reset(seed=2)
    function.reset(seed=2)
    n_ended = 0
    for actions in scripts(range(6), 400):
        one, other = preset.step(actions), function.step(actions)
        np.testing.assert_allclose(one[1], other[1], atol=1e-12)
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(other[4]["reward_terms"]["function"], other[1])
        over = one[2] | one[3]
        n_ended += int(over.sum())
        if over.any():
            first, second = (step[4].get("final_info", step[4])["fight"]["return"] for step in (one, other))
            np.testing.assert_allclose(first[over], second[over], atol=1e-9)
    assert n_ended > 6


@pytest.mark.parametrize("mode", ["next_step", "same_step", "disabled"])
def test_a_function_gets_the_last_state_of_a_fight_that_ended(mode):
    seen = []
    env = ArenaVectorEnv(num_envs=4, autoreset_mode=mode, reward=lambda step: seen.append(step) or np.zeros(4))
    assert len(seen) == 1  # the example at make
    seen.clear()
    env.reset(seed=0)
    ended = 0
    for actions in scripts(range(4), 400):
        over = env.step(actions)[2]
        np.testing.assert_array_equal(seen[-1].terminated, over)
        assert not seen[-1].truncated.any()
        np.testing.assert_array_equal(seen[-1].after["player_hp"] <= 0, over)
        np.testing.assert_array_equal(seen[-1].terms["death"], over)
        ended += int(over.sum())
        if mode == "disabled" and over.any():
            env.reset(options={"reset_mask": over})
        if len(seen) > 1:
            gone_on = ~(seen[-2].terminated)
            np.testing.assert_array_equal(seen[-1].before[gone_on], seen[-2].after[gone_on])
    assert ended > 4


def test_a_function_of_one_fight_equals_the_preset():
    env, preset = fresh(as_function), fresh("soulsgym")
    for action in script(2, 2000):
        one, other = env.step(int(action)), preset.step(int(action))
        assert one[1] == pytest.approx(other[1], abs=1e-12)
        assert one[4]["reward_terms"] == {"function": one[1]}
        if one[2]:
            break
    assert one[4]["fight"]["return"] == pytest.approx(other[4]["fight"]["return"])


def not_a_number(step):
    return np.where(step.terminated, np.nan, 0.0)


def test_a_function_that_fails_later():
    env = ArenaVectorEnv(num_envs=3, reward=not_a_number)
    env.reset(seed=0)
    with pytest.raises(EnvironmentUsageError, match=r"reward function not_a_number returned nan for fight \d"):
        for actions in scripts(range(3), 2000):
            env.step(actions)


# --- invalid functions, at construction ---------------------------------------------------------------------

WRONG_FUNCTIONS = {
    "a field that does not exist": (lambda step: step.before["boss_hpp"], "no field of name boss_hpp; did you mean"),
    "a term that does not exist": (lambda step: step.terms["wins"], "'wins'; did you mean 'win'?"),
    "an attribute that does not exist": (lambda step: step.befor, "'befor'; did you mean 'before'?"),
    "the arguments of EldenGym": (lambda _obs, _info, _prev_info=None: 0.0, "must take one argument, a Transition"),
    "a single number": (lambda step: step.after["player_hp"].sum(), "must return an array of shape (1,), one reward"),
    "another error": (lambda _: 1 / 0, "ZeroDivisionError"),
    "nothing": (lambda _: None, "<lambda> "),
    "a word": (lambda _: "much", "must return an array of 1 numbers"),
    "a table": (lambda _: {"a": 1}, "must return an array of 1 numbers"),
    "a ragged list": (lambda _: [1.0, [2.0]], "must return an array of 1 numbers"),
    "not a number": (lambda _: np.full(1, np.nan), "returned nan for fight 0"),
    "an object of EldenGym": (CustomReward(), "CustomReward is a reward object of EldenGym"),
}


@pytest.mark.parametrize("make", [ArenaEnv, functools.partial(ArenaLiveEnv, session=FakeArenaSession)])
@pytest.mark.parametrize("name", WRONG_FUNCTIONS)
def test_a_wrong_function_is_an_error_at_make(make, name):
    function, message = WRONG_FUNCTIONS[name]
    with pytest.raises(EnvironmentUsageError) as caught:
        make(reward=function)
    assert message in str(caught.value)
    assert name.startswith("an object") or "<lambda>" in str(caught.value)
