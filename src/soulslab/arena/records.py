"""Record dtypes of a duel, and of the tables that its rules read.

They are numpy structured dtypes, which numba accesses as records: a duel is one contiguous block of memory, copying the
block copies the fight, and the same code runs with the JIT off. All floats are float64 and all integers int64, so that
numpy's scalars and numba compute exactly the same values.

Directions are unit vectors, never angles: a turn is a rotation by a constant instead of a call of atan2, and the rules
need no trigonometric functions. The direction of a pose with the angle ``a`` is (-sin a, -cos a), as in the game
(derived from the start poses in the facts, where player and boss face each other).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from soulslab.arena.boss_file import MAX_FOLLOW_UPS_OF_ALL, MAX_MOVES, MAX_START_POSES, MAX_WINDOWS_OF_ALL
from soulslab.arena.vocabulary import N_ACTIONS, N_DIRECTIONS

#: One record, and an array of records. Only the dtypes below define their fields, so a record is Any to a type checker.
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

#: Values of the option ``phase`` in the rules.
PHASE_1, PHASE_2, PHASE_FULL = 1, 2, 3
PHASES = {"1": PHASE_1, "2": PHASE_2, "full": PHASE_FULL}
N_PHASES = 2

#: Situations in which actions are counted: whether the boss attacks, and whether the player is nearer than `NEAR_M`.
SITUATIONS = ("far", "near", "far, boss attacks", "near, boss attacks")
NEAR_M = 4.0

# Modes of the boss (field ``b_mode`` of a duel).
ROAMING, ATTACKING, STAGGERED, PARRIED, THROWN = 0, 1, 2, 3, 4

#: Quantities of the reward terms, in the order of the field ``terms`` of a result.
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
    """Return a record dtype whose scalars have attribute access with the JIT on and off."""
    return np.dtype((np.record, fields))


def _all(kind: str, names: str) -> list[tuple[Any, ...]]:
    return [(name, kind) for name in names.split()]


#: One duel. Prefixes: p_ player, b_ boss, c_ camera, q_ projectiles, s_ statistics of this fight.
DUEL = _record(
    [
        ("rng", "u8"),
        *_all("i8", "tick decision phase over won truncated start_pose lock_on lock_off_ticks n_projectiles"),
        # The row of the fight's rules; the latency of the keys (ticks), and the actions of the last two decisions.
        *_all("i8", "fight latency last_action second_last_action"),
        # Player: position, facing, direction of the roll or walk, push from a hit.
        *_all("f8", "p_x p_y p_z p_fx p_fy p_dx p_dy p_fall_speed p_push_x p_push_y p_hp p_sp"),
        *_all("i8", "p_anim p_ticks p_push_ticks p_sp_pause p_invulnerable p_has_hit p_falling"),
        # Fire of the held-out rules: ticks left, the move that lit it, damage per tick.
        *_all("i8", "p_fire_ticks p_fire_move"),
        ("p_fire", "f8"),
        # Boss.
        *_all("f8", "b_x b_y b_fx b_fy b_hp b_poise"),
        *_all("i8", "b_mode b_move b_ticks b_window b_hits b_wait b_strafe b_anim b_anim_ticks b_bin_ticks"),
        ("b_ready", "i8", (MAX_MOVES,)),
        *_all("f8", "c_fx c_fy"),
        # Projectiles: ticks left (0: free), the move that threw it, position and movement per tick, radius, damage,
        # knock-back.
        ("q_ticks", "i8", (MAX_PROJECTILES,)),
        ("q_move", "i8", (MAX_PROJECTILES,)),
        ("q_knock", "i8", (MAX_PROJECTILES,)),
        ("q_pose", "f8", (MAX_PROJECTILES, 4)),
        ("q_radius", "f8", (MAX_PROJECTILES,)),
        ("q_damage", "f8", (MAX_PROJECTILES,)),
        # Counts of this decision, then of this fight.
        *_all("i8", "n_rolls n_attacks streak streak_gain"),
        *_all("i8", "s_masked s_killed_by s_hits_dealt s_hits_taken s_rolls s_attacks"),
        *_all("f8", "s_return s_damage_taken"),
        ("s_damage_by_move", "f8", (MAX_MOVES,)),
        ("s_decisions_by_phase", "i8", (N_PHASES,)),
        ("s_taken_by_phase", "f8", (N_PHASES,)),
        ("s_dealt_by_phase", "f8", (N_PHASES,)),
        # Bit i is set while the last use of move i has not hit the player.
        ("s_unhit", "i8"),
        # These counts are small, and a copy of the report takes time: each use of a move, and each use that hit.
        ("s_uses_by_move", "u2", (MAX_MOVES,)),
        ("s_hits_by_move", "u2", (MAX_MOVES,)),
        ("s_actions_by_situation", "u2", (len(SITUATIONS), N_ACTIONS)),
    ]
)

#: One player animation. Times are in ticks from its start; -1 for none.
ANIMATION = _record(
    [
        *_all("i8", "attack_lock roll_lock move_lock duration next light heavy"),
        *_all("i8", "active_from active_to advance_from advance_to invulnerable_from invulnerable_to"),
        *_all("i8", "parry_from parry_to aim_to"),
        *_all("f8", "stamina damage poise_damage reach cos_half advance"),
    ]
)

#: One knock-back: animation, duration (ticks) and speed (m per tick) of the push, ticks without further hits.
KNOCK_BACK = _record([*_all("i8", "animation push_ticks invulnerable"), ("push", "f8")])

#: One move of the boss.
MOVE = _record(
    [
        *_all("i8", "animation duration first_window n_windows first_follow_up n_follow_ups cooldown phases"),
        *_all("f8", "weight range_low range_high cos_low cos_high"),
    ]
)

#: One window of a move. ``turn_cos`` and ``turn_sin`` are the rotation in one tick of tracking.
WINDOW = _record(
    [
        *_all("i8", "start end knock_back parry aim_to advance_from"),
        *_all("f8", "damage reach cos_half face_cos face_sin turn_cos turn_sin advance"),
        # Projectiles: count, lifetime in ticks, movement per tick, rotation between two of them, radius.
        *_all("i8", "n_projectiles life"),
        *_all("f8", "speed first_cos first_sin spread_cos spread_sin radius"),
    ]
)

FOLLOW_UP = _record([*_all("i8", "move phases"), *_all("f8", "probability within")])

#: Rules of one kind of fight: options, ground, vitals, and the tables above. It is one record so that a kernel needs no
#: other argument; passing arrays between kernels would cost four times as much as the rest of a tick, in reference
#: counts.
FIGHT = _record(
    [
        *_all("i8", "mode random_pose skip_locked autoreset write_features write_states n_moves"),
        # Number of rows of the table, rules that no boss file describes, and errors of keys and observations.
        *_all("i8", "n_fights held_out latency_low latency_high has_errors"),
        *_all("f8", "late_share noise"),
        # Ground.
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

#: Result of one step of a duel.
RESULT = _record(
    [
        ("reward", "f8"),
        *_all("i8", "terminated truncated n_decisions n_masked"),
        # Quantities of the reward terms, and the contribution of each to the reward.
        ("terms", "f8", (N_TERMS,)),
        ("shares", "f8", (N_TERMS,)),
    ]
)

#: Report of a finished fight (the fields of ``info["fight"]``).
FIGHT_REPORT = _record(
    [
        # The row of the fight's rules, as in a duel.
        *_all("i8", "fight won n_decisions start_pose killed_by hits_dealt hits_taken rolls attacks"),
        *_all("f8", "damage_taken return_"),
        ("damage_by_attack", "f8", (MAX_MOVES,)),
        ("decisions_by_phase", "i8", (N_PHASES,)),
        ("damage_taken_by_phase", "f8", (N_PHASES,)),
        ("damage_dealt_by_phase", "f8", (N_PHASES,)),
        ("uses_by_attack", "u2", (MAX_MOVES,)),
        ("hits_by_attack", "u2", (MAX_MOVES,)),
        ("actions_by_situation", "u2", (len(SITUATIONS), N_ACTIONS)),
    ]
)
