"""Random states of a fight with Iudex: the memory of the game, and SoulsGym's observation of it."""

import struct

import msgspec

from soulslab.envs.game.session_holder import SessionHolder
from soulslab.envs.tasks.duel.duel_env import DuelEnv, DuelSetup
from soulslab.envs.tasks.duel.duel_options import DuelOptions
from soulslab.envs.tasks.duel.duel_scenario import scenario_of_facts
from soulslab.games.boss_facts import load_boss_facts
from support import soulsgym_formulas as formulas

PLAYER_HP, PLAYER_SP = 454, 95
#: Difference between the ends of locks and those of SoulsGym (docs/live.md).
ROUNDING_S = 1e-4
IUDEX = scenario_of_facts(load_boss_facts("dark_souls_3", "iudex"))


def iudex_env(session, **options):
    """Return an environment of Iudex for a session whose game is in the fight."""
    setup = DuelSetup(profile=session.profile, source="", scenario=IUDEX, holder=SessionHolder(None, session))
    return DuelEnv(setup, DuelOptions(**options))


class Moment(msgspec.Struct):
    """State of the game at one read."""

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
        """The animation of the boss."""
        return formulas.boss_animation(
            self.boss_animation, self.boss_animation_s, self.boss_length_s, self.attack_id, self.next_attack_id
        )

    def memory(self):
        """Return the bytes of attributes of the profile."""
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
        """Return SoulsGym's observation of the state."""
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


def is_at_a_lock(moment):
    """Return whether a lock of the player's animation ends just after this time, within the rounding of 32 bits."""
    locks_s = formulas.LOCKS_S.get(moment.player_animation, ())
    return any(0.0 < lock_s - moment.player_animation_s <= ROUNDING_S for lock_s in locks_s)


def stored_pose(pose):
    """Return the 24 bytes of a pose of x, y, height and angle."""
    x, y, height, angle = pose
    return struct.pack("<f8xfff", angle, x, height, y)


def stored_camera(camera):
    """Return the 28 bytes of a camera of x, y, height, nx, ny and nz."""
    x, y, height, nx, ny, nz = camera
    return struct.pack("<fff4xfff", nx, nz, ny, x, height, y)
