"""Observations, masks and rewards of Iudex equal those of SoulsGym and SoulsAI, except for the differences named here.

`support.soulsgym_formulas` has the formulas. Random moments are written, byte by byte, to the memory of the built-in
fight with the memory layout of Dark Souls III. Sequences follow; `test_fights_equal_to_soulsgym` compares whole fights.
Each deliberate difference is a test whose name begins with ``test_difference``, and a line in docs/live.md.
"""

from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from soulslab.arena.duel_state import DUEL_STATE
from soulslab.arena.vocabulary import ACTIONS, N_ACTIONS
from soulslab.envs.game.session_holder import SessionHolder
from soulslab.envs.tasks.duel.duel_actions import find_open_actions, keys_of
from soulslab.envs.tasks.duel.duel_game import DuelGame
from soulslab.envs.tasks.duel.duel_observation import ObservationBuilder
from soulslab.envs.tasks.duel.duel_reader import DuelReader
from soulslab.envs.tasks.duel.duel_scenario import Vitals
from soulslab.envs.tasks.duel.fight_score import FightScore
from soulslab.envs.tasks.process.process_settings import Pixels
from soulslab.games.dark_souls_3 import PROFILE_PATH
from soulslab.siphon.session import SessionOptions
from support import soulsgym_formulas as formulas
from support.long_form import IS_LONG
from support.masked_game import MaskedSession
from support.soulsgym_moments import IUDEX, PLAYER_HP, PLAYER_SP, Moment, is_at_a_lock

STEP_S = 0.1
SCALARS = 18
#: Values are float32, and positions are hundreds of metres from the origin.
CLOSE = {"rtol": 1e-5, "atol": 2e-6}

LINGERING = ("SABlend_Damage", "SABlendSmall", "PartDamage_Front", "Part1")
UNKNOWN = ("", "Attack1500", "DeathIdle", "SomethingElse")
#: Components of the camera's direction, without -0.0, which has an angle of half a turn.
parts = st.floats(-1.0, 1.0, width=32).map(lambda part: part + 0.0)


def around(low, high, beyond):
    """Draw numbers within limits and up to `beyond` outside."""
    return st.floats(low - beyond, high + beyond, width=32)


poses = st.tuples(*(around(low, high, 8.0) for low, high in formulas.LIMITS_M), st.floats(-3.125, 3.125, width=32))
times_s = st.floats(0.0, 12.0, width=32) | st.sampled_from([0.5, 0.6875, 0.75, 1.03125, 25.0])
moments = st.builds(
    Moment,
    player=poses,
    boss=poses,
    camera=st.tuples(*(around(low, high, 8.0) for low, high in formulas.LIMITS_M), parts, parts, parts),
    player_hp=st.integers(0, PLAYER_HP),
    player_sp=st.integers(-20, PLAYER_SP),
    boss_hp=st.integers(0, formulas.BOSS_MAX_HP),
    player_animation=st.sampled_from([*formulas.LOCKS_S, *UNKNOWN]),
    player_animation_s=times_s,
    boss_animation=st.sampled_from([*formulas.BOSS_ANIMATIONS, *UNKNOWN, *LINGERING]),
    boss_animation_s=times_s,
    boss_length_s=times_s,
    attack_id=st.sampled_from([-1, 3000, 3007, 3015, 3029, 1500]),
    next_attack_id=st.sampled_from([-1, 3001, 3003]),
    lock_on=st.booleans(),
)


class Game:
    """The memory of the game, and the parts of an environment that read it."""

    def __init__(self):
        self.session = MaskedSession(PROFILE_PATH, SessionOptions(options={"boss": "judge"}))
        self.scenario = IUDEX
        self.duel = DuelGame(SessionHolder(None, self.session), self.session.profile)
        self.reader = DuelReader(self.duel.binding, self.scenario)
        self.address_of = cache(self.session.arena.table.address_of)
        self.fields, self.features = (
            ObservationBuilder(kind, self.scenario, Pixels(), (0, 20)) for kind in ("dict", "features")
        )

    def begin(self):
        """Start an episode."""
        self.reader.begin(1, Vitals(PLAYER_HP, PLAYER_SP))

    def read(self, moment, game_time_s=0.0):
        """Write a moment to memory, and read it."""
        for name, stored in moment.memory().items():
            self.session.arena.process.write(self.address_of(name), stored)
        self.reader.update(self.duel.read(*self.reader.quantities), game_time_s)

    @property
    def mask(self):
        """The action mask."""
        mask = np.empty(N_ACTIONS, np.bool_)
        reader = self.reader
        find_open_actions(reader.player_animation, reader.player_animation_s, float(reader.state.player_sp)).write(mask)
        return mask


