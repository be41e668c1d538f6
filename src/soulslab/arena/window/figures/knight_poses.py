"""Poses of the knight, as a pure function of the records."""

from __future__ import annotations

import math
from collections.abc import Callable

from soulslab.arena.blow import ease, half_arc, sway
from soulslab.arena.live_fight import Stage
from soulslab.arena.records import Record
from soulslab.arena.window.figures.pose import (
    EXTRA,
    HIPS,
    TUMBLE,
    Pose,
    blend,
    breathe,
    key,
    play,
    shifted,
    walk,
)
from soulslab.arena.window.figures.rig import Build
from soulslab.arena.window.figures.strikes import Strike, Style, active_pose, wind_up_pose

#: A man of 1.85 m with a longsword, held in one hand except for heavy attacks.
KNIGHT = Build(second_grip=0.11)

#: Length of one cycle of two steps, in m.
STRIDE_M = 2.1
#: A knock-back with at least this many ticks without further hits throws the player on the ground.
THROWN_TICKS = 30
#: Duration of the animations at the end of a fight.
DEATH_TICKS = 70
CHEER_TICKS = 60

REST = key(
    hips=(0.0, 0.0, 0.9),
    hips_turn=(-0.25, 0.04, 0.0),
    chest_turn=(-0.15, 0.08, 0.0),
    head_turn=(0.35, -0.04, 0.0),
    right_hand=(0.4, 0.16, 0.98),
    left_hand=(-0.3, 0.36, 1.12),
    right_foot=(0.2, -0.2, 0.0),
    left_foot=(-0.17, 0.2, 0.0),
    weapon=(0.25, 0.75, 0.0),
    offhand=(0.35, 0.05, 0.0),
    tip=(0.0, 1.4, 1.0),
    extra=(0.0, 0.05, 0.0),
)
_TUCK = key(
    REST,
    hips=(0.0, -0.06, 0.42),
    hips_turn=(0.0, 0.5, 0.0),
    chest_turn=(0.0, 1.1, 0.0),
    head_turn=(0.0, 0.7, 0.0),
    right_hand=(0.26, 0.36, 0.55),
    left_hand=(-0.24, 0.38, 0.55),
    right_foot=(0.13, 0.16, 0.2),
    left_foot=(-0.13, 0.12, 0.2),
    weapon=(-1.2, 0.15, 0.0),
    offhand=(0.9, 0.0, 0.0),
    extra=(0.0, 0.15, 0.0),
)
_CROUCH = key(
    REST,
    hips=(0.0, 0.05, 0.62),
    hips_turn=(0.0, 0.35, 0.0),
    chest_turn=(0.0, 0.7, 0.0),
    head_turn=(0.0, -0.3, 0.0),
    right_hand=(0.32, 0.5, 0.6),
    left_hand=(-0.28, 0.55, 0.7),
    weapon=(0.3, 0.3, 0.0),
    extra=(0.0, 0.7, 0.0),
)
_FLINCH = key(
    REST,
    hips=(0.0, -0.18, 0.84),
    hips_turn=(-0.1, -0.2, 0.0),
    chest_turn=(0.3, -0.45, 0.12),
    head_turn=(0.0, -0.3, 0.1),
    right_hand=(0.62, -0.05, 1.15),
    left_hand=(-0.55, 0.2, 1.3),
    left_foot=(-0.18, 0.28, 0.04),
    right_foot=(0.22, -0.42, 0.0),
    weapon=(-0.9, 0.9, 0.0),
    extra=(0.0, 0.3, 0.0),
)
_FLY = key(
    _FLINCH,
    tumble=(-1.25, 0.0, 0.1),
    hips_turn=(0.0, 0.3, 0.0),
    chest_turn=(0.2, 0.2, 0.2),
    right_foot=(0.25, 0.35, 0.2),
    left_foot=(-0.2, 0.5, 0.3),
    right_hand=(0.75, 0.0, 1.3),
    left_hand=(-0.7, 0.1, 1.4),
)
_LIE = key(
    REST,
    tumble=(-math.pi / 2, 0.0, -0.42),
    hips=(0.0, 0.0, 0.9),
    hips_turn=(0.0, 0.0, 0.0),
    chest_turn=(0.1, 0.0, 0.0),
    head_turn=(0.3, 0.05, 0.0),
    right_hand=(0.68, 0.0, 1.0),
    left_hand=(-0.62, 0.06, 1.25),
    right_foot=(0.25, 0.0, 0.0),
    left_foot=(-0.2, 0.3, 0.12),
    weapon=(-0.9, 0.0, 0.0),
    offhand=(0.2, 0.0, 0.0),
    extra=(0.0, -0.1, 0.0),
)
_KNEEL = key(
    REST,
    hips=(0.0, -0.05, 0.5),
    hips_turn=(0.0, 0.2, 0.0),
    chest_turn=(0.0, 0.5, 0.0),
    head_turn=(0.0, 0.4, 0.0),
    right_hand=(0.35, 0.42, 0.5),
    left_hand=(-0.3, 0.35, 0.5),
    right_foot=(0.16, -0.5, 0.0),
    left_foot=(-0.16, 0.25, 0.0),
    weapon=(0.1, -0.9, 0.0),
)
_DEAD = key(
    _LIE,
    tumble=(math.pi / 2, 0.0, -0.42),
    head_turn=(0.8, 0.1, 0.0),
    right_hand=(0.55, 0.1, 1.55),
    left_hand=(-0.45, 0.0, 1.0),
    weapon=(-0.3, 1.5, 0.0),
    left_foot=(-0.22, -0.1, 0.05),
    extra=(0.0, 0.0, 0.0),
)
_FALL = key(
    REST,
    hips=(0.0, 0.0, 0.95),
    chest_turn=(0.0, -0.2, 0.0),
    right_hand=(0.7, 0.0, 1.6),
    left_hand=(-0.65, 0.1, 1.65),
    right_foot=(0.2, -0.25, 0.25),
    left_foot=(-0.2, 0.3, 0.35),
    weapon=(-0.9, 0.8, 0.0),
    extra=(0.0, 1.5, 0.0),
)
_CHEER = key(
    REST,
    hips=(0.0, 0.0, 0.93),
    hips_turn=(0.0, 0.0, 0.0),
    chest_turn=(0.0, -0.15, 0.0),
    head_turn=(0.0, -0.25, 0.0),
    right_hand=(0.35, 0.12, 1.85),
    left_hand=(-0.4, 0.1, 0.9),
    weapon=(0.1, 1.45, 0.0),
    offhand=(1.2, -0.2, 0.0),
    right_foot=(0.18, -0.05, 0.0),
    left_foot=(-0.18, 0.08, 0.0),
)
_PARRY_BACK = key(REST, left_hand=(-0.55, 0.05, 1.0), offhand=(1.3, 0.1, 0.4), chest_turn=(0.4, 0.05, 0.0))
_PARRY_OUT = key(
    REST,
    hips=(0.0, 0.08, 0.86),
    chest_turn=(-0.75, 0.1, 0.0),
    head_turn=(0.8, 0.0, 0.0),
    left_hand=(0.02, 0.52, 1.3),
    offhand=(-0.15, 0.25, -0.5),
    right_hand=(0.48, -0.12, 1.0),
)
_CHARGE = key(
    REST,
    hips=(0.0, -0.1, 0.8),
    hips_turn=(-0.5, 0.0, 0.0),
    chest_turn=(-0.8, -0.05, 0.0),
    head_turn=(1.2, 0.0, 0.0),
    right_hand=(0.42, -0.28, 1.5),
    left_hand=(0.2, -0.1, 1.4),
    right_foot=(0.24, -0.45, 0.0),
    left_foot=(-0.18, 0.35, 0.0),
    weapon=(-0.5, 2.2, 0.0),
    extra=(1.0, 0.2, 0.0),
)
_THROUGH = key(
    REST,
    hips=(0.0, 0.3, 0.78),
    hips_turn=(0.4, 0.1, 0.0),
    chest_turn=(0.5, 0.25, 0.0),
    head_turn=(-0.7, -0.1, 0.0),
    right_hand=(0.05, 0.74, 1.15),
    left_hand=(-0.1, 0.6, 1.15),
    right_foot=(0.2, -0.5, 0.0),
    left_foot=(-0.18, 0.6, 0.0),
    weapon=(0.0, 0.15, 0.0),
    extra=(1.0, 0.3, 0.0),
)
_DRAWN = key(
    _THROUGH,
    hips=(0.0, -0.1, 0.8),
    hips_turn=(-0.4, 0.0, 0.0),
    chest_turn=(-0.6, 0.0, 0.0),
    head_turn=(0.9, 0.0, 0.0),
    right_hand=(0.32, -0.35, 1.2),
    left_hand=(0.1, 0.0, 1.2),
    weapon=(0.05, 0.0, 0.0),
)


