"""Reward shaping for rolls and for the edge of the ground."""

from itertools import islice

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soulslab.arena.boss_file import boss_names, load_boss
from soulslab.arena.duel_state import DUEL_STATE
from soulslab.arena.knight_file import load_knight
from soulslab.arena.vocabulary import BOSS_ANIMATIONS, FIRST_ROLL, LIGHT_ATTACK, NOTHING
from soulslab.envs.wrappers import Boundary, DodgeRewards, DodgeShaping, EdgeShaping, wind_ups_of
from soulslab.envs.wrappers.duel_source import duel_of
from soulslab.errors import EnvironmentUsageError
from support.players import script

GROUND = Boundary.circle((142.0, 594.0), 24.0)
ROLL = FIRST_ROLL + 2


def check_terms_add_up(reward, info):
    assert sum(info["reward_terms"].values()) == pytest.approx(reward, abs=1e-12)


def windows_of(env):
    return {
        BOSS_ANIMATIONS.index(name): w for name, w in wind_ups_of(env.unwrapped.boss).items() if name in BOSS_ANIMATIONS
    }


def is_timed(state, windows):
    """Whether a roll that begins now is well timed."""
    time_s = float(state["boss_animation_duration"][0])
    return any(
        low <= time_s + 1e-6 and time_s - 1e-6 <= high for low, high in windows.get(int(state["boss_animation"]), ())
    )


def test_a_roll_in_a_window_avoids_the_blow():
    knight = load_knight()
    first, last = knight.roll.invulnerable_s
    for name in boss_names():
        boss = load_boss(name, list(knight.knock_backs))
        for move in boss.moves:
            for window, (low, high) in zip(move.windows, wind_ups_of(boss)[move.animation], strict=True):
                assert 0.0 <= low <= high
                assert high + first <= max(window.start_s, first) + 1e-9
                assert low == 0.0 or low + last >= window.start_s - 1e-9


def test_a_well_timed_roll_is_rewarded_and_avoids_hits(make_duel):
    """Roll at the first well-timed step of each attack: each roll is rewarded, and there are fewer hits."""
    env = DodgeShaping(make_duel(observation="dict"), rewards=DodgeRewards(timed=1.0, panic=0.0))
    windows = windows_of(env)

    def fight(*, with_rolls):
        """Yield for each step whether a roll began, its reward, and whether the player lost health."""
        (seen, info), terminated = env.reset(seed=0), False
        while not terminated:
            hp, is_due = seen["player_hp"][0], with_rolls and is_timed(seen, windows) and info["action_mask"][ROLL]
            seen, reward, terminated, _, info = env.step(ROLL if is_due else NOTHING)
            check_terms_add_up(reward, info)
            assert info["reward_terms"]["dodge_timed"] in ((0.0, 1.0) if is_due else (0.0,))
            yield is_due, info["reward_terms"]["dodge_timed"], seen["player_hp"][0] < hp

    idle = list(fight(with_rolls=False))
    rolling = list(islice(fight(with_rolls=True), 200))
    n_rolls, paid, _ = map(sum, zip(*rolling, strict=True))
    assert n_rolls > 3
    assert paid >= 0.7 * n_rolls
    n_hits_idle, n_hits_rolling = (sum(is_hit for *_, is_hit in steps[: len(idle)]) for steps in (idle, rolling))
    assert n_hits_rolling < n_hits_idle


def test_the_windows_are_those_of_the_boss_of_each_fight():
    env = gymnasium.make("soulslab/Arena-v0", boss="generated:2-5", observation="dict")
    env = DodgeShaping(env, rewards=DodgeRewards(timed=1.0, panic=0.0))
    paid = 0.0
    for seed in range(3):
        seen, info = env.reset(seed=seed)
        windows, terminated = windows_of(env), False
        while not terminated:
            is_due = is_timed(seen, windows) and info["action_mask"][ROLL]
            seen, _, terminated, _, info = env.step(ROLL if is_due else NOTHING)
            assert info["reward_terms"]["dodge_timed"] in ((0.0, 1.0) if is_due else (0.0,))
            paid += info["reward_terms"]["dodge_timed"]
    assert paid > 10


def test_rolls_without_an_attack_are_penalised(make_duel):
    env = DodgeShaping(make_duel(observation="dict"), rewards=DodgeRewards(timed=0.0, panic=0.25))
    _, info = env.reset(seed=0)
    terms = []
    for _ in range(9):  # the boss does not attack in the first second
        action = ROLL if info["action_mask"][ROLL] else NOTHING
        _, reward, _, _, info = env.step(action)
        check_terms_add_up(reward, info)
        terms.append(info["reward_terms"]["dodge_panic"])
        assert (terms[-1] < 0) == (action == ROLL)
    assert terms[0] == -0.25


def test_rolls_far_from_the_boss_are_penalised():
    env = DodgeShaping(gymnasium.make("soulslab/Arena-v0"), rewards=DodgeRewards(near_m=0.0))
    env.reset(seed=0)
    for action in script(0, 200):
        *_, terminated, _, info = env.step(ROLL if action > 9 else NOTHING)
        assert info["reward_terms"]["dodge_timed"] == 0.0
        if terminated:
            break


