"""From a pose to the positions of a body's parts: trunk and head by rotations, arms and legs by inverse kinematics.

The code uses plain floats and tuples, because numpy calls on vectors of three cost several times the arithmetic.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import TypeAlias

import msgspec

from soulslab.arena.window.figures.pose import Pose

Vector: TypeAlias = tuple[float, float, float]
#: Coordinate system of a part: its axes right, ahead and up, then its origin.
Place: TypeAlias = tuple[Vector, Vector, Vector, Vector]


class Part(IntEnum):
    """Parts of a body, in the order in which `place_parts` returns them. The axis of a limb is its "ahead" axis."""

    HIPS = 0
    CHEST = 1
    HEAD = 2
    RIGHT_UPPER_ARM = 3
    RIGHT_FOREARM = 4
    LEFT_UPPER_ARM = 5
    LEFT_FOREARM = 6
    RIGHT_THIGH = 7
    RIGHT_SHIN = 8
    RIGHT_FOOT = 9
    LEFT_THIGH = 10
    LEFT_SHIN = 11
    LEFT_FOOT = 12
    WEAPON = 13
    OFFHAND = 14
    CAPE = 15


#: Names of the parts in the files of the figures.
PARTS = tuple(part.name.lower() for part in Part)

#: A limb is never completely straight, so that the direction of its bend is defined.
MOST_STRETCH = 0.998
_STILL: Place = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.0, 0.0, 0.0))


class Build(msgspec.Struct, frozen=True, kw_only=True):
    """Proportions of a body, in units of ``scale_m``.

    Attributes:
        hip_width: Half the distance between the hips; ``shoulder_width`` is half that between the shoulders.
        weapon: Distance from the right hand to the weapon's tip.
        second_grip: Distance of the left hand behind the right one on the weapon; 0 for a one-handed weapon.
        pivot: Height of the point that the body tumbles about.
        choke: Largest distance that the weapon slides back through the hand if its tip has to be near.
        cape_at: Fastening point of the cape: behind and above the chest's origin.
        has_tail: Whether the cape is a tail at the hips; ``cape_at`` is then relative to the hips.
        elbows: How far elbows point outwards rather than down.
    """

    scale_m: float = 1.0
    thigh: float = 0.46
    shin: float = 0.44
    hip_width: float = 0.11
    trunk: float = 0.48
    neck: float = 0.07
    shoulder_width: float = 0.24
    upper_arm: float = 0.31
    forearm: float = 0.31
    weapon: float = 1.15
    second_grip: float = 0.0
    pivot: float = 0.55
    choke: float = 0.0
    cape_at: tuple[float, float] = (-0.12, 0.42)
    has_tail: bool = False
    elbows: float = 0.5

    @property
    def arm(self) -> float:
        """Reach of an arm."""
        return MOST_STRETCH * (self.upper_arm + self.forearm)


def place_parts(build: Build, pose: Pose) -> tuple[list[Place], float]:
    """Return the coordinate systems of the parts of a body, in m in the figure's axes, and the stretch of the weapon.

    The stretch is the weapon's length as a share of its normal length. The parts are in the order of `PARTS`.
    """
    rows: list[Vector] = [(x, y, z) for x, y, z in pose.tolist()]
    tumble, hips, hips_turn, chest_turn, head_turn, right, left, *feet, weapon, offhand, tip, extra = rows
    found: list[Place] = [_STILL] * len(PARTS)
    found[Part.HIPS] = trunk = (*turned(_STILL, hips_turn), hips)
    found[Part.CHEST] = chest = (*turned(trunk, chest_turn), _at(trunk, 0.0, 0.0, 0.06))
    neck = _at(chest, 0.0, 0.0, build.trunk + build.neck - 0.06)
    found[Part.HEAD] = (*turned(chest, head_turn), neck)
    bearer = trunk if build.has_tail else chest
    found[Part.CAPE] = (*turned(bearer, (0.0, extra[1], 0.0)), _at(bearer, 0.0, *build.cape_at))

    shoulder = _at(chest, build.shoulder_width, 0.0, build.trunk - 0.1)
    palm = _arm(build, found, Part.RIGHT_UPPER_ARM, (shoulder, right), 1.0)
    found[Part.WEAPON], stretch = _aimed(build, held(palm, weapon), tip, extra[2])
    grip = extra[0] if build.second_grip else 0.0
    if grip > 0.0:
        ax, ay, az = found[Part.WEAPON][1]
        back = build.second_grip
        left = _mean(left, (palm[0] - back * ax, palm[1] - back * ay, palm[2] - back * az), grip)
    shoulder = _at(chest, -build.shoulder_width, 0.0, build.trunk - 0.1)
    palm = _arm(build, found, Part.LEFT_UPPER_ARM, (shoulder, left), -1.0)
    found[Part.OFFHAND] = held(palm, offhand)

    for first, side, foot in zip((Part.RIGHT_THIGH, Part.LEFT_THIGH), (1.0, -1.0), feet, strict=True):
        hip = _at(trunk, side * build.hip_width, 0.0, 0.0)
        _leg(build, found, first, (hip, (foot[0], foot[1], foot[2] + 0.09)), side)
    return [_finished(place, build, tumble) for place in found], stretch


def tip_of(build: Build, pose: Pose) -> Vector:
    """Return the position of the weapon's tip in a pose, in m in the figure's axes."""
    places, stretch = place_parts(build, pose)
    return _at(places[Part.WEAPON], 0.0, stretch * build.weapon * build.scale_m, 0.0)


def free_palm_of(build: Build, pose: Pose) -> Vector:
    """Return the position of the palm of the left hand in a pose, in m in the figure's axes."""
    places, _ = place_parts(build, pose)
    return _at(places[Part.LEFT_FOREARM], 0.0, build.forearm * build.scale_m, 0.0)


