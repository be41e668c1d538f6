"""Poses of the knight, as a pure function of the records."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

from soulslab.arena.blow import ease, half_arc, sway
from soulslab.arena.live_fight import Stage
from soulslab.arena.records import Record
from soulslab.arena.window.figures.pose import Pose, Row, blend, breathe, key, play, read_poses, shifted, walk
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


@cache
def key_poses() -> dict[str, Pose]:
    """Return the key poses of the knight, by name."""
    return read_poses("knight_poses.toml")


def knight_pose(d: Record, f: Record, stage: Stage, stage_ticks: int) -> Pose:
    """Return the knight's pose."""
    poses = key_poses()
    ticks = int(d.p_ticks)
    if d.p_falling:
        wave = 0.3 * sway(ticks, 0.5)
        return key(poses["fall"], tumble=(-0.012 * ticks, 0.0, 0.0), chest_turn=(wave, -0.2, 0.0))
    if stage == "lost" or d.p_hp <= 0.0:
        return play(
            [(0, poses["flinch"]), (22, poses["kneel"]), (34, poses["kneel"]), (DEATH_TICKS, poses["dead"])],
            stage_ticks,
        )
    hurt = knock_back_of(d, f)
    if hurt is not None:
        return _hurt(f, d, ticks, is_thrown=int(hurt.invulnerable) > THROWN_TICKS)
    act = _ACTS.get(_act_of(d, f))
    if act is not None:
        return act(d, f, ticks)
    idle = breathe(poses["rest"], int(d.tick), 2.6)
    if stage == "won":
        return play([(20, idle), (20 + CHEER_TICKS, breathe(poses["cheer"], int(d.tick), 2.6))], stage_ticks)
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
    poses = key_poses()
    way = walk_way_rad(d)
    speed = _speed(d, f)
    pose = walk(poses["rest"], int(d.tick) * speed / STRIDE_M, way, STRIDE_M if abs(way) < 1.0 else 0.8 * STRIDE_M)
    return blend(poses["rest"], pose, 0.35 + 0.65 * ease(ticks / 6.0))


def _speed(d: Record, f: Record) -> float:
    """Return the distance of one tick of walking, in m."""
    if not d.lock_on:
        return float(f.walk[0])
    ahead = float(d.p_dx * d.c_fx + d.p_dy * d.c_fy)
    aside = float(d.p_dx * d.c_fy - d.p_dy * d.c_fx)
    return float(f.walk[round(math.atan2(aside, ahead) / (math.pi / 4)) % 8])


def _roll(d: Record, f: Record, ticks: int) -> Pose:
    """Return a somersault: a dive, a roll over the shoulders, and a crouch."""
    poses = key_poses()
    a = f.animations[d.p_anim]
    share = ticks / max(int(a.advance_to), 1)
    rest_from, end = 1.0, int(a.duration) / max(int(a.advance_to), 1)
    pose = play(
        [
            (0.0, poses["rest"]),
            (0.14, poses["crouch"]),
            (0.3, poses["tuck"]),
            (0.72, poses["tuck"]),
            (0.98, poses["crouch"]),
            (max(end, 1.2), poses["rest"]),
        ],
        share,
    )
    turn = min(max((share - 0.08) / 0.8, 0.0), rest_from)
    turn = 0.5 * turn + 0.5 * ease(turn)
    if turn < 1.0:
        pose = pose.copy()
        pose[Row.TUMBLE] = (2.0 * math.pi * turn, 0.0, -0.24 * math.sin(math.pi * turn))
    return pose


def _hurt(f: Record, d: Record, ticks: int, *, is_thrown: bool) -> Pose:
    """Return a flinch, or a fall onto the back and getting up again."""
    poses = key_poses()
    length = max(int(f.animations[d.p_anim].duration), 12)
    if not is_thrown:
        strength = 1.0 if length > 45 else 0.75
        flinch = blend(poses["rest"], poses["flinch"], strength)
        return play([(0, poses["rest"]), (4, flinch), (0.35 * length, flinch), (0.9 * length, poses["rest"])], ticks)
    return play(
        [
            (0, poses["rest"]),
            (4, poses["flinch"]),
            (12, poses["fly"]),
            (22, poses["lie"]),
            (0.55 * length, poses["lie"]),
            (0.72 * length, poses["kneel"]),
            (0.82 * length, poses["kneel"]),
            (0.98 * length, poses["rest"]),
        ],
        ticks,
    )


def _parry(d: Record, f: Record, ticks: int) -> Pose:
    poses = key_poses()
    a = f.animations[d.p_anim]
    start, end = int(a.parry_from), int(a.parry_to)
    return play(
        [
            (0, poses["rest"]),
            (0.6 * start, poses["parry_back"]),
            (start + 4, poses["parry_out"]),
            (end, poses["parry_out"]),
            (a.duration, poses["rest"]),
        ],
        ticks,
    )


def _riposte(d: Record, f: Record, ticks: int) -> Pose:
    poses = key_poses()
    hit, end = int(f.riposte_hit), int(f.animations[d.p_anim].duration)
    twist = shifted(poses["through"], chest_turn=(0.1, 0.1, 0.0), right_hand=(0.0, 0.02, 0.06), weapon=(0.0, 0.12, 0.6))
    keys = [
        (0, poses["rest"]),
        (0.35 * hit, poses["drawn"]),
        (hit - 8, poses["drawn"]),
        (hit, poses["through"]),
        (hit + 40, twist),
        (hit + 56, poses["drawn"]),
    ]
    return play([*keys, (end, poses["rest"])], ticks)


def _charging(d: Record, f: Record, ticks: int) -> Pose:
    """Return the charge of a heavy attack, with a slight tremble."""
    poses = key_poses()
    tremble = 0.012 * math.sin(1.9 * ticks)
    held = shifted(poses["charge"], right_hand=(tremble, 0.0, tremble), chest_turn=(tremble, 0.0, 0.0))
    return play([(0, poses["rest"]), (24, held)], ticks) if f.animations[d.p_anim].stamina > 0.0 else held


def _attack(d: Record, f: Record, ticks: int) -> Pose:
    poses = key_poses()
    a = f.animations[d.p_anim]
    start, end = int(a.active_from), int(a.active_to)
    strike = player_strike(d, f)
    heavy = _is_heavy(f, int(d.p_anim))
    wound = poses["charge"] if heavy else wind_up_pose(poses["rest"], strike)
    if ticks < start:
        first = poses["charge"] if heavy else poses["rest"]
        pose = play([(0, first), (start - 5, wound), (start, active_pose(KNIGHT, poses["rest"], strike, 0.0))], ticks)
    elif ticks < end:
        pose = active_pose(KNIGHT, poses["rest"], strike, (ticks - start) / max(end - start - 1, 1))
    else:
        last = active_pose(KNIGHT, poses["rest"], strike, 1.0)
        pose = play([(end, last), (end + 5, last), (max(int(a.duration), end + 12), poses["rest"])], ticks)
    pose = pose.copy()
    if heavy:
        pose[Row.EXTRA, 0] = 1.0 - ease((ticks - end) / 20.0)
    pose[Row.HIPS, 2] = max(pose[Row.HIPS, 2], 0.6)
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