class ScriptedDuel(gymnasium.Env):
    """A scripted duel: (boss animation, its time, distance, whether a roll began in the last step)."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(20)

    def __init__(self, *states):
        self.states = states
        self.place = 0

    def reset(self, *, seed=None, options=None):  # noqa: ARG002
        self.place = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):  # noqa: ARG002
        self.place += 1
        return np.zeros(1, np.float32), 2.0, False, False, {}

    @property
    def duel_state(self):
        state = np.zeros(1, DUEL_STATE)[0]
        name, state.boss_animation_duration, state.boss_pose[0], _ = self.states[self.place]
        state.boss_animation = BOSS_ANIMATIONS.index(name) if name else -1
        return state

    @property
    def reward_quantities(self):
        return {"roll": float(self.states[self.place][3])}


def judged(*states):
    """Return reward and penalty of each roll, with one window from 0.2 s to 0.5 s and 8 m."""
    env = DodgeShaping(ScriptedDuel(*states), {"Attack3000": [(0.2, 0.5)]}, DodgeRewards(timed=1.0, panic=0.25))
    env.reset()
    found = []
    for _ in states[1:]:
        _, reward, *_, info = env.step(ROLL)
        check_terms_add_up(reward, info)
        assert info["reward_terms"]["reward"] == 2.0  # the reward of an environment without terms
        found.append(info["reward_terms"]["dodge_timed"] + info["reward_terms"]["dodge_panic"])
    return found


def test_a_window_is_rewarded_once_for_each_attack():
    attack = "Attack3000"
    rolls = judged(
        (attack, 0.1, 5.0, 0),
        (attack, 0.2, 5.0, 1),  # begun at 0.1 s: too early
        (attack, 0.3, 5.0, 1),  # at 0.2 s: in time
        (attack, 0.4, 5.0, 1),  # at 0.3 s: rewarded already
        (attack, 0.2, 5.0, 1),  # at 0.4 s: rewarded already; then the same attack begins again
        (attack, 0.3, 5.0, 0),  # none
        (attack, 0.4, 5.0, 1),  # at 0.3 s: in time
    )
    assert rolls == [-0.25, 1.0, 0.0, 0.0, 0.0, 1.0]


def test_unknown_animations_do_not_count_but_distant_rolls_do():
    assert judged(("", 0.3, 5.0, 0), ("", 0.4, 5.0, 1)) == [0.0]
    assert judged(("Attack3000", 0.3, 8.5, 0), ("", 0.4, 5.0, 1)) == [-0.25]
    assert judged(("IdleBattle", 0.3, 5.0, 0), ("", 0.4, 5.0, 1)) == [-0.25]


def test_without_a_boss_file_windows_are_needed():
    with pytest.raises(EnvironmentUsageError, match="ScriptedDuel has no boss file, so it needs wind_ups"):
        DodgeShaping(ScriptedDuel())


def test_windows_of_an_unknown_animation_are_refused():
    with pytest.raises(EnvironmentUsageError, match=r"unknown animation 'Atack3000'; did you mean 'Attack3000'\?"):
        DodgeShaping(ScriptedDuel(), {"Atack3000": [(0.2, 0.6)]})


@settings(max_examples=15)
@given(boss=st.sampled_from(boss_names()), seed=st.integers(0, 2**32), timed=st.floats(0, 5), panic=st.floats(0, 5))
def test_shaping_is_bounded_and_in_the_reward_terms(boss, seed, timed, panic):
    inner = gymnasium.make("soulslab/Arena-v0", boss=boss, random_pose=True)
    env = DodgeShaping(inner, rewards=DodgeRewards(timed=timed, panic=panic))
    env.reset(seed=seed)
    n_rolls, n_windows, paid = 0, 0, 0.0
    last = -1
    for action in script(seed, 150):
        _, reward, terminated, _, info = env.step(int(action))
        check_terms_add_up(reward, info)
        terms = info["reward_terms"]
        assert terms["dodge_timed"] in (0.0, timed)
        assert terms["dodge_panic"] in (0.0, -panic)
        assert terms["dodge_timed"] * terms["dodge_panic"] == 0.0
        n_rolls += FIRST_ROLL <= action < LIGHT_ATTACK
        paid += terms["dodge_timed"]
        duel = env.unwrapped.simulator.duels[0]
        n_windows += 8 * (int(duel.b_move) != last)
        last = int(duel.b_move)
        if terminated:
            break
    assert paid <= timed * min(n_rolls, n_windows) + 1e-9


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32), weight=st.floats(0, 3), discount=st.floats(0.5, 1))
def test_edge_shaping_changes_the_return_by_the_start_only(seed, weight, discount):
    """The discounted sum of the shaping terms is minus the potential of the first state, for all actions."""
    env = EdgeShaping(gymnasium.make("soulslab/Arena-v0", random_pose=True), GROUND, weight, 6.0, discount)
    env.reset(seed=seed)
    start = env.potential(duel_of(env, "test").duel_state)
    total, factor, terminated = 0.0, 1.0, False
    for action in script(seed, 2500):
        _, reward, terminated, _, info = env.step(int(action))
        check_terms_add_up(reward, info)
        total += factor * info["reward_terms"]["edge"]
        factor *= discount
        if terminated:
            break
    assert terminated
    assert total == pytest.approx(-start, abs=1e-9)
    assert -weight <= start <= 0.0


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda env: DodgeShaping(env, rewards=DodgeRewards(timed=-1.0)), "timed must be 0 or more"),
        (lambda env: DodgeShaping(env, {"Attack3000": [(0.5, 0.1)]}), "from <= to"),
        (lambda env: EdgeShaping(env, GROUND, near_m=0.0), "near_m"),
        (lambda env: EdgeShaping(env, GROUND, discount=1.5), "discount"),
    ],
)
def test_wrong_options(make, problem):
    with pytest.raises(EnvironmentUsageError, match=problem):
        make(gymnasium.make("soulslab/Arena-v0"))