def turned(base: Place, turn: Vector) -> tuple[Vector, Vector, Vector]:
    """Return the axes of a coordinate system rotated by roll, then pitch, then yaw."""
    cy, cp, cr = map(math.cos, turn)
    sy, sp, sr = map(math.sin, turn)
    right = _in(base, cr * cy + sr * sp * sy, cr * sy - sr * sp * cy, -sr * cp)
    ahead = _in(base, -cp * sy, cp * cy, -sp)
    up = _in(base, sr * cy - cr * sp * sy, sr * sy + cr * sp * cy, cr * cp)
    return right, ahead, up


def held(palm: Vector, aim: Vector) -> Place:
    """Return the coordinate system of a held object: its "ahead" axis is its direction, its "up" axis the edge."""
    cy, ce, cr = map(math.cos, aim)
    sy, se, sr = map(math.sin, aim)
    ahead = (-sy * ce, cy * ce, se)
    up = (cr * sy * se + sr * cy, -cr * cy * se + sr * sy, cr * ce)
    right = (cr * cy - sr * sy * se, cr * sy + sr * cy * se, -sr * ce)
    return right, ahead, up, palm


def _aimed(build: Build, weapon: Place, tip: Vector, weight: float) -> tuple[Place, float]:
    """Return the coordinate system of a weapon with a given tip position, and the factor of its length."""
    if weight <= 0.0:
        return weapon, 1.0
    _, ahead, up, palm = weapon
    wx, wy, wz = tip[0] - palm[0], tip[1] - palm[1], tip[2] - palm[2]
    distance = max(math.sqrt(wx * wx + wy * wy + wz * wz), 1e-3)
    way = _mean(ahead, (wx / distance, wy / distance, wz / distance), weight)
    size = max(math.sqrt(way[0] * way[0] + way[1] * way[1] + way[2] * way[2]), 1e-3)
    ax, ay, az = way[0] / size, way[1] / size, way[2] / size
    length = build.weapon + (distance - build.weapon) * weight
    slide = min(max(build.weapon - length, 0.0), build.choke)
    origin = (palm[0] - slide * ax, palm[1] - slide * ay, palm[2] - slide * az)
    # The edge stays as close as possible to its direction.
    rx, ry, rz = ay * up[2] - az * up[1], az * up[0] - ax * up[2], ax * up[1] - ay * up[0]
    size = max(math.sqrt(rx * rx + ry * ry + rz * rz), 1e-3)
    rx, ry, rz = rx / size, ry / size, rz / size
    above = (ry * az - rz * ay, rz * ax - rx * az, rx * ay - ry * ax)
    return ((rx, ry, rz), (ax, ay, az), above, origin), (length + slide) / build.weapon


def _arm(build: Build, found: list[Place], first: int, ends: tuple[Vector, Vector], side: float) -> Vector:
    """Place an arm and return the position of its palm: the target, or the nearest point within reach."""
    chest = found[Part.CHEST]
    pole = _in(chest, side * build.elbows, -0.35, -0.8)
    elbow, palm = _bend(ends, (build.upper_arm, build.forearm), pole)
    found[first] = _limb(ends[0], elbow, chest[0])
    found[first + 1] = _limb(elbow, palm, chest[0])
    return palm


def _leg(build: Build, found: list[Place], first: int, ends: tuple[Vector, Vector], side: float) -> None:
    trunk = found[Part.HIPS]
    yaw_ahead = _level(trunk[1])
    pole = (yaw_ahead[0] + side * 0.25 * trunk[0][0], yaw_ahead[1] + side * 0.25 * trunk[0][1], 0.15)
    knee, ankle = _bend(ends, (build.thigh, build.shin), pole)
    found[first] = _limb(ends[0], knee, trunk[0])
    found[first + 1] = _limb(knee, ankle, trunk[0])
    right = (yaw_ahead[1], -yaw_ahead[0], 0.0)
    found[first + 2] = (right, yaw_ahead, (0.0, 0.0, 1.0), ankle)


