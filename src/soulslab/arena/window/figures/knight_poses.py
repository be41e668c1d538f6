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


def _key(name: str) -> Pose:
    return key_poses()[name]


def _play(moment: float, *keys: tuple[float, str | Pose]) -> Pose:
    """Return the pose at a moment between keys (moment, pose); a text is the name of a key pose."""
    return play([(at, _key(pose) if isinstance(pose, str) else pose) for at, pose in keys], moment)


def knight_pose(d: Record, f: Record, stage: Stage, stage_ticks: int) -> Pose:
    """Return the knight's pose."""
    ticks = int(d.p_ticks)
    if d.p_falling:
        wave = 0.3 * sway(ticks, 0.5)
        return key(_key("fall"), tumble=(-0.012 * ticks, 0.0, 0.0), chest_turn=(wave, -0.2, 0.0))
    if stage == "lost" or d.p_hp <= 0.0:
        return _play(stage_ticks, (0, "flinch"), (22, "kneel"), (34, "kneel"), (DEATH_TICKS, "dead"))
    hurt = knock_back_of(d, f)
    if hurt is not None:
        return _hurt(f, d, ticks, is_thrown=int(hurt.invulnerable) > THROWN_TICKS)
    act = _act_of(d, f)
    if act is not None:
        return act(d, f, ticks)
    idle = breathe(_key("rest"), int(d.tick), 2.6)
    if stage == "won":
        return play([(20, idle), (20 + CHEER_TICKS, breathe(_key("cheer"), int(d.tick), 2.6))], stage_ticks)
    return idle


def _act_of(d: Record, f: Record) -> Callable[[Record, Record, int], Pose] | None:
    """Return the pose function of the player's present act, or None if there is none."""
    acts = {int(f.rolling): _roll, int(f.moving): _walking, int(f.parrying): _parry, int(f.riposte): _riposte}
    a = f.animations[d.p_anim]
    if a.active_from >= 0:
        return _attack
    # An animation that costs stamina or leads on by itself, and has no hit, is the charge of a heavy attack.
    return acts.get(int(d.p_anim), _charging if a.next >= 0 else None)


def knock_back_of(d: Record, f: Record) -> Record | None:
    """Return the knock-back whose animation the player is in, or None."""
    number = int(d.p_anim)
    return next((row for row in f.knock_backs if row.push_ticks > 0 and row.animation == number), None)


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
    pose = walk(_key("rest"), int(d.tick) * speed / STRIDE_M, way, STRIDE_M if abs(way) < 1.0 else 0.8 * STRIDE_M)
    return blend(_key("rest"), pose, 0.35 + 0.65 * ease(ticks / 6.0))


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
    end = int(a.duration) / max(int(a.advance_to), 1)
    crouch, tuck = _key("crouch"), _key("tuck")
    pose = _play(
        share, (0.0, "rest"), (0.14, crouch), (0.3, tuck), (0.72, tuck), (0.98, crouch), (max(end, 1.2), "rest")
    )
    turn = min(max((share - 0.08) / 0.8, 0.0), 1.0)
    turn = 0.5 * turn + 0.5 * ease(turn)
    if turn < 1.0:
        pose = pose.copy()
        pose[Row.TUMBLE] = (2.0 * math.pi * turn, 0.0, -0.24 * math.sin(math.pi * turn))
    return pose


def _hurt(f: Record, d: Record, ticks: int, *, is_thrown: bool) -> Pose:
    """Return a flinch, or a fall onto the back and getting up again."""
    length = max(int(f.animations[d.p_anim].duration), 12)
    if not is_thrown:
        strength = 1.0 if length > 45 else 0.75
        flinch = blend(_key("rest"), _key("flinch"), strength)
        return _play(ticks, (0, "rest"), (4, flinch), (0.35 * length, flinch), (0.9 * length, "rest"))
    falling = ((0, "rest"), (4, "flinch"), (12, "fly"), (22, "lie"))
    rising = ((0.55, "lie"), (0.72, "kneel"), (0.82, "kneel"), (0.98, "rest"))
    return _play(ticks, *falling, *((share * length, name) for share, name in rising))


def _parry(d: Record, f: Record, ticks: int) -> Pose:
    a = f.animations[d.p_anim]
    start, end = int(a.parry_from), int(a.parry_to)
    back, out = _key("parry_back"), _key("parry_out")
    return _play(ticks, (0, "rest"), (0.6 * start, back), (start + 4, out), (end, out), (a.duration, "rest"))


def _riposte(d: Record, f: Record, ticks: int) -> Pose:
    hit, end = int(f.riposte_hit), int(f.animations[d.p_anim].duration)
    drawn, through = _key("drawn"), _key("through")
    twist = shifted(through, chest_turn=(0.1, 0.1, 0.0), right_hand=(0.0, 0.02, 0.06), weapon=(0.0, 0.12, 0.6))
    thrust = ((0, "rest"), (0.35 * hit, drawn), (hit - 8, drawn), (hit, through), (hit + 40, twist))
    return _play(ticks, *thrust, (hit + 56, drawn), (end, "rest"))


def _charging(d: Record, f: Record, ticks: int) -> Pose:
    """Return the charge of a heavy attack, with a slight tremble."""
    tremble = 0.012 * math.sin(1.9 * ticks)
    held = shifted(_key("charge"), right_hand=(tremble, 0.0, tremble), chest_turn=(tremble, 0.0, 0.0))
    return _play(ticks, (0, "rest"), (24, held)) if f.animations[d.p_anim].stamina > 0.0 else held


def _attack(d: Record, f: Record, ticks: int) -> Pose:
    a = f.animations[d.p_anim]
    start, end = int(a.active_from), int(a.active_to)
    rest, strike = _key("rest"), player_strike(d, f)
    heavy = _is_heavy(f, int(d.p_anim))
    if ticks < start:
        first, wound = (_key("charge"), _key("charge")) if heavy else (rest, wind_up_pose(rest, strike))
        pose = _play(ticks, (0, first), (start - 5, wound), (start, active_pose(KNIGHT, rest, strike, 0.0)))
    elif ticks < end:
        pose = active_pose(KNIGHT, rest, strike, (ticks - start) / max(end - start - 1, 1))
    else:
        last = active_pose(KNIGHT, rest, strike, 1.0)
        pose = _play(ticks, (end, last), (end + 5, last), (max(int(a.duration), end + 12), rest))
    pose = pose.copy()
    if heavy:
        pose[Row.EXTRA, 0] = 1.0 - ease((ticks - end) / 20.0)
    pose[Row.HIPS, 2] = max(pose[Row.HIPS, 2], 0.6)
    return pose
