"""The memory of a duel: one record per duel, and the tables that its rules read.

All of it is numpy structured arrays, which numba reads as records: a duel is one contiguous piece of memory, copying
it copies the fight, and the same code runs with the JIT off. Floats are float64 and integers int64 throughout, so
that numpy's scalars and numba's agree to the last bit.

Directions are unit vectors, never angles: turning costs a rotation by a constant instead of a call to atan2, and the
rules need no trigonometry at all. The angle ``a`` of a pose belongs to the direction (-sin a, -cos a), as in the game
(derived from the start poses in the facts, where player and boss face each other).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from soulslab.arena.boss_file import MAX_FOLLOW_UPS_OF_ALL, MAX_MOVES, MAX_START_POSES, MAX_WINDOWS_OF_ALL
from soulslab.arena.vocabulary import N_DIRECTIONS

#: One record and an array of them. Only the dtypes below know their fields, so a record is Any to a type checker.
Record: TypeAlias = Any
Table = NDArray[np.record]

TICKS_PER_S = 60
TICKS_PER_DECISION = 6
DECISION_S = TICKS_PER_DECISION / TICKS_PER_S
#: 300 s of game time, as in SoulsGym 1.1.0.
MAX_DECISIONS = 3000
MAX_PROJECTILES = 8
MAX_ANIMATIONS = 64
MAX_KNOCK_BACKS = 16

#: How the phase option is told to the rules.
PHASE_1, PHASE_2, PHASE_FULL = 1, 2, 3
PHASES = {"1": PHASE_1, "2": PHASE_2, "full": PHASE_FULL}

# What the boss is doing (Duel.b_mode).
ROAMING, ATTACKING, STAGGERED, PARRIED, THROWN = 0, 1, 2, 3, 4

#: Quantities that rewards are made of, in the order of `Result.terms`.
REWARD_TERMS = (
    "boss_damage",
    "player_damage",
    "win",
    "death",
    "time",
    "centre",
    "roll",
    "attack",
    "hit_streak",
)
N_TERMS = len(REWARD_TERMS)
BOSS_DAMAGE, PLAYER_DAMAGE, WIN, DEATH, TIME, CENTRE, ROLL, ATTACK, HIT_STREAK = range(N_TERMS)


def _record(fields: list[tuple[Any, ...]]) -> np.dtype[Any]:
    """Return a record dtype: attribute access works on its scalars with the JIT on and off."""
    return np.dtype((np.record, fields))


def _all(kind: str, names: str) -> list[tuple[Any, ...]]:
    return [(name, kind) for name in names.split()]


#: One duel. Prefixes: p_ the player, b_ the boss, c_ the camera, s_ statistics of this fight.
DUEL = _record(
    [
        ("rng", "u8"),
        *_all("i8", "tick decision phase over won truncated start_pose lock_on lock_off_ticks n_projectiles"),
        # Player: position, facing, direction of the roll or walk, push from a hit.
        *_all("f8", "p_x p_y p_z p_fx p_fy p_dx p_dy p_fall_speed p_push_x p_push_y p_hp p_sp"),
        *_all("i8", "p_anim p_ticks p_push_ticks p_sp_pause p_invulnerable p_has_hit p_falling"),
        # Boss.
        *_all("f8", "b_x b_y b_fx b_fy b_hp b_poise"),
        *_all("i8", "b_mode b_move b_ticks b_window b_hits b_wait b_strafe b_anim b_anim_ticks b_bin_ticks"),
        ("b_ready", "i8", (MAX_MOVES,)),
        *_all("f8", "c_fx c_fy"),
        # Projectiles: ticks left (0: free), move that threw it, position, way per tick, radius, damage, knock-back.
        ("q_ticks", "i8", (MAX_PROJECTILES,)),
        ("q_move", "i8", (MAX_PROJECTILES,)),
        ("q_knock", "i8", (MAX_PROJECTILES,)),
        ("q_pose", "f8", (MAX_PROJECTILES, 4)),
        ("q_radius", "f8", (MAX_PROJECTILES,)),
        ("q_damage", "f8", (MAX_PROJECTILES,)),
        # What happened in this decision, then in this fight.
        *_all("i8", "n_rolls n_attacks streak streak_gain"),
        *_all("i8", "s_masked s_killed_by s_hits_dealt s_hits_taken s_rolls s_attacks"),
        *_all("f8", "s_return s_damage_taken"),
        ("s_damage_by_move", "f8", (MAX_MOVES,)),
    ]
)

#: One player animation. Times in ticks from its start; -1 where there is none.
ANIMATION = _record(
    [
        *_all("i8", "attack_lock roll_lock move_lock duration next light heavy"),
        *_all("i8", "active_from active_to advance_from advance_to invulnerable_from invulnerable_to"),
        *_all("i8", "parry_from parry_to aim_to"),
        *_all("f8", "stamina damage poise_damage reach cos_half advance"),
    ]
)

#: One knock-back: animation, ticks and speed of the push (m per tick), ticks without further hits.
KNOCK_BACK = _record([*_all("i8", "animation push_ticks invulnerable"), ("push", "f8")])

#: One move of the boss.
MOVE = _record(
    [
        *_all("i8", "animation duration first_window n_windows first_follow_up n_follow_ups cooldown phases"),
        *_all("f8", "weight range_low range_high cos_low cos_high"),
    ]
)

#: One window of a move. ``turn_cos`` and ``turn_sin`` are the rotation of one tick of tracking.
WINDOW = _record(
    [
        *_all("i8", "start end knock_back parry aim_to advance_from"),
        *_all("f8", "damage reach cos_half face_cos face_sin turn_cos turn_sin advance"),
        # Projectiles: count, ticks of life, way per tick, rotation between two, radius.
        *_all("i8", "n_projectiles life"),
        *_all("f8", "speed first_cos first_sin spread_cos spread_sin radius"),
    ]
)

FOLLOW_UP = _record([*_all("i8", "move phases"), *_all("f8", "probability within")])

#: All that the rules know of one kind of fight: options, place, vitals, and the tables above. One record, so that a
#: kernel needs no other argument; arrays passed from kernel to kernel would cost four times the whole rest of a tick
#: in reference counts.
FIGHT = _record(
    [
        *_all("i8", "mode random_pose skip_locked autoreset write_features write_states n_moves"),
        # Place.
        *_all("f8", "centre_x centre_y radius floor death_z cliff_x cliff_y cliff_cos reward_x reward_y"),
        ("low", "f8", (3,)),
        ("extent", "f8", (3,)),
        ("player_pose", "f8", (4,)),
        ("boss_pose", "f8", (4,)),
        ("n_poses", "i8"),
        ("poses", "f8", (MAX_START_POSES, 4)),
        # Player.
        *_all("f8", "p_max_hp p_max_sp p_radius sp_regen p_turn_cos p_turn_sin riposte_reach riposte_damage"),
        ("walk", "f8", (N_DIRECTIONS,)),
        *_all("i8", "sp_pause idle moving rolling parrying riposte riposte_hit fall_start fall_loop light heavy"),
        # Boss.
        *_all("f8", "b_max_hp b_max_poise b_radius poise_regen b_walk b_run run_beyond keep_near keep_far"),
        *_all("f8", "b_turn_cos b_turn_sin phase_two_hp"),
        *_all("i8", "stagger parried phase_two_move"),
        ("pause_low", "i8", (2,)),
        ("pause_high", "i8", (2,)),
        ("damage_scale", "f8", (2,)),
        ("weights", "f8", (N_TERMS,)),
        # Tables.
        ("animations", ANIMATION, (MAX_ANIMATIONS,)),
        ("knock_backs", KNOCK_BACK, (MAX_KNOCK_BACKS,)),
        ("moves", MOVE, (MAX_MOVES,)),
        ("windows", WINDOW, (MAX_WINDOWS_OF_ALL,)),
        ("follow_ups", FOLLOW_UP, (MAX_FOLLOW_UPS_OF_ALL,)),
    ]
)

#: What one step of a duel gave.
RESULT = _record(
    [
        ("reward", "f8"),
        *_all("i8", "terminated truncated n_decisions n_masked"),
        # The quantities of the reward terms, and what each adds to the reward.
        ("terms", "f8", (N_TERMS,)),
        ("shares", "f8", (N_TERMS,)),
    ]
)

#: What a finished fight leaves behind (the fields of ``info["fight"]``).
FIGHT_REPORT = _record(
    [
        *_all("i8", "won n_decisions start_pose killed_by hits_dealt hits_taken rolls attacks"),
        *_all("f8", "damage_taken return_"),
        ("damage_by_attack", "f8", (MAX_MOVES,)),
    ]
)