def _bend(ends: tuple[Vector, Vector], bones: tuple[float, float], pole: Vector) -> tuple[Vector, Vector]:
    """Return the middle joint and the end of a limb of two bones that reaches for a target and bends to a pole."""
    (ax, ay, az), (bx, by, bz) = ends
    first, second = bones
    wx, wy, wz = bx - ax, by - ay, bz - az
    length = math.sqrt(wx * wx + wy * wy + wz * wz)
    if length < 1e-6:
        wx, wy, wz, length = 0.0, 0.0, -1e-6, 1e-6
    wx, wy, wz = wx / length, wy / length, wz / length
    length = min(max(length, abs(first - second) + 0.02), MOST_STRETCH * (first + second))
    along = (length * length + first * first - second * second) / (2.0 * length)
    out = math.sqrt(max(first * first - along * along, 0.0))
    px, py, pz = pole
    off = px * wx + py * wy + pz * wz
    px, py, pz = px - off * wx, py - off * wy, pz - off * wz
    size = math.sqrt(px * px + py * py + pz * pz)
    if size < 1e-6:
        px, py, pz, size = -wy, wx, 1e-3, math.sqrt(wx * wx + wy * wy + 1e-6)
    out /= size
    middle = (ax + wx * along + px * out, ay + wy * along + py * out, az + wz * along + pz * out)
    return middle, (ax + wx * length, ay + wy * length, az + wz * length)


def _limb(start: Vector, end: Vector, right: Vector) -> Place:
    """Return the coordinate system of a bone: "ahead" along it, "right" as close as possible to a given axis."""
    ax, ay, az = end[0] - start[0], end[1] - start[1], end[2] - start[2]
    size = math.sqrt(ax * ax + ay * ay + az * az) or 1.0
    ax, ay, az = ax / size, ay / size, az / size
    # up = right x ahead, then right = ahead x up
    ux, uy, uz = right[1] * az - right[2] * ay, right[2] * ax - right[0] * az, right[0] * ay - right[1] * ax
    size = math.sqrt(ux * ux + uy * uy + uz * uz)
    if size < 1e-4:
        ux, uy, uz, size = -ay * 1.0, ax * 1.0, 1e-3, math.sqrt(ax * ax + ay * ay + 1e-6)
    ux, uy, uz = ux / size, uy / size, uz / size
    return (ay * uz - az * uy, az * ux - ax * uz, ax * uy - ay * ux), (ax, ay, az), (ux, uy, uz), start


def _finished(place: Place, build: Build, tumble: Vector) -> Place:
    """Return a coordinate system after the rotation and lift of the whole body, in m."""
    right, ahead, up, (x, y, z) = place
    scale = build.scale_m
    pitch, yaw, lift = tumble
    if pitch == 0.0 and yaw == 0.0:
        return right, ahead, up, (scale * x, scale * y, scale * (z + lift))
    cp, sp, cy, sy = math.cos(pitch), math.sin(pitch), math.cos(yaw), math.sin(yaw)

    def spin(vector: Vector) -> Vector:
        vx, vy, vz = vector
        ahead, height = vy * cp + vz * sp, vz * cp - vy * sp
        return vx * cy - ahead * sy, vx * sy + ahead * cy, height

    px, py, pz = spin((x, y, z - build.pivot))
    return spin(right), spin(ahead), spin(up), (scale * px, scale * py, scale * (pz + build.pivot + lift))


def _in(base: Place, x: float, y: float, z: float) -> Vector:
    (rx, ry, rz), (ax, ay, az), (ux, uy, uz), _ = base
    return x * rx + y * ax + z * ux, x * ry + y * ay + z * uy, x * rz + y * az + z * uz


def _at(base: Place, x: float, y: float, z: float) -> Vector:
    ox, oy, oz = base[3]
    vx, vy, vz = _in(base, x, y, z)
    return ox + vx, oy + vy, oz + vz


def _level(vector: Vector) -> Vector:
    size = math.hypot(vector[0], vector[1])
    return (vector[0] / size, vector[1] / size, 0.0) if size > 1e-6 else (0.0, 1.0, 0.0)


def _mean(first: Vector, second: Vector, share: float) -> Vector:
    return (
        first[0] + (second[0] - first[0]) * share,
        first[1] + (second[1] - first[1]) * share,
        first[2] + (second[2] - first[2]) * share,
    )
