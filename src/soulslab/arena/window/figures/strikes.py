"""Positions of the weapon and the body in an attack.

A strike has a wind-up that identifies it long before the hit, an active part, and a recovery. In the active part, the
tip follows the rules: it stays within the arc and reach of the window, and sweeps all of it.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Literal, TypeAlias

import msgspec

from soulslab.arena.blow import ease
from soulslab.arena.window.figures.pose import Pose, PosePattern, Row, key, lunge, read_patterns, shifted
from soulslab.arena.window.figures.rig import Build

Style: TypeAlias = Literal[
    "sweep", "overhead", "thrust", "spin", "slam", "throw", "leap", "charge", "ram", "grab", "breath", "burst", "lash"
]
#: Styles in which the weapon itself hits. A ``lash`` is done with a tendril; in the other styles, a wave around the
#: body shows the reach.
BY_WEAPON: frozenset[Style] = frozenset(("sweep", "overhead", "thrust", "spin", "leap", "charge"))
#: For attacks farther to the side than this, the whole body turns.
MOST_TWIST_RAD = 1.2
#: Height of an attack at its tip, in units of the body's scale.
SWEEP_HEIGHT, THRUST_HEIGHT, FLOOR_HEIGHT = 0.62, 0.75, 0.06


class Strike(msgspec.Struct, frozen=True):
    """One attack, in a figure's axes and units: its style, the middle and half of its arc, and the distance of its tip.

    ``side`` is +1 if it comes from the left, -1 from the right.
    """

    style: Style
    face_rad: float
    half_rad: float
    radius: float
    side: float


def tip_at(strike: Strike, share: float) -> tuple[float, float, float]:
    """Return angle, distance and height of the tip after a ``share`` of the active part."""
    share = min(max(share, 0.0), 1.0)
    if strike.style in ("sweep", "charge"):
        angle = strike.face_rad + strike.side * strike.half_rad * (1.0 - 2.0 * share)
        return angle, strike.radius, SWEEP_HEIGHT + 0.12 * math.cos(math.pi * share)
    if strike.style == "spin":
        half = min(strike.half_rad, math.pi)
        return strike.face_rad + strike.side * half * (1.0 - 2.0 * share), strike.radius, SWEEP_HEIGHT
    if strike.style in ("overhead", "leap"):
        fall = 1.25 * (1.0 - ease(1.3 * share))
        return strike.face_rad, strike.radius * math.cos(fall), FLOOR_HEIGHT + 0.95 * strike.radius * math.sin(fall)
    if strike.style == "lash":
        fall = 1.1 * (1.0 - ease(1.6 * share))
        return strike.face_rad, strike.radius * math.cos(fall), FLOOR_HEIGHT + 0.4 * strike.radius * math.sin(fall)
    out = ease(0.35 + 1.2 * share)
    return strike.face_rad, strike.radius * (0.55 + 0.45 * out), THRUST_HEIGHT


def active_pose(build: Build, rest: Pose, strike: Strike, share: float) -> Pose:
    """Return the pose after a share of the active part."""
    if strike.style in BY_WEAPON:
        return _reaching(build, rest, strike, share)
    return strike_patterns()["active"][strike.style].of(rest, ease(0.3 + 1.4 * share))


def wind_up_pose(rest: Pose, strike: Strike) -> Pose:
    """Return the pose at the end of the wind-up."""
    if strike.style in ("sweep", "charge"):
        return _wind_up_aside(rest, strike)
    style: Style = "overhead" if strike.style == "leap" else strike.style
    return strike_patterns()["wind_up"][style].of(rest, strike.side)


def _wind_up_aside(rest: Pose, strike: Strike) -> Pose:
    """Return the weapon far back on the side that the attack comes from, with the body turned to that side."""
    side = strike.side
    twist = min(0.55 * strike.half_rad, 0.8) * side
    pose = shifted(
        rest,
        hips=(0.0, -0.08, -0.1),
        hips_turn=(0.5 * twist, 0.0, 0.0),
        chest_turn=(twist + 0.25 * side, 0.1, 0.0),
        head_turn=(-1.3 * twist, 0.0, 0.0),
    )
    if abs(strike.face_rad) > MOST_TWIST_RAD:
        pose[Row.TUMBLE, 1] = 0.25 * strike.face_rad
    return key(
        pose,
        right_hand=(-0.42, -0.1, 1.12) if side > 0 else (0.55, -0.18, 1.15),
        left_hand=(-0.5, 0.1, 0.95) if side > 0 else (-0.15, 0.35, 1.05),
        weapon=(side * (1.75 + 0.25 * strike.half_rad), 0.35, side * 1.2),
    )


@cache
def strike_patterns() -> dict[str, dict[str, PosePattern]]:
    """Return the patterns of poses of the wind-up and of the active part, by the style of the strike."""
    return {part: read_patterns("strike_poses.toml", part) for part in ("wind_up", "active")}


def _reaching(build: Build, rest: Pose, strike: Strike, share: float) -> Pose:
    """Return the pose in which the weapon ends at the tip's position."""
    angle, radius, height = tip_at(strike, share)
    whole = 0.0
    if strike.style == "spin":
        whole = angle
    elif abs(angle) > MOST_TWIST_RAD:
        whole = angle - math.copysign(MOST_TWIST_RAD, angle)
    local = angle - whole
    pose = lunge(rest, 0.35 if strike.style in ("thrust", "charge") else 0.22)
    pose[Row.TUMBLE, 1] = whole
    twist = local if strike.style != "thrust" else 0.75
    pose[Row.HIPS_TURN, 0] += 0.3 * twist
    pose[Row.CHEST_TURN, 0] += 0.45 * twist
    pose[Row.HEAD_TURN, 0] -= 0.35 * twist
    low = min(max(0.9 - height, -0.6), 0.8)
    pose[Row.CHEST_TURN, 1] += 0.2 + 0.4 * low
    pose[Row.HIPS, 2] -= 0.1 + 0.08 * low
    shoulder = build.trunk + float(pose[Row.HIPS, 2]) - 0.06
    way_x, way_y = -math.sin(local), math.cos(local)
    # The hand extends as far as the length of the weapon leaves.
    drop = height - shoulder
    flat = math.hypot(radius, drop)
    out = min(max(flat - build.weapon, 0.3 * build.arm), 1.25 * build.arm)
    pose[Row.RIGHT_HAND] = (
        0.05 + way_x * out * radius / flat,
        0.1 + way_y * out * radius / flat,
        shoulder + drop * out / flat,
    )
    pose[Row.LEFT_HAND] = (-0.35 - 0.2 * way_y, -0.1 + 0.2 * way_x, 0.95)
    pose[Row.OFFHAND] = (1.6, 0.1, 0.0)
    flat_blow = strike.style in ("sweep", "spin", "charge")
    pose[Row.WEAPON] = (local, math.atan2(drop, max(radius, 0.01)), strike.side * 1.5 if flat_blow else 0.0)
    pose[Row.TIP] = (way_x * radius, way_y * radius, height)
    pose[Row.EXTRA, 2] = 1.0
    pose[Row.EXTRA, 1] += 0.5
    return pose
