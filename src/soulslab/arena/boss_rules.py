"""Rules of the boss: roaming, choosing a move, attacking, and its projectiles."""

from __future__ import annotations

from typing import cast

import numpy as np

from soulslab.arena.geometry import direction, turn_towards, uniform
from soulslab.arena.held_out_rules import advance_factor, blade_hits, cancels, hit_damage, ignite, is_enraged
from soulslab.arena.kernel import kernel, rule
from soulslab.arena.player_rules import hurt_player, is_invulnerable
from soulslab.arena.records import (
    ATTACKING,
    MAX_PROJECTILES,
    PARRIED,
    PHASE_1,
    PHASE_FULL,
    ROAMING,
    STAGGERED,
    TICKS_PER_DECISION,
    Record,
)
from soulslab.arena.vocabulary import BOSS_ANIMATIONS


def _number(name: str) -> int:
    """Return the number of an animation.

    The result is a numpy integer, because numba compiles a function again for each Python integer constant.
    """
    return cast(int, np.int64(BOSS_ANIMATIONS.index(name)))


WALK_FRONT, WALK_LEFT, WALK_RIGHT = (_number(f"Walk{way}Battle") for way in ("Front", "Left", "Right"))
WALK_BACK, IDLE = _number("WalkBackBattle"), _number("IdleBattle")
TURN_RIGHT_90, TURN_RIGHT_180 = _number("TurnBattle_Right90"), _number("TurnBattle_Right180")
TURN_LEFT_90, TURN_LEFT_180 = _number("TurnBattle_Left90"), _number("TurnBattle_Left180")
STAGGER, PARRY_STUN, THROW_DEF = _number("SABreak"), _number("DamageParryEnemy1"), _number("ThrowDef")

#: The boss turns on the spot if the player is farther off its facing than this (0.9 and 2.2 rad).
TURN_COS, TURN_180_COS = 0.6216, -0.5885
#: A parry succeeds only if the player faces the boss within 60 degrees.
PARRY_COS = 0.5
#: Upper bound of the hit count of the reward term ``hit_streak``.
MAX_STREAK = 5


@rule
def set_boss_animation(d: Record, number: int) -> None:
    """Set the boss's animation; its time restarts when it changes, except between walks and turns."""
    if d.b_anim != number:
        if not (_is_walk_or_turn(d.b_anim) and _is_walk_or_turn(number)):
            d.b_bin_ticks = 0
        d.b_anim = number
        d.b_anim_ticks = 0


@rule
def _is_walk_or_turn(number: int) -> bool:
    return WALK_FRONT <= number <= TURN_LEFT_180 and number != IDLE


@kernel
def start_move(d: Record, f: Record, number: int) -> None:
    """Start a move."""
    m = f.moves[number]
    d.b_mode = ATTACKING
    d.b_move = number
    d.b_ticks = 0
    d.b_window = 0
    d.b_hits = 0
    d.s_uses_by_move[number] += 1
    d.s_unhit |= 1 << number
    d.b_ready[number] = d.tick + m.cooldown
    d.b_anim = m.animation
    d.b_anim_ticks = 0
    d.b_bin_ticks = 0


@rule
def _roam_for(d: Record, ticks: int) -> None:
    """Stop the present action and roam for some ticks, to a random side or on the spot."""
    d.b_mode = ROAMING
    d.b_move = -1
    d.b_wait = ticks
    d.b_strafe = int(uniform(d) * 3.0) - 1


@rule
def _stun(d: Record, mode: int, animation: int) -> None:
    d.b_mode = mode
    d.b_move = -1
    d.b_ticks = 0
    set_boss_animation(d, animation)


@kernel
def boss_tick(d: Record, f: Record, ux: float, uy: float, distance: float) -> None:
    """Advance the boss by one tick; ``(ux, uy)`` is the unit vector from the player to the boss, distances are in m."""
    d.b_ticks += 1
    d.b_anim_ticks += 1
    d.b_bin_ticks += 1
    d.b_poise = min(d.b_poise + f.poise_regen, f.b_max_poise)
    if d.b_mode == ATTACKING:
        _attack_tick(d, f, ux, uy, distance)
    elif d.b_mode == ROAMING:
        if d.phase == 1 and f.mode == PHASE_FULL and d.b_hp <= f.phase_two_hp:
            start_move(d, f, f.phase_two_move)
        elif d.b_wait > 0:
            d.b_wait -= 1
            _roam(d, f, -ux, -uy, distance)
        else:
            number = _choose(d, f, -ux, -uy, distance)
            if number >= 0:
                start_move(d, f, number)
            else:
                d.b_wait = TICKS_PER_DECISION
    elif d.b_mode == STAGGERED:
        if d.b_ticks >= f.stagger:
            _roam_for(d, 0)
    elif d.b_mode == PARRIED:
        if d.b_ticks >= f.parried:
            _roam_for(d, 0)
    else:  # THROWN
        set_boss_animation(d, THROW_DEF)
        if d.b_ticks == f.riposte_hit:
            hurt_boss(d, f, f.riposte_damage, 0.0)
        if d.b_ticks >= f.animations[f.riposte].duration:
            _roam_for(d, 2 * TICKS_PER_DECISION)


