"""Names and numbers of actions and boss animations.

Numbers are indices into these tables and follow SoulsGym 1.1.0 (MIT) for Dark Souls III, so that policies, observations
and masks are compatible with it. The names of the player's animations are in ``knight.toml``.
"""

from __future__ import annotations

#: The eight directions, clockwise from straight ahead, relative to the camera.
_WAYS: tuple[tuple[str, ...], ...] = (
    ("forward",),
    ("forward", "right"),
    ("right",),
    ("right", "backward"),
    ("backward",),
    ("backward", "left"),
    ("left",),
    ("left", "forward"),
)
#: The 20 actions, by the keys that they hold: moves, rolls, attacks, parry, nothing.
ACTIONS: tuple[tuple[str, ...], ...] = (
    *_WAYS,
    *((*way, "roll") for way in _WAYS),
    *(("light_attack",), ("heavy_attack",), ("parry",), ()),
)
N_ACTIONS = len(ACTIONS)
N_DIRECTIONS = 8

# The first action of each kind; moves are 0 to 7, rolls 8 to 15.
FIRST_ROLL = 8
LIGHT_ATTACK = 16
HEAVY_ATTACK = 17
PARRY = 18
NOTHING = 19

#: Attack animations that a boss file may use, then the two animations of a riposte.
BOSS_ATTACKS = (*(f"Attack{3000 + i}" for i in range(16)), "Attack3029", "ThrowAtk", "ThrowDef")
BOSS_MOVEMENT = (
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
)
BOSS_MISC = ("SABreak", "DamageParryEnemy1")

#: Boss animations by number. An animation that is not listed (``Attack1500``, the change of phase) is -1.
BOSS_ANIMATIONS = BOSS_ATTACKS + BOSS_MOVEMENT + BOSS_MISC
UNKNOWN_ANIMATION = -1


def action_name(action: int) -> str:
    """Return the keys of an action as one word, such as ``forward+roll``, or ``nothing``."""
    return "+".join(ACTIONS[action]) or "nothing"


#: Name of each action.
ACTION_NAMES = tuple(map(action_name, range(len(ACTIONS))))
