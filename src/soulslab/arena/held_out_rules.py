"""Rules that no boss file describes, for tests of fitted bosses (`FightOptions.held_out_rules`).

A real game differs from the rules of the simulator. These rules stand for such differences, and nothing else may use
them. There are four sets. Results with the sets ``development``, ``development_2`` and ``development_3`` led to changes
of the fit. The set ``report`` is for results only: a fit or a policy that is adjusted to it proves nothing; after such
a change the set becomes one for development, and a new one is written. Projectiles keep the simulator's rules.

``development``

- Root motion: the speed forward rises and falls again.
- Hit shapes: a blade passes through its arc from one side to the other, a narrow blow hits a lane, a blow all around is
  a ring that expands.
- Hidden timer: pauses are half as long for 8 of every 25 s.
- Damage types: half of the damage of every third move acts in the following 2 s, without a further hit.
- Cancels: the boss breaks off a blow that would not reach the player, and some others.

``development_2``

- Root motion: a step forward begins fast and slows down.
- Hit shapes: the area is longer on one side, the tip of a narrow blow moves outwards, a blow all around hits the front
  first, then the back.
- Hidden timer: damage is 1.3 times as high for 10 of every 40 s.
- Damage types: damage is 1.25 times as high during an attack of the player, and lower with the tip of the weapon.
- Cancels: the boss breaks off some blows if the player rolls early.

``development_3``

- Root motion: a step forward stops in its middle third, and a short one has another length.
- Hit shapes: a blow misses a player who touches the boss at its side, a narrow blow hits a lane to the right of its
  middle, a blow all around is a ring that contracts.
- Hidden timer: pauses are half as long while the boss has less than a quarter of its health.
- Damage types: damage is 1.35 times as high if the player has less than 30 stamina, and 0.9 times otherwise.
- Cancels: the boss breaks off some blows if the player attacks at the moment at which it stops turning.

``report``

- Root motion: a step forward consists of two jerks.
- Hit shapes: the reach becomes shorter towards the edges of the arc, a narrow blow hits only in the first half of its
  window, a blow all around hits its outer half only in the second one.
- Hidden timer: pauses are half as long while the player has less than half of its health.
- Damage types: the damage of each hit is drawn from 0.8 to 1.2 times its usual one.
- Cancels: the boss breaks off some blows if the player is behind it at the moment at which it stops turning.
"""

from __future__ import annotations

import math
from typing import Final, Literal, TypeAlias, get_args

from soulslab.arena.geometry import uniform
from soulslab.arena.kernel import kernel, rule
from soulslab.arena.records import TICKS_PER_S, Record

#: Name of a set of rules; ``none`` for those of the simulator. A kernel gets its place in `RULES`.
HeldOutRules: TypeAlias = Literal["none", "development", "development_2", "development_3", "report"]
RULES: Final[tuple[HeldOutRules, ...]] = get_args(HeldOutRules)
DEVELOPMENT, DEVELOPMENT_2, DEVELOPMENT_3, REPORT = range(1, len(RULES))

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

#: Share of the reach that is left on the shorter side.
SHORT_SIDE = 0.7
FURY_PERIOD = 40 * TICKS_PER_S
FURY_TICKS = 10 * TICKS_PER_S
FURY_FACTOR = 1.3
#: Damage during an attack of the player, and with the part of the weapon beyond a share of the reach.
COUNTER_FACTOR = 1.25
TIP_FROM, TIP_FACTOR = 0.7, 0.75
#: Probability that a blow is broken off if the player rolls when it stops turning.
FEINT_SHARE = 0.3

#: A player nearer than this is missed beyond half of the arc.
TOUCH_M = 0.4
#: Middle and half the width of the lane to the right.
RIGHT_LANE_M, RIGHT_HALF_M = 0.3, 0.7
#: Share of the health below which pauses are short.
LOW_HEALTH_SHARE = 0.25
#: Stamina below which the damage has the first factor; otherwise it has the second one.
LOW_SP = 30.0
LOW_SP_FACTOR, ENOUGH_SP_FACTOR = 1.35, 0.9
#: Probability that a blow is broken off if the player attacks when it stops turning.
COUNTER_SHARE = 0.35

#: Share of the reach that is lost at the edges of an arc.
EDGE_LOSS = 0.5
#: Share of the player's health below which pauses are short.
WOUNDED_SHARE = 0.5
#: Least and greatest damage of a hit, relative to its usual one.
LEAST_FACTOR, MOST_FACTOR = 0.8, 1.2
#: Probability that a blow is broken off if the player is behind the boss when it stops turning.
BEHIND_SHARE = 0.5


@rule
def advance_factor(rules: int, passed: int, n_ticks: int) -> float:
    """Return the speed of an advance relative to the simulator's, after some of its ticks."""
    share = (passed + 0.5) / n_ticks
    if rules == DEVELOPMENT:
        return 6.0 * share * (1.0 - share)
    if rules == DEVELOPMENT_2:
        return 2.0 * (1.0 - share)
    if rules == DEVELOPMENT_3:
        return 0.0 if 1.0 / 3.0 < share < 2.0 / 3.0 else 1.5
    return 2.0 if share % 0.5 < 0.25 else 0.0


@rule
def blade_hits(rules: int, d: Record, w: Record, ux: float, uy: float, gap: float) -> bool:
    """Return whether a blow hits in this tick; ``(ux, uy)`` is the unit vector from the boss to the player."""
    share = (d.b_ticks - w.start + 1.0) / (w.end - w.start)
    facing_x = d.b_fx * w.face_cos - d.b_fy * w.face_sin
    facing_y = d.b_fx * w.face_sin + d.b_fy * w.face_cos
    ahead = facing_x * ux + facing_y * uy
    aside = facing_x * uy - facing_y * ux
    if rules == DEVELOPMENT:
        return _sweep_hits(d, w, share, ahead, aside, gap)
    if rules == DEVELOPMENT_2:
        return _lopsided_hits(w, share, ahead, aside, gap)
    if rules == REPORT:
        return _rounded_hits(w, share, ahead, gap)
    return _aside_hits(d, w, share, ahead, aside, gap)