@rule
def _choose(d: Record, f: Record, ux: float, uy: float, distance: float) -> int:
    """Draw a move that fits distance, bearing, phase and cooldown, by weight; return -1 if no move fits."""
    bearing_cos = d.b_fx * ux + d.b_fy * uy
    phase_bit = 1 << d.phase
    total = 0.0
    for i in range(f.n_moves):
        total += _fitting_weight(d, f.moves[i], i, phase_bit, bearing_cos, distance)
    if total <= 0.0:
        return -1
    left = uniform(d) * total
    chosen = -1
    for i in range(f.n_moves):
        weight = _fitting_weight(d, f.moves[i], i, phase_bit, bearing_cos, distance)
        if weight > 0.0:
            chosen = i
            left -= weight
            if left < 0.0:
                break
    return chosen


@rule
def _fitting_weight(
    d: Record,
    m: Record,
    number: int,
    phase_bit: int,
    bearing_cos: float,
    distance: float,
) -> float:
    fits = (
        m.phases & phase_bit != 0
        and m.range_low <= distance <= m.range_high
        and m.cos_low <= bearing_cos <= m.cos_high
        and d.tick >= d.b_ready[number]
    )
    return m.weight if fits else 0.0


@rule
def _roam(d: Record, f: Record, ux: float, uy: float, distance: float) -> None:
    """Turn to the player and keep the distance; ``(ux, uy)`` is the unit vector from the boss to the player."""
    ahead = d.b_fx * ux + d.b_fy * uy
    aside = d.b_fx * uy - d.b_fy * ux
    d.b_fx, d.b_fy = turn_towards(d.b_fx, d.b_fy, ux, uy, f.b_turn_cos, f.b_turn_sin)
    if ahead < TURN_COS:
        # Clockwise is to the right, so a player with a negative cross product is on the right.
        if ahead < TURN_180_COS:
            set_boss_animation(d, TURN_RIGHT_180 if aside < 0.0 else TURN_LEFT_180)
        else:
            set_boss_animation(d, TURN_RIGHT_90 if aside < 0.0 else TURN_LEFT_90)
    elif distance > f.keep_far:
        set_boss_animation(d, WALK_FRONT)
        speed = f.b_run if distance > f.run_beyond else f.b_walk
        d.b_x += d.b_fx * speed
        d.b_y += d.b_fy * speed
    elif distance < f.keep_near:
        set_boss_animation(d, WALK_BACK)
        d.b_x -= d.b_fx * f.b_walk
        d.b_y -= d.b_fy * f.b_walk
    elif d.b_strafe == 0:
        set_boss_animation(d, IDLE)
    else:
        set_boss_animation(d, WALK_RIGHT if d.b_strafe > 0 else WALK_LEFT)
        d.b_x += d.b_fy * (d.b_strafe * f.b_walk)
        d.b_y -= d.b_fx * (d.b_strafe * f.b_walk)


@rule
def _attack_tick(d: Record, f: Record, ux: float, uy: float, distance: float) -> None:
    m = f.moves[d.b_move]
    if d.b_ticks >= m.duration:
        _finish_move(d, f, distance)
        return
    while d.b_window < m.n_windows and d.b_ticks >= f.windows[m.first_window + d.b_window].end:
        d.b_window += 1
        d.b_hits = 0
    if d.b_window == m.n_windows:
        return
    w = f.windows[m.first_window + d.b_window]
    if d.b_ticks < w.aim_to:
        d.b_fx, d.b_fy = turn_towards(d.b_fx, d.b_fy, -ux, -uy, w.turn_cos, w.turn_sin)
    gap = distance - f.p_radius - f.b_radius
    if f.held_out and d.b_move != f.phase_two_move:
        is_attacking = f.animations[d.p_anim].active_to > 0
        if cancels(f.held_out, d, w, gap, d.p_anim == f.rolling, is_attacking):
            _roam_for(d, 2 * TICKS_PER_DECISION)
            return
    if w.advance_from <= d.b_ticks < w.start:
        step = w.advance
        if f.held_out:
            step *= advance_factor(f.held_out, d.b_ticks - w.advance_from, w.start - w.advance_from)
        if gap > step:
            d.b_x += d.b_fx * step
            d.b_y += d.b_fy * step
    if d.b_ticks == w.start and w.n_projectiles > 0:
        _throw(d, w)


