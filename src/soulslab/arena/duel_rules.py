"""Rules of a duel: its start, one tick in the order of the rules, and the replay of a step tick by tick.

The simulator plays the six ticks of a decision in one call. For smooth pictures, the ticks are replayed on a copy of
the duel from before the step. The generator is part of the record, so the copy draws the same numbers.
"""

from __future__ import annotations

import math

import numpy as np

from soulslab.arena.boss_rules import boss_strike, boss_tick, hurt_boss, projectiles_tick
from soulslab.arena.geometry import direction, turn_towards, uniform
from soulslab.arena.held_out_rules import burn
from soulslab.arena.kernel import kernel, rule
from soulslab.arena.player_rules import is_open, keep_on_floor, player_tick, press
from soulslab.arena.records import ATTACKING, PHASE_2, ROAMING, TICKS_PER_DECISION, TICKS_PER_S, Record, Table
from soulslab.arena.vocabulary import BOSS_ANIMATIONS, NOTHING

_IDLE = BOSS_ANIMATIONS.index("IdleBattle")

# Lock-on: its range, how fast the camera follows the boss, and when the lock is restored.
LOCK_RANGE_M = 28.0
RELOCK_RANGE_M = 24.0
RELOCK_TICKS = TICKS_PER_S // 2
LOST_COS = math.cos(1.2)
RELOCK_COS = math.cos(0.35)
FOLLOW_COS, FOLLOW_SIN = math.cos(4.5 / TICKS_PER_S), math.sin(4.5 / TICKS_PER_S)
SEARCH_COS, SEARCH_SIN = math.cos(2.5 / TICKS_PER_S), math.sin(2.5 / TICKS_PER_S)

#: Largest offset of a random start from the drawn pose, along x and along y.
START_JITTER_M = 0.5
#: The boss's first pause, in ticks.
FIRST_PAUSE = TICKS_PER_S


@kernel
def duel_tick(d: Record, f: Record, action: int, is_first: bool) -> None:
    """Advance a duel by 1/60 s; ``action`` is held, and ``is_first`` marks the tick of the key press.

    Moves act on each tick, other actions on the key press.
    """
    d.tick += 1
    if is_first:
        press(d, f, action)
    ux, uy, distance = direction(d.b_x - d.p_x, d.b_y - d.p_y, d.p_fx, d.p_fy)
    player_tick(d, f, action, ux, uy)
    boss_tick(d, f, ux, uy, distance)
    ux, uy, distance = _keep_apart(d, f)
    player_strike(d, f, ux, uy, distance)
    if d.b_mode == ATTACKING:
        boss_strike(d, f, ux, uy, distance)
    if d.n_projectiles > 0:
        projectiles_tick(d, f)
    if f.held_out:
        burn(d)
    _camera_tick(d, ux, uy, distance)


@rule
def _keep_apart(d: Record, f: Record) -> tuple[float, float, float]:
    """Separate player and boss, keep both on the floor; return the direction and the distance to the boss."""
    contact = f.p_radius + f.b_radius
    ux, uy, distance = direction(d.b_x - d.p_x, d.b_y - d.p_y, d.p_fx, d.p_fy)
    if distance < contact and not d.p_falling:
        d.p_x -= ux * (contact - distance)
        d.p_y -= uy * (contact - distance)
    keep_on_floor(d, f)
    bx, by = d.b_x - f.centre_x, d.b_y - f.centre_y
    b2 = bx * bx + by * by
    if b2 > f.radius * f.radius:
        scale = f.radius / math.sqrt(b2)
        d.b_x, d.b_y = f.centre_x + bx * scale, f.centre_y + by * scale
    return direction(d.b_x - d.p_x, d.b_y - d.p_y, d.p_fx, d.p_fy)


@rule
def player_strike(d: Record, f: Record, ux: float, uy: float, distance: float) -> None:
    """Hit the boss with the player's attack, once per attack."""
    a = f.animations[d.p_anim]
    if (
        a.active_from <= d.p_ticks < a.active_to
        and d.p_has_hit == 0
        and distance - f.p_radius - f.b_radius <= a.reach
        and d.p_fx * ux + d.p_fy * uy >= a.cos_half
    ):
        d.p_has_hit = 1
        hurt_boss(d, f, a.damage, a.poise_damage)