def knight_pose(d: Record, f: Record, stage: Stage, stage_ticks: int) -> Pose:
    """Return the knight's pose."""
    ticks = int(d.p_ticks)
    if d.p_falling:
        wave = 0.3 * sway(ticks, 0.5)
        return key(_FALL, tumble=(-0.012 * ticks, 0.0, 0.0), chest_turn=(wave, -0.2, 0.0))
    if stage == "lost" or d.p_hp <= 0.0:
        return play([(0, _FLINCH), (22, _KNEEL), (34, _KNEEL), (DEATH_TICKS, _DEAD)], stage_ticks)
    hurt = knock_back_of(d, f)
    if hurt is not None:
        return _hurt(f, d, ticks, is_thrown=int(hurt.invulnerable) > THROWN_TICKS)
    act = _ACTS.get(_act_of(d, f))
    if act is not None:
        return act(d, f, ticks)
    idle = breathe(REST, int(d.tick), 2.6)
    if stage == "won":
        return play([(20, idle), (20 + CHEER_TICKS, breathe(_CHEER, int(d.tick), 2.6))], stage_ticks)
    return idle


def _act_of(d: Record, f: Record) -> str:
    """Return the name of the player's present act, or "" if there is none."""
    names = {int(f.rolling): "roll", int(f.moving): "walk", int(f.parrying): "parry", int(f.riposte): "riposte"}
    a = f.animations[d.p_anim]
    if a.active_from >= 0:
        return "attack"
    # An animation that costs stamina or leads on by itself, and has no hit, is the charge of a heavy attack.
    charge = "charge" if a.next >= 0 else ""
    return names.get(int(d.p_anim), charge)