@rule
def _finish_move(d: Record, f: Record, distance: float) -> None:
    m = f.moves[d.b_move]
    if d.phase == 1 and f.mode == PHASE_FULL:
        if d.b_move == f.phase_two_move:
            d.phase = 2
        elif d.b_hp <= f.phase_two_hp:
            start_move(d, f, f.phase_two_move)
            return
    for i in range(m.first_follow_up, m.first_follow_up + m.n_follow_ups):
        follow = f.follow_ups[i]
        fits = follow.phases & (1 << d.phase) != 0 and distance <= follow.within
        if fits and uniform(d) < follow.probability:
            start_move(d, f, follow.move)
            return
    low, high = f.pause_low[d.phase - 1], f.pause_high[d.phase - 1]
    pause = low + int(uniform(d) * (high - low + 1))
    _roam_for(d, pause // 2 if is_enraged(f.held_out, d, f) else pause)


@rule
def boss_strike(d: Record, f: Record, ux: float, uy: float, distance: float) -> None:
    """Hit the player if a window is active; ``(ux, uy)`` is the unit vector from the player to the boss."""
    m = f.moves[d.b_move]
    if d.b_window >= m.n_windows:
        return
    w = f.windows[m.first_window + d.b_window]
    if d.b_ticks < w.start or d.b_hits or w.n_projectiles > 0:
        return
    gap = distance - f.p_radius - f.b_radius
    if gap > w.reach:
        return
    if f.held_out:
        if not blade_hits(f.held_out, d, w, -ux, -uy, gap):
            return
    else:
        facing_x = d.b_fx * w.face_cos - d.b_fy * w.face_sin
        facing_y = d.b_fx * w.face_sin + d.b_fy * w.face_cos
        if -(facing_x * ux + facing_y * uy) < w.cos_half:
            return
    a = f.animations[d.p_anim]
    if w.parry and a.parry_from <= d.p_ticks < a.parry_to and d.p_fx * ux + d.p_fy * uy >= PARRY_COS:
        _stun(d, PARRIED, PARRY_STUN)
        return
    if not is_invulnerable(d, f):
        d.b_hits = 1
        damage = hit_damage(f.held_out, d, w, gap, a.active_to > 0) if f.held_out else w.damage
        hurt_player(d, f, w.knock_back, damage, d.b_move, -ux, -uy)
        if f.held_out:
            ignite(f.held_out, d, f, d.b_move, w.damage)


@kernel
def hurt_boss(d: Record, f: Record, damage: float, poise_damage: float) -> None:
    """Hit the boss; enough poise damage staggers it, unless it is changing its phase or is already stunned.

    If a second phase follows, a single hit takes at most the remaining health of the first phase.
    """
    least = f.phase_two_hp if d.phase == 1 and f.mode == PHASE_FULL else 0.0
    before = d.b_hp
    d.b_hp = max(before - damage, least)
    d.s_dealt_by_phase[d.phase - 1] += before - d.b_hp
    d.s_hits_dealt += 1
    d.streak += 1
    d.streak_gain += min(d.streak, MAX_STREAK)
    d.b_poise -= poise_damage
    if d.b_poise <= 0.0:
        d.b_poise = f.b_max_poise
        changing = d.b_mode == ATTACKING and d.b_move == f.phase_two_move and d.phase == 1
        if d.b_mode <= ATTACKING and not changing:
            _stun(d, STAGGERED, STAGGER)


@rule
def boss_is_beaten(d: Record, f: Record) -> bool:
    """Return whether the boss has lost: its health is 0, or that of phase 1 if only phase 1 is fought."""
    return d.b_hp <= (f.phase_two_hp if f.mode == PHASE_1 else 0.0)


@rule
def _throw(d: Record, w: Record) -> None:
    """Throw a window's projectiles as a fan straight ahead; projectiles that exceed the table are dropped."""
    fx = d.b_fx * w.first_cos - d.b_fy * w.first_sin
    fy = d.b_fx * w.first_sin + d.b_fy * w.first_cos
    left = w.n_projectiles
    for i in range(MAX_PROJECTILES):
        if left == 0:
            break
        if d.q_ticks[i] == 0:
            d.q_ticks[i] = w.life
            d.q_move[i] = d.b_move
            d.q_knock[i] = w.knock_back
            d.q_pose[i, 0], d.q_pose[i, 1] = d.b_x, d.b_y
            d.q_pose[i, 2], d.q_pose[i, 3] = fx * w.speed, fy * w.speed
            d.q_radius[i] = w.radius
            d.q_damage[i] = w.damage
            d.n_projectiles += 1
            left -= 1
            fx, fy = fx * w.spread_cos - fy * w.spread_sin, fx * w.spread_sin + fy * w.spread_cos


@rule
def projectiles_tick(d: Record, f: Record) -> None:
    """Move the projectiles; one that hits is removed, and one passes through a rolling player."""
    for i in range(MAX_PROJECTILES):
        if d.q_ticks[i] > 0:
            d.q_ticks[i] -= 1
            d.q_pose[i, 0] += d.q_pose[i, 2]
            d.q_pose[i, 1] += d.q_pose[i, 3]
            dx, dy = d.p_x - d.q_pose[i, 0], d.p_y - d.q_pose[i, 1]
            reach = d.q_radius[i] + f.p_radius
            if dx * dx + dy * dy <= reach * reach and not is_invulnerable(d, f):
                vx, vy = d.q_pose[i, 2], d.q_pose[i, 3]
                ux, uy, _ = direction(vx, vy, 1.0, 0.0)
                hurt_player(d, f, d.q_knock[i], d.q_damage[i], d.q_move[i], ux, uy)
                d.q_ticks[i] = 0
            if d.q_ticks[i] == 0:
                d.n_projectiles -= 1
