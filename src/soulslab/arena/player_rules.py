"""Rules of the player: key presses, and one tick of walking, rolling, attacking and falling."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from soulslab.arena.geometry import turn_towards
from soulslab.arena.kernel import kernel, rule
from soulslab.arena.records import PARRIED, THROWN, Record
from soulslab.arena.vocabulary import FIRST_ROLL, HEAVY_ATTACK, LIGHT_ATTACK, N_DIRECTIONS, NOTHING, PARRY

#: Components of the directions 0 to 7, clockwise from straight ahead, along the camera's forward and right axes.
_H = math.sqrt(0.5)
AHEAD = (1.0, _H, 0.0, -_H, -1.0, -_H, 0.0, _H)
ASIDE = (0.0, _H, 1.0, _H, 0.0, -_H, -1.0, -_H)

#: Gravity in m per tick squared (9.81 m/s^2 at 60 ticks a second).
FALL_STEP = 9.81 / 3600.0
#: Outward drift per tick of a fall (2 m/s), small enough that the camera stays within 6 m of the floor.
FALL_DRIFT = 2.0 / 60.0
#: A riposte requires that the player faces the boss within 60 degrees.
RIPOSTE_COS = 0.5


@kernel
def start_animation(d: Record, f: Record, number: int) -> None:
    """Start a player animation and subtract its stamina."""
    d.p_anim = number
    d.p_ticks = 0
    d.p_has_hit = 0
    a = f.animations[number]
    d.p_sp = max(d.p_sp - a.stamina, 0.0)
    # The hit of a charged attack costs no further stamina, but stamina regenerates only after it.
    if a.stamina > 0.0 or a.active_from >= 0:
        d.p_sp_pause = a.move_lock + f.sp_pause


@kernel
def write_mask(d: Record, f: Record, mask: NDArray[np.bool_]) -> int:
    """Write which of the 20 actions are open, given the lock times and the stamina; return their number."""
    a = f.animations[d.p_anim]
    free = d.p_falling == 0
    can_move = free and d.p_ticks >= a.move_lock
    can_roll = free and d.p_ticks >= a.roll_lock and d.p_sp > 0.0
    can_attack = free and d.p_ticks >= a.attack_lock and d.p_sp > 0.0
    for i in range(N_DIRECTIONS):
        mask[i] = can_move
        mask[FIRST_ROLL + i] = can_roll
    mask[LIGHT_ATTACK] = can_attack
    mask[HEAVY_ATTACK] = can_attack
    mask[PARRY] = can_attack
    mask[NOTHING] = True
    return 1 + N_DIRECTIONS * (can_move + can_roll) + 3 * can_attack


@kernel
def is_open(d: Record, f: Record, action: int) -> bool:
    """Return whether one action is open (the same rules as `write_mask`)."""
    if action == NOTHING:
        return True
    a = f.animations[d.p_anim]
    if action < FIRST_ROLL:
        lock = a.move_lock
    elif action < LIGHT_ATTACK:
        lock = a.roll_lock
    else:
        lock = a.attack_lock
    return d.p_falling == 0 and d.p_ticks >= lock and (action < FIRST_ROLL or d.p_sp > 0.0)


@rule
def press(d: Record, f: Record, action: int) -> None:
    """Apply a key press: start a roll, an attack, a riposte or a parry. The action has to be open."""
    if FIRST_ROLL <= action < LIGHT_ATTACK:
        _aim_by_camera(d, action - FIRST_ROLL)
        start_animation(d, f, f.rolling)
        d.n_rolls += 1
    elif action == LIGHT_ATTACK:
        d.n_attacks += 1
        if _can_riposte(d, f):
            start_animation(d, f, f.riposte)
            d.b_mode = THROWN
            d.b_ticks = 0
        else:
            start_animation(d, f, f.animations[d.p_anim].light)
    elif action == HEAVY_ATTACK:
        d.n_attacks += 1
        start_animation(d, f, f.animations[d.p_anim].heavy)
    elif action == PARRY:
        start_animation(d, f, f.parrying)


@rule
def _can_riposte(d: Record, f: Record) -> bool:
    if d.b_mode != PARRIED:
        return False
    dx, dy = d.b_x - d.p_x, d.b_y - d.p_y
    distance = math.sqrt(dx * dx + dy * dy)
    near = distance - f.b_radius - f.p_radius <= f.riposte_reach
    return near and dx * d.p_fx + dy * d.p_fy >= RIPOSTE_COS * distance


@rule
def _aim_by_camera(d: Record, way: int) -> None:
    """Set the player's direction of movement to one of the eight directions, relative to the camera."""
    ahead, aside = AHEAD[way], ASIDE[way]
    d.p_dx = d.c_fx * ahead + d.c_fy * aside
    d.p_dy = d.c_fy * ahead - d.c_fx * aside