def knock_back_of(d: Record, f: Record) -> Record | None:
    """Return the knock-back whose animation the player is in, or None."""
    number = int(d.p_anim)
    for row in f.knock_backs:
        if row.push_ticks > 0 and row.animation == number:
            return row
    return None


def walk_way_rad(d: Record) -> float:
    """Return the direction of the player's steps from where it faces, + to the left."""
    ahead = float(d.p_dx * d.p_fx + d.p_dy * d.p_fy)
    aside = float(d.p_fx * d.p_dy - d.p_fy * d.p_dx)
    return math.atan2(aside, ahead)


def player_strike(d: Record, f: Record) -> Strike:
    """Return the player's present attack, in the knight's axes."""
    a = f.animations[d.p_anim]
    radius = float(a.reach) + float(f.p_radius)
    heavy = _is_heavy(f, int(d.p_anim))
    style: Style = "overhead" if heavy == 1 or (not heavy and a.damage > 45) else "sweep"
    side = 1.0 if d.p_anim % 2 == 0 and not heavy else -1.0
    return Strike(style, 0.0, half_arc(a), radius, side)


def _is_heavy(f: Record, number: int) -> int:
    """Return 1 for the hit of the first heavy attack, 2 for that of the second, 0 for others."""
    opener = int(f.heavy)
    first = int(f.animations[int(f.animations[opener].next)].next)
    if number == first:
        return 1
    second = int(f.animations[first].heavy)
    return 2 if number == int(f.animations[second].next) else 0


def _walking(d: Record, f: Record, ticks: int) -> Pose:
    way = walk_way_rad(d)
    speed = _speed(d, f)
    pose = walk(REST, int(d.tick) * speed / STRIDE_M, way, STRIDE_M if abs(way) < 1.0 else 0.8 * STRIDE_M)
    return blend(REST, pose, 0.35 + 0.65 * ease(ticks / 6.0))


def _speed(d: Record, f: Record) -> float:
    """Return the distance of one tick of walking, in m."""
    if not d.lock_on:
        return float(f.walk[0])
    ahead = float(d.p_dx * d.c_fx + d.p_dy * d.c_fy)
    aside = float(d.p_dx * d.c_fy - d.p_dy * d.c_fx)
    return float(f.walk[round(math.atan2(aside, ahead) / (math.pi / 4)) % 8])


