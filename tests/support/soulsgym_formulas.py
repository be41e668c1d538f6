"""Reference implementation of the observations, masks and rewards of SoulsGym and SoulsAI for Dark Souls III.

It uses numpy and no part of soulslab; the tests compare the environments with it. Sources: SoulsGym 1.1.0 (MIT) for
actions, lock times, observations, masks and rewards, SoulsAI (MIT) for the 74 numbers. The tests name intended
differences, and docs/live.md lists them.
"""

from __future__ import annotations

import struct

import numpy as np

LIMITS_M = np.array([[110.0, 190.0], [540.0, 640.0], [-73.0, -55.0]])
CENTRE_M = np.array([139.0, 596.0])
BOSS_MAX_HP = 1037
UNKNOWN = -1

ACTIONS = (
    ("forward",),
    ("forward", "right"),
    ("right",),
    ("right", "backward"),
    ("backward",),
    ("backward", "left"),
    ("left",),
    ("left", "forward"),
    ("forward", "roll"),
    ("forward", "right", "roll"),
    ("right", "roll"),
    ("right", "backward", "roll"),
    ("backward", "roll"),
    ("backward", "left", "roll"),
    ("left", "roll"),
    ("left", "forward", "roll"),
    ("lightattack",),
    ("heavyattack",),
    ("parry",),
    (),
)
KEYS = {
    "forward": "w",
    "backward": "s",
    "left": "a",
    "right": "d",
    "lightattack": "l",
    "roll": " ",
    "heavyattack": "h",
    "parry": "m",
    "lock_on": "q",
    "interact": "e",
    "useitem": "r",
    "cameraup": "j",
    "cameradown": "k",
    "cameraleft": "o",
    "cameraright": "p",
}

