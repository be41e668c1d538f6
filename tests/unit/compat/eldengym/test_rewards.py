"""EldenGym's reward functions: formulas, and errors for wrong functions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulslab.compat.eldengym.eldengym_rewards import (
    BossDefeatReward,
    CustomReward,
    RewardFunction,
    ScoreDeltaReward,
    check_reward_function,
    evaluate_reward,
)
from soulslab.errors import EnvironmentUsageError

SHARES = st.floats(0.01, 1.0)


def info(player=1.0, boss=1.0, **more):
    return {"player_hp_normalized": player, "boss_hp_normalized": boss, **more}


@given(SHARES, SHARES, SHARES, SHARES)
def test_score_delta_reward_is_the_change_of_the_score(player, boss, player_before, boss_before):
    paid = ScoreDeltaReward().calculate({}, info(player, boss), info(player_before, boss_before))
    assert paid == player - player_before
    scored = ScoreDeltaReward("gems").calculate({}, info(gems=5), info(gems=3))
    assert scored == 2.0


@given(SHARES, SHARES, SHARES, SHARES)
def test_custom_reward_weights_both_healths_and_survival(player, boss, player_before, boss_before):
    reward = CustomReward(hp_delta_weight=2.0, boss_damage_weight=3.0, survival_bonus=0.25)
    paid = reward.calculate({}, info(player, boss), info(player_before, boss_before))
    assert paid == pytest.approx(2.0 * (player - player_before) + 3.0 * (boss_before - boss) + 0.25)


@pytest.mark.parametrize(
    ("reward", "won", "lost", "step"),
    [
        (ScoreDeltaReward(), 100.0, -101.0, 0.0),
        (ScoreDeltaReward(win_bonus=3.0, loss_penalty=-2.0), 3.0, -3.0, 0.0),
        (BossDefeatReward(), 0.999, -1.001, -0.001),
        (BossDefeatReward(5.0, -4.0, 0.0), 5.0, -4.0, 0.0),
        (CustomReward(), 100.51, -101.0, 0.01),
        (CustomReward(1.0, 0.0, 0.0, 7.0, -8.0), 7.0, -9.0, 0.0),
    ],
)
def test_the_end_of_a_fight_is_rewarded(reward, won, lost, step):
    assert evaluate_reward(reward, {}, info(boss=0.0), info()) == (pytest.approx(won), True)
    assert evaluate_reward(reward, {}, info(player=0.0), info()) == (pytest.approx(lost), True)
    assert evaluate_reward(reward, {}, info(), info()) == (pytest.approx(step), False)


@pytest.mark.parametrize("reward", [ScoreDeltaReward(), BossDefeatReward(), CustomReward()])
def test_a_player_that_dies_with_the_boss_has_won(reward):
    both, alone = (reward.calculate({}, info(player, 0.0), info()) for player in (0.0, 1.0))
    assert both >= alone - 1.01
    assert both > 0.0 or isinstance(reward, BossDefeatReward)
    assert both > reward.calculate({}, info(0.0, 1.0), info())


def test_a_reward_without_a_previous_info_is_0():
    assert ScoreDeltaReward().calculate({}, info(0.5)) == CustomReward().calculate({}, info(0.5)) == 0.0


def test_a_missing_score_is_an_error_with_a_suggestion():
    with pytest.raises(EnvironmentUsageError, match=r"'player_hp'; did you mean 'player_hp_normalized'"):
        ScoreDeltaReward("player_hp").calculate({}, info(), info())


def test_a_user_s_reward_function_needs_no_base_class():
    class Mine(RewardFunction):
        def calculate(self, obs, _, prev_info=None):
            return obs["NpcHp"] - prev_info["boss_hp_normalized"]

        def is_done(self, obs, _):
            return obs["NpcHp"] < 3

    class WithoutBase:
        calculate, is_done = Mine.calculate, Mine.is_done

    for mine in (Mine(), WithoutBase()):
        assert evaluate_reward(check_reward_function(mine), {"NpcHp": np.int64(2)}, info(), info()) == (1.0, True)
    with pytest.raises(TypeError, match="abstract"):
        RewardFunction()


@pytest.mark.parametrize("wrong", [ScoreDeltaReward, "ScoreDeltaReward", object()])
def test_other_values_are_refused_as_reward_functions(wrong):
    with pytest.raises(EnvironmentUsageError, match="reward_function must be an object with calculate"):
        check_reward_function(wrong)


@pytest.mark.parametrize("value", [None, "1.0x", float("nan"), float("inf"), [1.0, 2.0]])
def test_a_reward_that_is_not_a_finite_number_is_refused(value):
    class Odd(ScoreDeltaReward):
        def calculate(self, *_):
            return value

    with pytest.raises(EnvironmentUsageError, match=r"Odd.calculate must return a"):
        evaluate_reward(Odd(), {}, info(), info())


def of_the_documentation(_obs, info, terminated, truncated):
    return info["score"] + 10 * terminated + 20 * truncated


def of_calculate(_obs, info, prev_info=None):
    return info["score"] - prev_info["score"]


def of_two(obs, info):
    return info["score"] + obs["NpcHp"]


@pytest.mark.parametrize(
    ("plain", "rewards"),
    [(of_the_documentation, (3.0, 13.0, 23.0)), (of_calculate, (1.0, 1.0, 1.0)), (of_two, (5.0, 5.0, 5.0))],
)
def test_a_plain_function_is_a_reward_function(plain, rewards):
    function = check_reward_function(plain)
    before, alive, dead = ({**info(hp), "score": score} for hp, score in ((1.0, 2.0), (1.0, 3.0), (0.0, 3.0)))
    obs = {"NpcHp": 2}
    assert evaluate_reward(function, obs, alive, before) == (rewards[0], False)
    assert evaluate_reward(function, obs, dead, before, is_last_step=True) == (rewards[1], True)
    assert evaluate_reward(function, obs, alive, before, is_last_step=True) == (rewards[2], False)


def test_a_function_with_other_arguments_is_refused():
    def shaped(step):
        return step

    with pytest.raises(EnvironmentUsageError, match=r"reward_function .*shaped must take \(obs, info, terminated"):
        check_reward_function(shaped)
    with pytest.raises(EnvironmentUsageError, match=r"reward_function .*<lambda> must return a number, not None"):
        evaluate_reward(check_reward_function(lambda _obs, _info: None), {}, info(), info())
