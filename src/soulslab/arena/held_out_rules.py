"""Rules that no boss file describes, for tests of fitted bosses (`FightOptions.held_out_rules`).

A real game differs from the rules of the simulator. These rules stand for such differences, and nothing else may use
them: a fit or a policy that is adjusted to them proves nothing.

- Root motion: a boss moves forward with a speed that rises and falls again, not with a constant one.
- Hit shapes: the blade passes through its arc from one side to the other, a narrow blow hits a lane of constant width,
  and a blow all around is a ring that expands.
- A hidden timer: the boss is enraged for 8 of every 25 s, and its pauses are then half as long.
- Damage types: every third move burns. Half of its damage acts in the following 2 s, without a further hit.
- Cancels: the boss breaks off a blow that would not reach the player, and sometimes one that would.
"""

from __future__ import annotations

import math

from soulslab.arena.geometry import uniform
from soulslab.arena.kernel import kernel, rule
from soulslab.arena.records import TICKS_PER_S, Record

RAGE_PERIOD = 25 * TICKS_PER_S
RAGE_TICKS = 8 * TICKS_PER_S
FIRE_TICKS = 2 * TICKS_PER_S
FIRE_SHARE = 0.5
#: Every move whose number is a multiple of this one burns.
FIRE_EVERY = 3
#: Share of the arc that the blade covers at a time.
BLADE_SHARE = 0.4
#: Cosine of half an arc above which a blow is narrow (0.6 rad), and half the width of its lane.
NARROW_COS = math.cos(0.6)
LANE_M = 0.8
RING_M = 1.2
#: A blow is broken off if the player is this much farther away than it reaches, and with this probability otherwise.
CANCEL_BEYOND_M = 1.0
CANCEL_SHARE = 0.1


@rule
def advance_factor(passed: int, n_ticks: int) -> float:
    """Return the speed of an advance relative to its mean, after some of its ticks."""
    share = (passed + 0.5) / n_ticks
    return 6.0 * share * (1.0 - share)


@rule
def blade_hits(d: Record, w: Record, ux: float, uy: float, gap: float) -> bool:
    """Return whether a blow hits in this tick; ``(ux, uy)`` is the unit vector from the boss to the player."""
    share = (d.b_ticks - w.start + 1.0) / (w.end - w.start)
    if w.cos_half < -1.0:
        ring = share * w.reach
        return ring - RING_M <= gap <= ring
    facing_x = d.b_fx * w.face_cos - d.b_fy * w.face_sin
    facing_y = d.b_fx * w.face_sin + d.b_fy * w.face_cos
    ahead = facing_x * ux + facing_y * uy
    aside = facing_x * uy - facing_y * ux
    if gap > w.reach or ahead <= 0.0:
        return False
    if w.cos_half >= NARROW_COS:
        dx, dy = d.p_x - d.b_x, d.p_y - d.b_y
        return abs(aside) * math.sqrt(dx * dx + dy * dy) <= LANE_M
    half = math.acos(w.cos_half)
    side = 1.0 if d.b_move % 2 == 0 else -1.0
    middle = side * half * (1.0 - BLADE_SHARE) * (1.0 - 2.0 * share)
    return abs(math.atan2(aside, ahead) - middle) <= half * BLADE_SHARE


@rule
def is_enraged(d: Record) -> bool:
    """Return whether the hidden timer is in its second part."""
    return d.tick % RAGE_PERIOD >= RAGE_PERIOD - RAGE_TICKS


@rule
def hit_damage(move: int, damage: float) -> float:
    """Return the part of a move's damage that acts at once."""
    return damage * (1.0 - FIRE_SHARE) if move % FIRE_EVERY == 0 else damage


@rule
def ignite(d: Record, f: Record, move: int, damage: float) -> None:
    """Light the player's fire after a hit of a move that burns; ``damage`` is that of the whole hit."""
    if move % FIRE_EVERY == 0:
        d.p_fire_ticks, d.p_fire_move = FIRE_TICKS, move
        d.p_fire = damage * FIRE_SHARE * f.damage_scale[d.phase - 1] / FIRE_TICKS


@kernel
def burn(d: Record) -> None:
    """Let the fire act for one tick."""
    if d.p_fire_ticks > 0:
        d.p_fire_ticks -= 1
        damage = min(d.p_fire, d.p_hp)
        d.p_hp -= damage
        d.s_damage_taken += damage
        d.s_damage_by_move[d.p_fire_move] += damage
        d.s_taken_by_phase[d.phase - 1] += damage
        if d.p_hp <= 0.0:
            d.s_killed_by = d.p_fire_move


@rule
def cancels(d: Record, w: Record, gap: float) -> bool:
    """Return whether the boss breaks off a blow, at the moment at which it stops turning."""
    if d.b_ticks != w.aim_to or w.n_projectiles > 0:
        return False
    still_to_go = w.advance * (w.start - max(w.advance_from, d.b_ticks))
    return gap > w.reach + still_to_go + CANCEL_BEYOND_M or uniform(d) < CANCEL_SHARE