#: Lock times of attack, roll and move in seconds, in the order of the animation numbers.
LOCKS_S = {
    "AddDamageDefault": (0.5, 0.5, 0.5),
    "AddDamageStartLeft": (0.5, 0.5, 0.5),
    "AddDamageStartRight": (0.5, 0.5, 0.5),
    "AddDamageStartFront": (0.5, 0.5, 0.5),
    "AddDamageStartBack": (0.5, 0.5, 0.5),
    "GuardBreakWall": (0.54, 0.54, 0.57),
    "DamageSmall": (0.35, 0.35, 0.52),
    "DamageMiddle": (0.85, 0.85, 0.97),
    "DamageUpper": (2.85, 2.19, 2.92),
    "DamageLarge": (1.02, 1.18, 1.25),
    "DamageExLarge": (3.6, 1.92, 3.72),
    "DamageFling": (1.01, 1.01, 1.01),
    "DamagePush": (1.02, 1.02, 1.27),
    "DamageSmallBlow": (3.1, 1.67, 3.19),
    "ThrowAtk": (4.34, 4.25, 4.37),
    "ThrowDef": (8.22, 6.91, 8.3),
    "EStepDown": (0.69, 0.59, 0.87),
    "Idle": (0.0, 0.0, 0.0),
    "Move": (0.0, 0.0, 0.0),
    "None": (0.0, 0.0, 0.0),
    "BackStepNomal": (0.41, 0.63, 0.67),
    "RollingMedium": (0.69, 0.73, 0.75),
    "RollingMediumSelftra": (0.7, 0.73, 0.75),
    "RunStopFront": (0.0, 0.0, 0.0),
    "RunStopBack": (0.0, 0.0, 0.0),
    "RunStopLeft": (0.0, 0.0, 0.0),
    "RunStopRight": (0.0, 0.0, 0.0),
    "QuickTurnLeft180": (0.1, 0.2, 0.2),
    "QuickTurnRight180": (0.1, 0.2, 0.2),
    "AttackRightLight1": (0.63, 0.8, 1.03),
    "AttackRightLight2": (0.63, 0.77, 1.03),
    "AttackRightLight3": (0.53, 0.8, 1.13),
    "AttackRightLightStep": (0.73, 0.8, 0.9),
    "AttackRightHeavy1Sta": (1.0, 1.0, 1.0),
    "AttackRightHeavy1Sub": (0.1, 0.1, 0.1),
    "AttackRightHeavy1End": (0.53, 0.7, 0.89),
    "AttackRightHeavy2Sta": (1.0, 1.0, 1.0),
    "AttackRightHeavy2End": (0.75, 0.76, 0.9),
    "ParryLeftStart": (0.8, 0.9, 0.93),
    "LandLow": (0.0, 0.0, 0.0),
    "Land": (0.0, 0.0, 0.0),
    "LandFaceUp": (25.0, 25.0, 25.0),
    "LandFaceDown": (25.0, 25.0, 25.0),
    "FallStart": (0.0, 0.0, 0.0),
    "FallStartFaceUp": (0.0, 0.0, 0.0),
    "FallStartFaceDown": (0.0, 0.0, 0.0),
    "FallLoop": (0.0, 0.0, 0.0),
    "FallLoopFaceUp": (0.0, 0.0, 0.0),
    "FallLoopFaceDown": (0.0, 0.0, 0.0),
    "FallAttackStart": (0.0, 0.0, 0.0),
}
BOSS_ANIMATIONS = (
    "Attack3000",
    "Attack3001",
    "Attack3002",
    "Attack3003",
    "Attack3004",
    "Attack3005",
    "Attack3006",
    "Attack3007",
    "Attack3008",
    "Attack3009",
    "Attack3010",
    "Attack3011",
    "Attack3012",
    "Attack3013",
    "Attack3014",
    "Attack3015",
    "Attack3029",
    "ThrowAtk",
    "ThrowDef",
    "WalkFrontBattle",
    "WalkLeftBattle",
    "WalkRightBattle",
    "WalkBackBattle",
    "IdleBattle",
    "TurnBattle_Right90",
    "TurnBattle_Right180",
    "TurnBattle_Left90",
    "TurnBattle_Left180",
    "FallingDefault",
    "LandDefault",
    "SABreak",
    "DamageParryEnemy1",
)
PLAYER_NUMBERS = {name: number for number, name in enumerate(LOCKS_S)}
BOSS_NUMBERS = {name: number for number, name in enumerate(BOSS_ANIMATIONS)}

#: Animations of the player that share one of the 74 numbers. A comment of SoulsAI counts 32 numbers, but its bins leave
#: 31; so do 74 numbers of which 18 are scalars and 25 are animations of the boss.
PLAYER_BINS = (
    range(0, 5),  # AddDamage*
    (17, 18, 19, 23, 24, 25, 26),  # Idle, Move, None, RunStop*
    (27, 28),  # QuickTurn*
    (39, 40),  # LandLow, Land
    (41, 42),  # LandFace*
    range(43, 50),  # Fall*
)
#: The four walks and the four turns of the boss.
STROLLS = (19, 20, 21, 22, 24, 25, 26, 27)


def pose(stored: bytes) -> np.ndarray:
    """Return x, y, height and angle of 24 bytes: the angle, 8 unused bytes, x, height, y."""
    angle, x, height, y = struct.unpack("<f8xfff", stored)
    return np.array([x, y, height, angle])


def camera_pose(stored: bytes) -> np.ndarray:
    """Return x, y, height and nx, ny, nz of 28 bytes: nx, nz, ny, 4 unused bytes, x, height, y."""
    nx, nz, ny, x, height, y = struct.unpack("<fff4xfff", stored)
    return np.array([x, y, height, nx, ny, nz])


def boss_animation(name: str, time_s: float, length_s: float, attack_id: int, next_attack_id: int) -> str:
    """Return the animation of the boss; names of overlays and finished attacks remain in memory."""
    if not (name.startswith(("SABlend", "Part")) or (name.startswith("Attack") and time_s >= length_s)):
        return name
    for number in (attack_id, next_attack_id):
        if number != -1:
            return f"Attack{number}"
    return "IdleBattle"