def _roll(d: Record, f: Record, ticks: int) -> Pose:
    """Return a somersault: a dive, a roll over the shoulders, and a crouch."""
    a = f.animations[d.p_anim]
    share = ticks / max(int(a.advance_to), 1)
    rest_from, end = 1.0, int(a.duration) / max(int(a.advance_to), 1)
    pose = play(
        [(0.0, REST), (0.14, _CROUCH), (0.3, _TUCK), (0.72, _TUCK), (0.98, _CROUCH), (max(end, 1.2), REST)], share
    )
    turn = min(max((share - 0.08) / 0.8, 0.0), rest_from)
    turn = 0.5 * turn + 0.5 * ease(turn)
    if turn < 1.0:
        pose = pose.copy()
        pose[TUMBLE] = (2.0 * math.pi * turn, 0.0, -0.24 * math.sin(math.pi * turn))
    return pose


def _hurt(f: Record, d: Record, ticks: int, *, is_thrown: bool) -> Pose:
    """Return a flinch, or a fall onto the back and getting up again."""
    length = max(int(f.animations[d.p_anim].duration), 12)
    if not is_thrown:
        strength = 1.0 if length > 45 else 0.75
        flinch = blend(REST, _FLINCH, strength)
        return play([(0, REST), (4, flinch), (0.35 * length, flinch), (0.9 * length, REST)], ticks)
    return play(
        [
            (0, REST),
            (4, _FLINCH),
            (12, _FLY),
            (22, _LIE),
            (0.55 * length, _LIE),
            (0.72 * length, _KNEEL),
            (0.82 * length, _KNEEL),
            (0.98 * length, REST),
        ],
        ticks,
    )


def _parry(d: Record, f: Record, ticks: int) -> Pose:
    a = f.animations[d.p_anim]
    start, end = int(a.parry_from), int(a.parry_to)
    return play(
        [(0, REST), (0.6 * start, _PARRY_BACK), (start + 4, _PARRY_OUT), (end, _PARRY_OUT), (a.duration, REST)], ticks
    )


def _riposte(d: Record, f: Record, ticks: int) -> Pose:
    hit, end = int(f.riposte_hit), int(f.animations[d.p_anim].duration)
    twist = shifted(_THROUGH, chest_turn=(0.1, 0.1, 0.0), right_hand=(0.0, 0.02, 0.06), weapon=(0.0, 0.12, 0.6))
    keys = [(0, REST), (0.35 * hit, _DRAWN), (hit - 8, _DRAWN), (hit, _THROUGH), (hit + 40, twist), (hit + 56, _DRAWN)]
    return play([*keys, (end, REST)], ticks)


def _charging(d: Record, f: Record, ticks: int) -> Pose:
    """Return the charge of a heavy attack, with a slight tremble."""
    tremble = 0.012 * math.sin(1.9 * ticks)
    held = shifted(_CHARGE, right_hand=(tremble, 0.0, tremble), chest_turn=(tremble, 0.0, 0.0))
    return play([(0, REST), (24, held)], ticks) if f.animations[d.p_anim].stamina > 0.0 else held


def _attack(d: Record, f: Record, ticks: int) -> Pose:
    a = f.animations[d.p_anim]
    start, end = int(a.active_from), int(a.active_to)
    strike = player_strike(d, f)
    heavy = _is_heavy(f, int(d.p_anim))
    wound = _CHARGE if heavy else wind_up_pose(REST, strike)
    if ticks < start:
        first = _CHARGE if heavy else REST
        pose = play([(0, first), (start - 5, wound), (start, active_pose(KNIGHT, REST, strike, 0.0))], ticks)
    elif ticks < end:
        pose = active_pose(KNIGHT, REST, strike, (ticks - start) / max(end - start - 1, 1))
    else:
        last = active_pose(KNIGHT, REST, strike, 1.0)
        pose = play([(end, last), (end + 5, last), (max(int(a.duration), end + 12), REST)], ticks)
    pose = pose.copy()
    if heavy:
        pose[EXTRA, 0] = 1.0 - ease((ticks - end) / 20.0)
    pose[HIPS, 2] = max(pose[HIPS, 2], 0.6)
    return pose


#: Pose function of each of the player's acts.
_ACTS: dict[str, Callable[[Record, Record, int], Pose]] = {
    "roll": _roll,
    "walk": _walking,
    "parry": _parry,
    "riposte": _riposte,
    "charge": _charging,
    "attack": _attack,
}
