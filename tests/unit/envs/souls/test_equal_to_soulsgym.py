"""What an agent gets of Iudex is what SoulsGym and SoulsAI make of the same memory, but for the differences named here.

The formulas stand in `support.soulsgym_formulas`. Moments are drawn at random and written, byte by byte, to the memory
of the built-in fight under the mask of Dark Souls III; whole sequences follow. Each deliberate difference is a test whose
name begins with ``test_otherwise``, and a line in docs/live.md.
"""

import struct
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from soulslab.arena.boss_file import load_boss
from soulslab.arena.knight import load_knight
from soulslab.arena.vocabulary import ACTIONS, N_ACTIONS
from soulslab.envs.live.actions import keys_of
from soulslab.envs.live.duel_game import DuelGame
from soulslab.envs.live.masks import Locks
from soulslab.envs.live.observation import Observer
from soulslab.envs.live.reader import DuelReader
from soulslab.envs.live.scenario import Vitals, scenario_of
from soulslab.envs.process_settings import Pixels
from soulslab.envs.process_start import GameKeeper
from soulslab.games.dark_souls_3 import PROFILE_PATH
from soulslab.siphon.session import SessionOptions
from support import soulsgym_formulas as formulas
from support.masked_game import MaskedSession

STEP_S = 0.1
PLAYER_HP, PLAYER_SP = 454, 95
SCALARS = 18
#: No look is as good as a game's own float32, and positions are hundreds of metres from its origin.
CLOSE = {"rtol": 1e-5, "atol": 2e-6}

LINGERING = ("SABlend_Damage", "SABlendSmall", "PartDamage_Front", "Part1")
UNKNOWN = ("", "Attack1500", "DeathIdle", "SomethingElse")
#: Of the camera's direction; no -0.0, whose angle would be half a turn.
parts = st.floats(-1.0, 1.0, width=32).map(lambda part: part + 0.0)


class Moment(msgspec.Struct):
    """What the memory of the game holds at one look."""

    player: tuple[float, float, float, float] = (139.0, 590.0, -68.75, 0.5)
    boss: tuple[float, float, float, float] = (142.0, 595.0, -68.75, -0.5)
    camera: tuple[float, ...] = (140.0, 588.0, -66.0, 0.25, 0.96875, -0.25)
    player_hp: int = PLAYER_HP
    player_sp: int = PLAYER_SP
    boss_hp: int = formulas.BOSS_MAX_HP
    player_animation: str = "Idle"
    player_animation_s: float = 0.0
    boss_animation: str = "IdleBattle"
    boss_animation_s: float = 0.0
    boss_length_s: float = 8.0
    attack_id: int = -1
    next_attack_id: int = -1
    lock_on: bool = True

    @property
    def true_boss_animation(self):
        """What the boss does."""
        return formulas.boss_animation(
            self.boss_animation, self.boss_animation_s, self.boss_length_s, self.attack_id, self.next_attack_id
        )

    def memory(self):
        """Return what stands at attributes of the profile, byte by byte."""
        floats = {
            "player.animation_time": self.player_animation_s,
            "boss.animation_time": self.boss_animation_s,
            "boss.animation_length": self.boss_length_s,
        }
        numbers = {
            "player.hp": self.player_hp,
            "player.sp": self.player_sp,
            "boss.hp": self.boss_hp,
            "boss.attack_id": self.attack_id,
            "boss.next_attack_id": self.next_attack_id,
        }
        names = {"player.animation": self.player_animation, "boss.animation": self.boss_animation}
        return {
            "player.pose": stored_pose(self.player),
            "boss.pose": stored_pose(self.boss),
            "camera.direction": stored_camera(self.camera),
            "lock_on": bytes([self.lock_on]),
            **{name: struct.pack("<f", value) for name, value in floats.items()},
            **{name: struct.pack("<i", value) for name, value in numbers.items()},
            **{name: value.encode("utf-16-le")[:40].ljust(40, b"\0") for name, value in names.items()},
        }

    def observation(self):
        """Return SoulsGym's observation of it."""
        return {
            "phase": 1,
            "player_hp": self.player_hp,
            "player_max_hp": PLAYER_HP,
            "player_sp": self.player_sp,
            "player_max_sp": PLAYER_SP,
            "boss_hp": self.boss_hp,
            "boss_max_hp": formulas.BOSS_MAX_HP,
            "player_pose": formulas.pose(stored_pose(self.player)),
            "boss_pose": formulas.pose(stored_pose(self.boss)),
            "camera_pose": formulas.camera_pose(stored_camera(self.camera)),
            "player_animation": formulas.PLAYER_NUMBERS.get(self.player_animation, -1),
            "player_animation_duration": self.player_animation_s,
            "boss_animation": formulas.BOSS_NUMBERS.get(self.true_boss_animation, -1),
            "boss_animation_duration": self.boss_animation_s,
            "lock_on": int(self.lock_on),
        }


def stored_pose(pose):
    """Return the 24 bytes of a pose of x, y, height and angle."""
    x, y, height, angle = pose
    return struct.pack("<f8xfff", angle, x, height, y)


def stored_camera(camera):
    """Return the 28 bytes of a camera of x, y, height, nx, ny and nz."""
    x, y, height, nx, ny, nz = camera
    return struct.pack("<fff4xfff", nx, nz, ny, x, height, y)


def around(low, high, beyond):
    """Draw numbers within limits, and some of them beyond."""
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


def scenario():
    """Return Iudex's scenario, of the facts."""
    judge = scenario_of(load_boss("judge", list(load_knight().knock_backs)))
    return msgspec.structs.replace(
        judge,
        boss_max_hp=formulas.BOSS_MAX_HP,
        limits_m=tuple((float(low), float(high)) for low, high in formulas.LIMITS_M),
        reward_centre_m=tuple(formulas.CENTRE_M.tolist()),
        attacks={name: name for name in formulas.BOSS_ANIMATIONS[:19]},
        phase_two_animation="Attack1500",
    )


