"""Positions of the weapon and the body in an attack.

A strike has a wind-up that identifies it long before the hit, an active part, and a recovery. In the active part, the
tip follows the rules: it stays within the arc and reach of the window, and sweeps all of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from soulslab.arena.blow import ease
from soulslab.arena.window.figures.pose import (
    CHEST_TURN,
    EXTRA,
    HEAD_TURN,
    HIPS,
    HIPS_TURN,
    LEFT_FOOT,
    LEFT_HAND,
    OFFHAND,
    RIGHT_FOOT,
    RIGHT_HAND,
    TIP,
    TUMBLE,
    WEAPON,
    Pose,
    key,
    shifted,
)
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
    return _ACTIVE_POSES[strike.style](rest, ease(0.3 + 1.4 * share))


def wind_up_pose(rest: Pose, strike: Strike) -> Pose:
    """Return the pose at the end of the wind-up."""
    if strike.style in ("sweep", "charge"):
        return _wind_up_aside(rest, strike)
    return _WIND_UP_POSES[strike.style](rest, strike.side)


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
        pose[TUMBLE, 1] = 0.25 * strike.face_rad
    return key(
        pose,
        right_hand=(-0.42, -0.1, 1.12) if side > 0 else (0.55, -0.18, 1.15),
        left_hand=(-0.5, 0.1, 0.95) if side > 0 else (-0.15, 0.35, 1.05),
        weapon=(side * (1.75 + 0.25 * strike.half_rad), 0.35, side * 1.2),
    )


def _wind_up_around(rest: Pose, side: float) -> Pose:
    """Return a low pose with the weapon around the body."""
    pose = shifted(rest, hips=(0.0, 0.0, -0.24), hips_turn=(0.4 * side, 0.1, 0.0), chest_turn=(0.9 * side, 0.25, 0.0))
    return key(
        _wide(pose),
        right_hand=(-0.3 * side + 0.12, -0.05, 0.72),
        left_hand=(-0.3, 0.0, 0.75),
        weapon=(side * 2.5, -0.15, side * 1.5),
    )


def _wind_up_above(rest: Pose, side: float) -> Pose:  # noqa: ARG001 - the functions of the table share a signature
    """Return the weapon behind the head and the back arched."""
    pose = shifted(rest, hips=(0.0, -0.06, 0.0), chest_turn=(0.0, -0.38, 0.0), head_turn=(0.0, 0.2, 0.0))
    return key(pose, right_hand=(0.16, -0.06, 1.78), left_hand=(-0.2, 0.0, 1.6), weapon=(0.0, 2.25, 0.0))


def _wind_up_straight(rest: Pose, side: float) -> Pose:  # noqa: ARG001
    """Return the weapon drawn back level with its point at the player, and the body low and turned sideways."""
    pose = shifted(
        rest,
        hips=(0.0, -0.2, -0.16),
        hips_turn=(-0.5, 0.0, 0.0),
        chest_turn=(-0.7, 0.1, 0.0),
        head_turn=(1.1, -0.05, 0.0),
        right_foot=(0.0, -0.25, 0.0),
        left_foot=(0.0, 0.15, 0.0),
    )
    return key(pose, right_hand=(0.3, -0.45, 1.12), left_hand=(-0.2, 0.4, 1.1), weapon=(0.04, -0.04, 0.0))


def _wind_up_throw(rest: Pose, side: float) -> Pose:  # noqa: ARG001
    """Return one arm far back over the shoulder and the other one pointing."""
    pose = shifted(rest, chest_turn=(-0.9, -0.15, 0.0), head_turn=(0.8, 0.0, 0.0), hips=(0.0, -0.1, -0.05))
    return key(pose, right_hand=(0.5, -0.35, 1.6), left_hand=(-0.3, 0.55, 1.35), weapon=(0.0, 1.9, 0.0))


def _wind_up_slam(rest: Pose, side: float) -> Pose:  # noqa: ARG001
    """Return both hands high with the weapon pointing down."""
    pose = shifted(rest, hips=(0.0, 0.0, 0.03), chest_turn=(0.0, -0.4, 0.0), head_turn=(0.0, -0.3, 0.0))
    return key(_wide(pose), right_hand=(0.14, 0.1, 1.85), left_hand=(-0.14, 0.1, 1.8), weapon=(0.0, -1.35, 0.0))


def _wind_up_ram(rest: Pose, side: float) -> Pose:  # noqa: ARG001
    """Return one shoulder forward and the head down, ready to run."""
    pose = shifted(rest, hips=(0.0, -0.2, -0.22), chest_turn=(-0.5, 0.5, -0.2), head_turn=(0.4, -0.35, 0.0))
    return key(pose, right_hand=(0.45, -0.3, 0.8), left_hand=(-0.2, 0.3, 0.95), weapon=(-2.3, -0.1, 0.0))


def _wind_up_grab(rest: Pose, side: float) -> Pose:  # noqa: ARG001
    """Return the free hand open and far back, and the weapon lowered."""
    pose = shifted(rest, hips=(0.0, -0.12, -0.12), chest_turn=(0.8, 0.15, 0.0), head_turn=(-0.7, 0.0, 0.0))
    return _one_handed(key(pose, right_hand=(0.45, 0.1, 0.85), left_hand=(-0.65, -0.3, 1.35), weapon=(-1.2, -0.5, 0.0)))


def _wind_up_breath(rest: Pose, side: float) -> Pose:  # noqa: ARG001
    """Return the body raised and the head back, inhaling."""
    pose = shifted(rest, hips=(0.0, 0.05, 0.06), chest_turn=(0.0, -0.8, 0.0), head_turn=(0.0, -0.1, 0.0))
    return shifted(_wide(pose), left_hand=(-0.1, -0.2, 0.5), right_hand=(0.1, -0.1, 0.35))


def _wind_up_burst(rest: Pose, side: float) -> Pose:  # noqa: ARG001
    """Return the body curled up."""
    pose = shifted(rest, hips=(0.0, 0.0, -0.3), chest_turn=(0.0, 0.8, 0.0), head_turn=(0.0, 0.4, 0.0))
    return key(_wide(pose), right_hand=(0.2, 0.25, 0.75), left_hand=(-0.2, 0.25, 0.75), weapon=(-0.9, -0.2, 0.0))


def _wind_up_lash(rest: Pose, side: float) -> Pose:  # noqa: ARG001
    """Return the free arm high and far back, and the weapon low on the other side."""
    pose = shifted(rest, hips=(0.0, -0.12, -0.08), chest_turn=(0.7, -0.2, 0.0), head_turn=(-0.6, 0.1, 0.0))
    return _one_handed(key(pose, right_hand=(0.45, 0.15, 0.8), left_hand=(-0.5, -0.25, 1.7), weapon=(-0.8, -0.35, 0.0)))


def _throwing(rest: Pose, out: float) -> Pose:  # noqa: ARG001
    pose = shifted(_lunge(rest, 0.3), chest_turn=(0.5, 0.35, 0.0))
    return key(pose, right_hand=(0.0, 0.75, 1.25), left_hand=(-0.4, -0.2, 0.9), weapon=(0.1, 0.2, 0.0))


def _slamming(rest: Pose, out: float) -> Pose:
    pose = shifted(rest, hips=(0.0, 0.0, -0.26), chest_turn=(0.0, 0.75, 0.0), head_turn=(0.0, -0.4, 0.0))
    return key(
        _wide(pose),
        right_hand=(0.12, 0.5, 0.75 - 0.25 * out),
        left_hand=(-0.12, 0.5, 0.8 - 0.25 * out),
        weapon=(0.0, -1.2 - 0.25 * out, 0.0),
    )


def _ramming(rest: Pose, out: float) -> Pose:
    pose = shifted(_lunge(rest, 0.55), chest_turn=(0.5, 0.55, 0.3), hips=(0.0, 0.12 * out, -0.06))
    return key(pose, right_hand=(0.3, 0.1, 0.95), left_hand=(-0.1, 0.45, 1.05), weapon=(-1.9, 0.1, 0.0))


def _grabbing(rest: Pose, out: float) -> Pose:
    pose = shifted(_lunge(rest, 0.6), chest_turn=(-0.6, 0.45, 0.0))
    return _one_handed(
        key(pose, right_hand=(0.4, -0.25, 0.9), left_hand=(-0.05, 0.55 + 0.35 * out, 1.1), weapon=(-2.4, -0.3, 0.0))
    )


def _lashing(rest: Pose, out: float) -> Pose:
    pose = shifted(_lunge(rest, 0.5), chest_turn=(-0.6, 0.35, 0.0), head_turn=(0.5, 0.0, 0.0))
    return _one_handed(
        key(pose, right_hand=(0.5, -0.2, 0.85), left_hand=(0.0, 0.5 + 0.25 * out, 1.1), weapon=(-1.1, -0.35, 0.0))
    )


def _breathing_out(rest: Pose, out: float) -> Pose:
    return shifted(_lunge(rest, 0.3), chest_turn=(0.0, 0.2 + 0.1 * out, 0.0), head_turn=(0.0, -0.15, 0.0))


def _bursting(rest: Pose, out: float) -> Pose:
    """Return all limbs spread."""
    pose = shifted(rest, chest_turn=(0.0, -0.55, 0.0), head_turn=(0.0, -0.5, 0.0), hips=(0.0, 0.0, 0.03 * out))
    return _one_handed(
        key(_wide(pose), right_hand=(0.75, 0.05, 1.35), left_hand=(-0.75, 0.05, 1.35), weapon=(-1.4, 0.5, 0.0))
    )


#: Pose at the end of the wind-up, as a function of (rest, side).
_WIND_UP_POSES: dict[Style, Callable[[Pose, float], Pose]] = {
    "spin": _wind_up_around,
    "overhead": _wind_up_above,
    "leap": _wind_up_above,
    "thrust": _wind_up_straight,
    "throw": _wind_up_throw,
    "slam": _wind_up_slam,
    "ram": _wind_up_ram,
    "grab": _wind_up_grab,
    "breath": _wind_up_breath,
    "burst": _wind_up_burst,
    "lash": _wind_up_lash,
}
#: Pose in the active part, as a function of (rest, extension).
_ACTIVE_POSES: dict[Style, Callable[[Pose, float], Pose]] = {
    "throw": _throwing,
    "slam": _slamming,
    "ram": _ramming,
    "grab": _grabbing,
    "breath": _breathing_out,
    "burst": _bursting,
    "lash": _lashing,
}


def _reaching(build: Build, rest: Pose, strike: Strike, share: float) -> Pose:
    """Return the pose in which the weapon ends at the tip's position."""
    angle, radius, height = tip_at(strike, share)
    whole = 0.0
    if strike.style == "spin":
        whole = angle
    elif abs(angle) > MOST_TWIST_RAD:
        whole = angle - math.copysign(MOST_TWIST_RAD, angle)
    local = angle - whole
    pose = _lunge(rest, 0.35 if strike.style in ("thrust", "charge") else 0.22)
    pose[TUMBLE, 1] = whole
    twist = local if strike.style != "thrust" else 0.75
    pose[HIPS_TURN, 0] += 0.3 * twist
    pose[CHEST_TURN, 0] += 0.45 * twist
    pose[HEAD_TURN, 0] -= 0.35 * twist
    low = min(max(0.9 - height, -0.6), 0.8)
    pose[CHEST_TURN, 1] += 0.2 + 0.4 * low
    pose[HIPS, 2] -= 0.1 + 0.08 * low
    shoulder = build.trunk + float(pose[HIPS, 2]) - 0.06
    way_x, way_y = -math.sin(local), math.cos(local)
    # The hand extends as far as the length of the weapon leaves.
    drop = height - shoulder
    flat = math.hypot(radius, drop)
    out = min(max(flat - build.weapon, 0.3 * build.arm), 1.25 * build.arm)
    pose[RIGHT_HAND] = (
        0.05 + way_x * out * radius / flat,
        0.1 + way_y * out * radius / flat,
        shoulder + drop * out / flat,
    )
    pose[LEFT_HAND] = (-0.35 - 0.2 * way_y, -0.1 + 0.2 * way_x, 0.95)
    pose[OFFHAND] = (1.6, 0.1, 0.0)
    flat_blow = strike.style in ("sweep", "spin", "charge")
    pose[WEAPON] = (local, math.atan2(drop, max(radius, 0.01)), strike.side * 1.5 if flat_blow else 0.0)
    pose[TIP] = (way_x * radius, way_y * radius, height)
    pose[EXTRA, 2] = 1.0
    pose[EXTRA, 1] += 0.5
    return pose


def _lunge(rest: Pose, step: float) -> Pose:
    pose = rest.copy()
    pose[HIPS] += (0.0, 0.35 * step, -0.25 * step)
    pose[LEFT_FOOT, 1] += 0.7 * step
    pose[RIGHT_FOOT, 1] -= 0.6 * step
    return pose


def _one_handed(pose: Pose) -> Pose:
    pose[EXTRA, 0] = 0.0
    return pose


def _wide(pose: Pose) -> Pose:
    return shifted(pose, right_foot=(0.1, 0.0, 0.0), left_foot=(-0.1, 0.0, 0.0))