@pytest.fixture(scope="module")
def game():
    one = Game()
    yield one
    one.session.close()


many = settings(
    max_examples=25_000 if IS_LONG else 150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def clip_features(numbers):
    """Return the 74 numbers, clipped to the bounds of the observation space."""
    low = np.where(np.isin(np.arange(74), (7, 8, 12, 13, 14, 15)), -1.0, 0.0)
    high = np.ones(74)
    high[3], high[16], high[17] = 4.0, 10.0, 10.0
    return np.clip(numbers, low, high)


def test_the_20_actions_press_the_keys_of_soulsgym(game):
    names = {"light_attack": "lightattack", "heavy_attack": "heavyattack"}
    assert [tuple(names.get(button, button) for button in buttons) for buttons in ACTIONS] == list(formulas.ACTIONS)
    keys = game.session.profile.keys
    for action, buttons in enumerate(formulas.ACTIONS):
        pressed = keys_of(action, keys).held
        assert [key.lower().replace("space", " ") for key in pressed] == [formulas.KEYS[button] for button in buttons]


def test_every_key_of_soulsgym_is_in_the_profile(game):
    keys = {name.replace("_", ""): key.lower().replace("space", " ") for name, key in game.session.profile.keys.items()}
    assert keys == {name.replace("_", ""): key for name, key in formulas.KEYS.items()}


@seed(1)
@many
@given(moment=moments)
def test_a_moment_s_observation(game, moment):
    game.begin()
    game.read(moment)
    seen = game.fields.observation(game.reader.state, None)
    wanted = moment.observation()
    assert list(seen) == list(wanted)
    for name, value in wanted.items():
        space = game.fields.space[name]
        bounded = np.clip(np.atleast_1d(value), space.low, space.high) if hasattr(space, "low") else value
        np.testing.assert_allclose(seen[name], bounded, err_msg=name, **CLOSE)


@seed(2)
@many
@given(moment=moments)
def test_a_moment_s_74_numbers(game, moment):
    game.begin()
    game.read(moment)
    numbers = formulas.features(moment.observation(), formulas.StrollTime(STEP_S).look(*stroll(moment)))
    assert numbers.shape == (74,)
    np.testing.assert_allclose(game.features.observation(game.reader.state, None), clip_features(numbers), **CLOSE)


@seed(3)
@many
@given(moment=moments)
def test_a_moment_s_mask(game, moment):
    game.begin()
    game.read(moment)
    if moment.player_animation.startswith("Fall"):
        return  # test_difference_no_action_is_allowed_in_a_fall
    if not is_at_a_lock(moment):
        wanted = formulas.mask(moment.player_animation, moment.player_animation_s, moment.player_sp)
        assert game.mask.tolist() == wanted.tolist()


def test_difference_a_lock_ends_within_the_rounding_of_its_time(game):
    """SoulsGym sums steps of 0.1 s in 64 bits; a game's time in 32 bits can be slightly below the end of a lock."""
    game.begin()
    moment = Moment(player_animation="AttackRightHeavy2Sta", player_animation_s=0.99999)
    game.read(moment)
    assert is_at_a_lock(moment)
    assert game.mask.all()
    assert not formulas.mask(moment.player_animation, moment.player_animation_s, PLAYER_SP)[0]


def test_masks_change_at_the_times_of_the_locks(game):
    game.begin()
    for animation, locks_s in formulas.LOCKS_S.items():
        if animation.startswith("Fall"):
            continue  # test_difference_no_action_is_allowed_in_a_fall
        for time_s in {max(lock_s + beside_s, 0.0) for lock_s in locks_s for beside_s in (-0.001, 0.0, 0.001)}:
            game.read(Moment(player_animation=animation, player_animation_s=time_s))
            assert game.mask.tolist() == formulas.mask(animation, time_s, PLAYER_SP).tolist(), (animation, time_s)


def stroll(moment):
    """Return the arguments of `StrollTime.look` for a moment."""
    return formulas.BOSS_NUMBERS.get(moment.true_boss_animation, -1), moment.boss_animation_s


# --- sequences ----------------------------------------------------------------------------------------------


def test_successive_walks_and_turns_are_summed(game):
    """Names and times each 0.1 s, as in the game; the boss begins at most one animation between two reads."""
    rng = np.random.default_rng(5)
    walks = [formulas.BOSS_ANIMATIONS[number] for number in formulas.STROLLS]
    game.begin()
    strolls = formulas.StrollTime(STEP_S)
    name, time_s = "WalkFrontBattle", 0.0
    for k in range(10_000 if IS_LONG else 300):
        time_s += STEP_S
        if rng.random() < 0.25:
            name = str(rng.choice([other for other in (*walks, "IdleBattle", "Attack3003") if other != name]))
            time_s = float(rng.uniform(0.0, STEP_S))
        moment = Moment(boss_animation=name, boss_animation_s=float(np.float32(time_s)), boss_length_s=100.0)
        game.read(moment, game_time_s=k * STEP_S)
        wanted = formulas.features(moment.observation(), strolls.look(*stroll(moment)))
        np.testing.assert_allclose(game.features.observation(game.reader.state, None), clip_features(wanted), **CLOSE)


def test_difference_a_sequence_of_walks_counts_from_its_beginning(game):
    """SoulsAI counts a whole step for the step in which a sequence of walks begins."""
    game.begin()
    for k, (name, time_s) in enumerate((("Attack3000", 1.0), ("WalkFrontBattle", 0.03), ("WalkLeftBattle", 0.05))):
        game.read(Moment(boss_animation=name, boss_animation_s=time_s), game_time_s=k * STEP_S)
    assert game.features.observation(game.reader.state, None)[17] == pytest.approx(0.03 + STEP_S)


def test_difference_no_action_is_allowed_in_a_fall(game):
    """SoulsGym has no lock for falls, although keys have no effect in a fall."""
    game.begin()
    for animation in (name for name in formulas.LOCKS_S if name.startswith("Fall")):
        game.read(Moment(player_animation=animation, player_animation_s=1.0))
        assert game.mask.tolist() == [False] * 19 + [True]
        assert formulas.mask(animation, 1.0, PLAYER_SP).all()


def test_difference_a_repeated_animation_starts_at_0(game):
    """SoulsGym adds up the time while the name stays the same; here it is the game's own animation time."""
    game.begin()
    for k, time_s in enumerate((0.7, 0.05)):
        game.read(Moment(player_animation="RollingMedium", player_animation_s=time_s), game_time_s=k * STEP_S)
        assert game.reader.state.player_animation_duration == pytest.approx(time_s)


def test_difference_the_second_phase_begins_after_the_phase_change(game):
    """SoulsGym's demo reports phase 2 from the first read of Attack1500."""
    game.begin()
    phases = []
    for k, name in enumerate(("Attack3000", "Attack1500", "Attack1500", "IdleBattle", "Attack3001")):
        game.read(Moment(boss_animation=name, boss_animation_s=0.1), game_time_s=k * STEP_S)
        phases.append(int(game.reader.state.phase))
    assert phases == [1, 1, 1, 2, 2]


# --- rewards and whole fights -------------------------------------------------------------------------------


def state_of(observation):
    """Return an observation as a state record, from which rewards are computed."""
    state = np.zeros(1, DUEL_STATE)[0]
    for name, value in observation.items():
        state[name] = value
    return state


def score_of(before, after, verdict):
    """Return the reward of a step."""
    score = FightScore(IUDEX, "soulsgym", STEP_S)
    score.begin(state_of(before), -1)
    score.begin_step()
    score.add(19, state_of(after), "IdleBattle", is_falling=False, is_over=bool(verdict))
    return score.finish_step(verdict, is_truncated=False)[0]


@seed(4)
@many
@given(before=moments, after=moments, end=st.sampled_from(["", "won", "lost"]))
def test_a_step_s_reward(before, after, end):
    before.player_hp, before.boss_hp = max(before.player_hp, 1), max(before.boss_hp, 1)
    after.player_hp = 0 if end == "lost" else max(after.player_hp, 1)
    after.boss_hp = 0 if end == "won" else max(after.boss_hp, 1)
    wanted = formulas.reward(before.observation(), after.observation())
    assert score_of(before.observation(), after.observation(), end) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize(("far_before_m", "far_after_m", "reward"), [(9, 6, 0.03), (6, 9, -0.03), (9, 3, 0), (3, 2, 0)])
def test_the_reward_for_moves_towards_the_centre(far_before_m, far_after_m, reward):
    x, y = formulas.CENTRE_M
    before, after = (Moment(player=(x + far_m, y, -68.75, 0.0)).observation() for far_m in (far_before_m, far_after_m))
    assert score_of(before, after, "") == pytest.approx(reward)
    assert formulas.reward(before, after) == pytest.approx(reward)


def test_difference_a_player_that_dies_with_the_boss_has_lost():
    """SoulsGym rewards a win; here the player's death counts, as in the built-in fight."""
    before, after = Moment(player_hp=10, boss_hp=10).observation(), Moment(player_hp=0, boss_hp=0).observation()
    wanted = formulas.reward(before, after)
    assert score_of(before, after, "lost") == pytest.approx(wanted - 0.2)