@rule
def _aside_hits(d: Record, w: Record, share: float, ahead: float, aside: float, gap: float) -> bool:
    """Return whether a blow hits after a share of its window, at a direction relative to the middle of its arc."""
    if w.cos_half < -1.0:
        return (1.0 - share) * w.reach <= gap <= w.reach
    if gap > w.reach or ahead < w.cos_half:
        return False
    if w.cos_half >= NARROW_COS:
        dx, dy = d.p_x - d.b_x, d.p_y - d.b_y
        return abs(aside * math.sqrt(dx * dx + dy * dy) + RIGHT_LANE_M) <= RIGHT_HALF_M
    return gap >= TOUCH_M or math.acos(min(ahead, 1.0)) <= 0.5 * math.acos(w.cos_half)


@rule
def _rounded_hits(w: Record, share: float, ahead: float, gap: float) -> bool:
    """Return whether a blow hits after a share of its window, at a direction relative to the middle of its arc."""
    if w.cos_half < -1.0:
        return gap <= (w.reach if share > 0.5 else 0.5 * w.reach)
    if ahead < w.cos_half:
        return False
    if w.cos_half >= NARROW_COS:
        return gap <= w.reach and share <= 0.5
    edge = math.acos(min(ahead, 1.0)) / math.acos(w.cos_half)
    return gap <= w.reach * (1.0 - EDGE_LOSS * edge * edge)


@rule
def _lopsided_hits(w: Record, share: float, ahead: float, aside: float, gap: float) -> bool:
    """Return whether a blow hits after a share of its window, at a direction relative to the middle of its arc."""
    if w.cos_half < -1.0:
        return gap <= w.reach and (ahead >= 0.0) == (share <= 0.5)
    if ahead < w.cos_half:
        return False
    if w.cos_half >= NARROW_COS:
        return gap <= w.reach * min(2.0 * share, 1.0)
    return gap <= (w.reach * SHORT_SIDE if aside < 0.0 else w.reach)


@rule
def _sweep_hits(d: Record, w: Record, share: float, ahead: float, aside: float, gap: float) -> bool:
    """Return whether a blade hits after a share of its window, at a direction relative to the middle of its arc."""
    if w.cos_half < -1.0:
        ring = share * w.reach
        return ring - RING_M <= gap <= ring
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
def is_enraged(rules: int, d: Record, f: Record) -> bool:
    """Return whether pauses are short now."""
    if rules == DEVELOPMENT:
        return d.tick % RAGE_PERIOD >= RAGE_PERIOD - RAGE_TICKS
    if rules == DEVELOPMENT_3:
        return d.b_hp < LOW_HEALTH_SHARE * f.b_max_hp
    return rules == REPORT and d.p_hp < WOUNDED_SHARE * f.p_max_hp


@rule
def hit_damage(rules: int, d: Record, w: Record, gap: float, is_attacking: bool) -> float:
    """Return the damage of a hit that acts at once; ``is_attacking`` is whether the player attacks."""
    if rules == DEVELOPMENT:
        return w.damage * (1.0 - FIRE_SHARE) if d.b_move % FIRE_EVERY == 0 else w.damage
    if rules == DEVELOPMENT_3:
        return w.damage * (LOW_SP_FACTOR if d.p_sp < LOW_SP else ENOUGH_SP_FACTOR)
    if rules == REPORT:
        return w.damage * (LEAST_FACTOR + (MOST_FACTOR - LEAST_FACTOR) * uniform(d))
    damage = w.damage * FURY_FACTOR if d.tick % FURY_PERIOD >= FURY_PERIOD - FURY_TICKS else w.damage
    damage *= COUNTER_FACTOR if is_attacking else 1.0
    return damage * TIP_FACTOR if gap > TIP_FROM * w.reach else damage


@rule
def ignite(rules: int, d: Record, f: Record, move: int, damage: float) -> None:
    """Light the player's fire after a hit of a move that burns; ``damage`` is that of the whole hit."""
    if rules == DEVELOPMENT and move % FIRE_EVERY == 0:
        d.p_fire_ticks, d.p_fire_move = FIRE_TICKS, move
        d.p_fire = damage * FIRE_SHARE * f.damage_scale[d.phase - 1] / FIRE_TICKS


@kernel
def burn(d: Record) -> None:
    """Apply the damage of the fire for one tick."""
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
def cancels(rules: int, d: Record, w: Record, gap: float, is_rolling: bool, is_attacking: bool) -> bool:
    """Return whether the boss breaks off a blow, at the moment at which it stops turning."""
    if d.b_ticks != w.aim_to or w.n_projectiles > 0:
        return False
    if rules == DEVELOPMENT_2:
        return is_rolling and uniform(d) < FEINT_SHARE
    if rules == DEVELOPMENT_3:
        return is_attacking and uniform(d) < COUNTER_SHARE
    if rules == REPORT:
        is_behind = d.b_fx * (d.p_x - d.b_x) + d.b_fy * (d.p_y - d.b_y) < 0.0
        return is_behind and uniform(d) < BEHIND_SHARE
    still_to_go = w.advance * (w.start - max(w.advance_from, d.b_ticks))
    return gap > w.reach + still_to_go + CANCEL_BEYOND_M or uniform(d) < CANCEL_SHARE