def mask(animation: str, time_s: float, stamina: float) -> np.ndarray:
    """Return which of the 20 actions are valid, (20,) bool."""
    attack_s, roll_s, move_s = LOCKS_S.get(animation, (0.0, 0.0, 0.0))
    valid = np.zeros(20, bool)
    valid[0:8] = time_s >= move_s
    valid[8:16] = time_s >= roll_s and stamina > 0
    valid[16:19] = time_s >= attack_s and stamina > 0
    valid[19] = True
    return valid


def features(observation: dict, stroll_s: float) -> np.ndarray:
    """Return the 74 numbers of an observation (15 fields), (74,) float32.

    Args:
        observation: Values by field name.
        stroll_s: Time of the binned animation of the boss (`StrollTime`).
    """
    player, boss, camera = observation["player_pose"], observation["boss_pose"], observation["camera_pose"]
    camera_angle = np.arctan2(camera[3], camera[4])
    low, extent = LIMITS_M[:, 0], LIMITS_M[:, 1] - LIMITS_M[:, 0]
    numbers = [
        observation["player_hp"] / observation["player_max_hp"],
        observation["player_sp"] / observation["player_max_sp"],
        observation["boss_hp"] / observation["boss_max_hp"],
        np.linalg.norm(boss[:2] - player[:2]) / 50,
        *((player[:3] - low) / extent),
        np.sin(player[3]),
        np.cos(player[3]),
        *((boss[:3] - low) / extent),
        np.sin(boss[3]),
        np.cos(boss[3]),
        np.sin(camera_angle),
        np.cos(camera_angle),
        observation["player_animation_duration"],
        stroll_s,
        *_one_hot(observation["player_animation"], len(LOCKS_S), PLAYER_BINS),
        *_one_hot(observation["boss_animation"], len(BOSS_ANIMATIONS), (STROLLS,)),
    ]
    return np.array(numbers, np.float32)


class StrollTime:
    """Sums the times of consecutive walks and turns of the boss, which share one of the 74 numbers.

    Args:
        step_s: Time between two reads.
    """

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s
        self._last = UNKNOWN
        self._last_s = self._total_s = 0.0

    def look(self, animation: int, time_s: float) -> float:
        """Return the time of the bin for the next read, with the animation and its time."""
        if animation not in STROLLS or self._last not in STROLLS:
            self._total_s = time_s
        elif animation != self._last or time_s < self._last_s:
            # A new animation: the rest of the old one and the time of the new one are together a step.
            self._total_s += self._step_s
        else:
            self._total_s += time_s - self._last_s
        self._last, self._last_s = animation, time_s
        return self._total_s


def reward(before: dict, after: dict) -> float:
    """Return the reward of a step between two observations."""
    boss = (before["boss_hp"] - after["boss_hp"]) / after["boss_max_hp"]
    player = (after["player_hp"] - before["player_hp"]) / after["player_max_hp"]
    if after["boss_hp"] == 0:
        return boss + player + 0.1
    if after["player_hp"] == 0:
        return boss + player - 0.1
    far_before, far_after = (np.linalg.norm(one["player_pose"][:2] - CENTRE_M) for one in (before, after))
    return boss + player + (0.01 * (far_before - far_after) if far_after > 4 else 0.0)


def _one_hot(number: int, n: int, bins: tuple) -> np.ndarray:
    """Return a one-hot vector, in which the numbers of a bin share the position of the first one; all 0 for -1."""
    first = {other: one[0] for one in bins for other in one}
    places = list(dict.fromkeys(first.get(other, other) for other in range(n)))
    lit = np.zeros(len(places))
    if number != UNKNOWN:
        lit[places.index(first.get(number, number))] = 1.0
    return lit