@rule
def player_tick(d: Record, f: Record, action: int, ux: float, uy: float) -> None:
    """Advance the player by one tick; ``(ux, uy)`` is the unit vector from the player to the boss."""
    d.p_ticks += 1
    if d.p_invulnerable > 0:
        d.p_invulnerable -= 1
    if d.p_falling:
        _fall(d, f)
        return
    a = f.animations[d.p_anim]
    if a.duration > 0 and d.p_ticks >= a.duration:
        start_animation(d, f, a.next if a.next >= 0 else f.idle)
        a = f.animations[d.p_anim]
    if action < N_DIRECTIONS and d.p_ticks >= a.move_lock:
        _aim_by_camera(d, action)
        if d.p_anim != f.moving:
            start_animation(d, f, f.moving)
        # Without lock-on the player faces the direction of its walk, so each direction is forward.
        speed = f.walk[action] if d.lock_on else f.walk[0]
        d.p_x += d.p_dx * speed
        d.p_y += d.p_dy * speed
        if not d.lock_on:
            d.p_fx, d.p_fy = turn_towards(d.p_fx, d.p_fy, d.p_dx, d.p_dy, f.p_turn_cos, f.p_turn_sin)
    elif d.p_anim == f.moving:
        start_animation(d, f, f.idle)
    elif a.advance_from <= d.p_ticks < a.advance_to:
        if d.p_anim == f.rolling:
            d.p_x += d.p_dx * a.advance
            d.p_y += d.p_dy * a.advance
        else:
            d.p_x += d.p_fx * a.advance
            d.p_y += d.p_fy * a.advance
    if d.lock_on and (d.p_anim == f.idle or d.p_anim == f.moving or d.p_ticks < a.aim_to):
        d.p_fx, d.p_fy = turn_towards(d.p_fx, d.p_fy, ux, uy, f.p_turn_cos, f.p_turn_sin)
    if d.p_push_ticks > 0:
        d.p_push_ticks -= 1
        d.p_x += d.p_push_x
        d.p_y += d.p_push_y
    _regenerate(d, f)


@rule
def _regenerate(d: Record, f: Record) -> None:
    if d.p_sp_pause > 0:
        d.p_sp_pause -= 1
    elif d.p_sp < f.p_max_sp:
        d.p_sp = min(d.p_sp + f.sp_regen, f.p_max_sp)


@rule
def _fall(d: Record, f: Record) -> None:
    if d.p_anim == f.fall_start and d.p_ticks >= 20:
        start_animation(d, f, f.fall_loop)
    d.p_fall_speed += FALL_STEP
    d.p_z -= d.p_fall_speed
    d.p_x += d.p_dx * FALL_DRIFT
    d.p_y += d.p_dy * FALL_DRIFT
    if d.p_z <= f.death_z:
        d.p_z = f.death_z
        d.p_hp = 0.0


@rule
def keep_on_floor(d: Record, f: Record) -> None:
    """Stop the player at the walls; beyond the edge of the cliff it starts to fall."""
    rx, ry = d.p_x - f.centre_x, d.p_y - f.centre_y
    r2 = rx * rx + ry * ry
    if r2 <= f.radius * f.radius or d.p_falling:
        return
    r = math.sqrt(r2)
    d.p_x = f.centre_x + rx * (f.radius / r)
    d.p_y = f.centre_y + ry * (f.radius / r)
    if rx * f.cliff_x + ry * f.cliff_y >= r * f.cliff_cos:
        d.p_falling = 1
        d.p_dx, d.p_dy = rx / r, ry / r
        start_animation(d, f, f.fall_start)


@kernel
def hurt_player(d: Record, f: Record, knock: int, damage: float, move: int, ux: float, uy: float) -> None:
    """Hit the player and push it along (ux, uy); ``move`` is the boss's move that hit."""
    damage = min(math.floor(damage * f.damage_scale[d.phase - 1]), d.p_hp)
    d.p_hp -= damage
    d.s_damage_taken += damage
    d.s_damage_by_move[move] += damage
    d.s_taken_by_phase[d.phase - 1] += damage
    d.s_hits_taken += 1
    if d.s_unhit & (1 << move):
        d.s_unhit -= 1 << move
        d.s_hits_by_move[move] += 1
    d.streak = 0
    if d.p_hp <= 0.0:
        d.s_killed_by = move
    k = f.knock_backs[knock]
    start_animation(d, f, k.animation)
    d.p_push_x, d.p_push_y = ux * k.push, uy * k.push
    d.p_push_ticks = k.push_ticks
    d.p_invulnerable = k.invulnerable


@kernel
def is_invulnerable(d: Record, f: Record) -> bool:
    """Return whether hits miss the player now: it rolls, ripostes, lies on the ground, or falls."""
    a = f.animations[d.p_anim]
    return d.p_invulnerable > 0 or d.p_falling == 1 or a.invulnerable_from <= d.p_ticks < a.invulnerable_to