@rule
def _camera_tick(d: Record, ux: float, uy: float, distance: float) -> None:
    """Turn the camera to the boss; release the lock if it cannot follow, and restore it when it can."""
    ahead = d.c_fx * ux + d.c_fy * uy
    if d.lock_on:
        if distance > LOCK_RANGE_M or ahead < LOST_COS:
            d.lock_on = 0
            d.lock_off_ticks = 0
        d.c_fx, d.c_fy = turn_towards(d.c_fx, d.c_fy, ux, uy, FOLLOW_COS, FOLLOW_SIN)
    else:
        d.lock_off_ticks += 1
        d.c_fx, d.c_fy = turn_towards(d.c_fx, d.c_fy, ux, uy, SEARCH_COS, SEARCH_SIN)
        if d.lock_off_ticks >= RELOCK_TICKS and distance < RELOCK_RANGE_M and ahead > RELOCK_COS:
            d.lock_on = 1


@rule
def begin(d: Record, f: Record) -> None:
    """Initialise a fight in a record that is blank except for its generator."""
    d.phase = 2 if f.mode == PHASE_2 else 1
    if f.random_pose:
        d.start_pose = int(uniform(d) * f.n_poses)
        pose = f.poses[d.start_pose]
        d.p_x = pose[0] + (2.0 * uniform(d) - 1.0) * START_JITTER_M
        d.p_y = pose[1] + (2.0 * uniform(d) - 1.0) * START_JITTER_M
    else:
        d.start_pose = -1
        d.p_x, d.p_y = f.player_pose[0], f.player_pose[1]
    d.p_z = f.floor
    d.b_x, d.b_y = f.boss_pose[0], f.boss_pose[1]
    # Lock-on turns player and boss to each other before the fight begins, so the angles of the poses are not used.
    ux, uy, _ = direction(d.b_x - d.p_x, d.b_y - d.p_y, 1.0, 0.0)
    d.p_fx, d.p_fy, d.c_fx, d.c_fy, d.p_dx, d.p_dy = ux, uy, ux, uy, ux, uy
    d.b_fx, d.b_fy = -ux, -uy
    d.lock_on = 1
    d.p_hp, d.p_sp, d.p_anim = f.p_max_hp, f.p_max_sp, f.idle
    d.b_hp = f.phase_two_hp if f.mode == PHASE_2 else f.b_max_hp
    d.b_poise = f.b_max_poise
    d.b_mode, d.b_move, d.b_anim = ROAMING, -1, _IDLE
    d.b_wait = FIRST_PAUSE + int(uniform(d) * FIRST_PAUSE)
    d.s_killed_by = -1
    d.last_action = d.second_last_action = NOTHING
    if f.latency_high > 0:
        d.latency = f.latency_low + int(uniform(d) * (f.latency_high - f.latency_low + 1))


@rule
def late_keys(d: Record, f: Record, action: int, k: int) -> tuple[int, bool]:
    """Return the action in tick ``k`` (0 to 5) of a decision whose keys take effect late, and whether it is a press.

    Until ``d.latency`` ticks after the decision the keys of the previous one are held, or of the one before it. A press
    that is not open when it arrives has no effect.
    """
    since = k - d.latency
    if since < 0:
        since += TICKS_PER_DECISION
        action = d.last_action
    if since < 0:
        since += TICKS_PER_DECISION
        action = d.second_last_action
    is_press = since == 0
    if is_press and not is_open(d, f, action):
        action = NOTHING
    return action, is_press


def replay_ticks(before: Table, fight: Record, action: int, n_ticks: int) -> Table:
    """Replay the first ``n_ticks`` of a step on ``before`` (1,), a copy of the duel from before the step.

    Returns the `DUEL` record after each tick (n_ticks,). Fields that change once per step or decision (``over``,
    ``won``, ``decision``, the statistics of the fight) stay unchanged. In a step of several decisions, the later ones
    do nothing.
    """
    ticks = np.zeros(n_ticks, before.dtype)
    _replay(before, fight, action, ticks)
    return ticks


@kernel
def _replay(duels: Table, f: Record, action: int, ticks: Table) -> None:
    """Replay a step on ``duels`` (1,), and copy the duel after each tick to ``ticks``."""
    d = duels[0]
    if not is_open(d, f, action):
        action = NOTHING
    for n in range(len(ticks)):
        held = action if n < TICKS_PER_DECISION else NOTHING
        k = n % TICKS_PER_DECISION
        keys, is_press = held, k == 0
        if d.latency > 0:
            keys, is_press = late_keys(d, f, held, k)
        duel_tick(d, f, keys, is_press)
        if d.latency > 0 and k == TICKS_PER_DECISION - 1:
            d.second_last_action, d.last_action = d.last_action, held
        ticks[n] = d