class Game:
    """The memory of the masked game, and what the environments make of it."""

    def __init__(self, folder: Path):
        self.session = MaskedSession(PROFILE_PATH, folder, SessionOptions(options={"boss": "judge"}))
        self.scenario = scenario()
        self.duel = DuelGame(GameKeeper(None, self.session), self.session.profile)
        self.reader = DuelReader(self.duel.binding, self.scenario)
        self.address_of = cache(self.session.arena.table.address_of)
        self.locks = Locks()
        self.fields, self.features = (Observer(kind, self.scenario, Pixels(), (0, 20)) for kind in ("dict", "features"))

    def begin(self):
        """Begin an episode."""
        self.reader.begin(1, Vitals(PLAYER_HP, PLAYER_SP))

    def look(self, moment, game_time_s=0.0):
        """Write a moment to memory, and look at it."""
        for name, stored in moment.memory().items():
            self.session.arena.process.write(self.address_of(name), stored)
        self.reader.take(self.duel.read(*self.reader.quantities), game_time_s)

    @property
    def mask(self):
        """Which actions are open."""
        mask = np.empty(N_ACTIONS, np.bool_)
        reader = self.reader
        self.locks.freedom(reader.player_animation, reader.player_s, float(reader.state.player_sp)).write(mask)
        return mask


@pytest.fixture(scope="module")
def game(tmp_path_factory):
    one = Game(tmp_path_factory.mktemp("masked"))
    yield one
    one.session.close()


many = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def cut_off(numbers):
    """Return the 74 numbers within the bounds that they have here."""
    low = np.where(np.isin(np.arange(74), (7, 8, 12, 13, 14, 15)), -1.0, 0.0)
    high = np.ones(74)
    high[3], high[16], high[17] = 4.0, 10.0, 10.0
    return np.clip(numbers, low, high)


def test_the_20_actions_press_soulsgym_s_keys(game):
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
    game.look(moment)
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
    game.look(moment)
    numbers = formulas.features(moment.observation(), formulas.StrollTime(STEP_S).look(*stroll(moment)))
    assert numbers.shape == (74,)
    np.testing.assert_allclose(game.features.observation(game.reader.state, None), cut_off(numbers), **CLOSE)


@seed(3)
@many
@given(moment=moments)
def test_a_moment_s_mask(game, moment):
    game.begin()
    game.look(moment)
    if moment.player_animation.startswith("Fall"):
        return  # test_otherwise_nothing_is_open_in_a_fall
    wanted = formulas.mask(moment.player_animation, moment.player_animation_s, moment.player_sp)
    assert game.mask.tolist() == wanted.tolist()


def test_masks_open_at_the_very_times_of_their_locks(game):
    game.begin()
    for animation, locks_s in formulas.LOCKS_S.items():
        if animation.startswith("Fall"):
            continue  # test_otherwise_nothing_is_open_in_a_fall
        for time_s in {max(lock_s + beside_s, 0.0) for lock_s in locks_s for beside_s in (-0.001, 0.0, 0.001)}:
            game.look(Moment(player_animation=animation, player_animation_s=time_s))
            assert game.mask.tolist() == formulas.mask(animation, time_s, PLAYER_SP).tolist(), (animation, time_s)


def stroll(moment):
    """Return what `StrollTime.look` takes of a moment."""
    return formulas.BOSS_NUMBERS.get(moment.true_boss_animation, -1), moment.boss_animation_s


# --- sequences ----------------------------------------------------------------------------------------------


def test_walks_and_turns_in_a_row_add_up(game):
    """Names and times as the game has them each 0.1 s; what the boss did between two looks is one animation at most."""
    rng = np.random.default_rng(5)
    walks = [formulas.BOSS_ANIMATIONS[number] for number in formulas.STROLLS]
    game.begin()
    strolls = formulas.StrollTime(STEP_S)
    name, time_s = "WalkFrontBattle", 0.0
    for k in range(300):
        time_s += STEP_S
        if rng.random() < 0.25:
            name = str(rng.choice([other for other in (*walks, "IdleBattle", "Attack3003") if other != name]))
            time_s = float(rng.uniform(0.0, STEP_S))
        moment = Moment(boss_animation=name, boss_animation_s=float(np.float32(time_s)), boss_length_s=100.0)
        game.look(moment, game_time_s=k * STEP_S)
        wanted = formulas.features(moment.observation(), strolls.look(*stroll(moment)))
        np.testing.assert_allclose(game.features.observation(game.reader.state, None), cut_off(wanted), **CLOSE)


def test_otherwise_a_row_of_walks_counts_from_its_own_beginning(game):
    """SoulsAI counts the step in which a row begins as a whole one, whenever in it that was."""
    game.begin()
    for k, (name, time_s) in enumerate((("Attack3000", 1.0), ("WalkFrontBattle", 0.03), ("WalkLeftBattle", 0.05))):
        game.look(Moment(boss_animation=name, boss_animation_s=time_s), game_time_s=k * STEP_S)
    assert game.features.observation(game.reader.state, None)[17] == pytest.approx(0.03 + STEP_S)


def test_otherwise_nothing_is_open_in_a_fall(game):
    """SoulsGym has no lock for falls; no key does anything in them."""
    game.begin()
    for animation in (name for name in formulas.LOCKS_S if name.startswith("Fall")):
        game.look(Moment(player_animation=animation, player_animation_s=1.0))
        assert game.mask.tolist() == [False] * 19 + [True]
        assert formulas.mask(animation, 1.0, PLAYER_SP).all()
