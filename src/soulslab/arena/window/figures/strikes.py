"""Where a blow puts a weapon and the body behind it.

A strike has a wind-up that tells it from the others long before it lands, a part in which it hurts, and a way back. In
the part that hurts, the tip follows the rules: it stays within the window's arc and reach, and goes through all of it.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import msgspec

from soulslab.arena.motion import ease
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
    "sweep", "overhead", "thrust", "spin", "slam", "throw", "leap", "charge", "ram", "grab", "breath", "burst"
]
#: Styles in which the weapon itself does the harm; in the others a wave around the body shows how far it reaches.
BY_WEAPON: frozenset[Style] = frozenset(("sweep", "overhead", "thrust", "spin", "leap", "charge"))
#: The body turns as a whole for blows farther to the side than this.
MOST_TWIST_RAD = 1.2
#: Height of a blow at its tip, in units of the body's scale.
SWEEP_HEIGHT, THRUST_HEIGHT, FLOOR_HEIGHT = 0.62, 0.75, 0.06


class Strike(msgspec.Struct, frozen=True):
    """One blow, in a figure's own axes and units.

    Attributes:
        style: How it is struck.
        face_rad: Middle of its arc.
        half_rad: Half the arc.
        radius: How far its tip reaches from the figure's middle.
        side: +1 if it comes from the left, -1 from the right.
    """

    style: Style
    face_rad: float
    half_rad: float
    radius: float
    side: float


def tip_at(strike: Strike, share: float) -> tuple[float, float, float]:
    """Return angle, distance and height of the tip, ``share`` of the way through the part that hurts."""
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
    out = ease(0.35 + 1.2 * share)
    return strike.face_rad, strike.radius * (0.55 + 0.45 * out), THRUST_HEIGHT


def struck(build: Build, rest: Pose, strike: Strike, share: float) -> Pose:
    """Return the pose in the part that hurts, at a share of it."""
    if strike.style in BY_WEAPON:
        return _reaching(build, rest, strike, share)
    if strike.style == "throw":
        return key(
            shifted(_lunge(rest, 0.3), chest_turn=(0.5, 0.35, 0.0)),
            right_hand=(0.0, 0.75, 1.25),
            left_hand=(-0.4, -0.2, 0.9),
            weapon=(0.1, 0.2, 0.0),
        )
    out = ease(0.3 + 1.4 * share)
    if strike.style == "slam":
        pose = shifted(rest, hips=(0.0, 0.0, -0.26), chest_turn=(0.0, 0.75, 0.0), head_turn=(0.0, -0.4, 0.0))
        return key(
            _wide(pose),
            right_hand=(0.12, 0.5, 0.75 - 0.25 * out),
            left_hand=(-0.12, 0.5, 0.8 - 0.25 * out),
            weapon=(0.0, -1.45 + 0.25 * (1.0 - out), 0.0),
        )
    if strike.style == "ram":
        pose = shifted(_lunge(rest, 0.55), chest_turn=(0.5, 0.55, 0.3), hips=(0.0, 0.12 * out, -0.06))
        return key(pose, right_hand=(0.3, 0.1, 0.95), left_hand=(-0.1, 0.45, 1.05), weapon=(-1.9, 0.1, 0.0))
    if strike.style == "grab":
        pose = shifted(_lunge(rest, 0.6), chest_turn=(-0.6, 0.45, 0.0))
        return key(pose, right_hand=(0.4, -0.25, 0.9), left_hand=(-0.05, 0.9, 1.1), weapon=(-2.4, -0.3, 0.0))
    if strike.style == "breath":
        return shifted(_lunge(rest, 0.3), chest_turn=(0.0, 0.3, 0.0), head_turn=(0.0, -0.15, 0.0))
    # burst: everything thrown open
    pose = shifted(_wide(rest), chest_turn=(0.0, -0.55, 0.0), head_turn=(0.0, -0.5, 0.0), hips=(0.0, 0.0, 0.03 * out))
    return key(pose, right_hand=(0.75, 0.05, 1.35), left_hand=(-0.75, 0.05, 1.35), weapon=(-1.4, 0.5, 0.0))


def cocked(rest: Pose, strike: Strike) -> Pose:  # noqa: PLR0911 - one way of winding up each
    """Return the pose at the end of the wind-up, in which the strike waits."""
    side = strike.side
    if strike.style in ("sweep", "charge"):
        twist = min(0.55 * strike.half_rad, 0.8) * side
        pose = shifted(
            rest, hips=(0.0, -0.08, -0.1), hips_turn=(0.5 * twist, 0.0, 0.0), chest_turn=(twist + 0.25 * side, 0.1, 0.0)
        )
        pose = shifted(pose, head_turn=(-1.3 * twist, 0.0, 0.0))
        hand = (-0.42 * side, -0.1, 1.12) if side > 0 else (0.55, -0.18, 1.15)
        other = (-0.5, 0.1, 0.95) if side > 0 else (-0.15, 0.35, 1.05)
        return key(
            _turned_whole(pose, strike.face_rad),
            right_hand=hand,
            left_hand=other,
            weapon=(side * (1.75 + 0.25 * strike.half_rad), 0.35, side * 1.2),
        )
    if strike.style == "spin":
        pose = shifted(
            rest, hips=(0.0, 0.0, -0.24), hips_turn=(0.4 * side, 0.1, 0.0), chest_turn=(0.9 * side, 0.25, 0.0)
        )
        return key(
            _wide(pose),
            right_hand=(-0.3 * side + 0.12, -0.05, 0.72),
            left_hand=(-0.3, 0.0, 0.75),
            weapon=(side * 2.5, -0.15, side * 1.5),
        )
    if strike.style in ("overhead", "leap"):
        pose = shifted(rest, hips=(0.0, -0.06, 0.0), chest_turn=(0.0, -0.38, 0.0), head_turn=(0.0, 0.2, 0.0))
        return key(pose, right_hand=(0.16, -0.06, 1.78), left_hand=(-0.2, 0.0, 1.6), weapon=(0.0, 2.25, 0.0))
    if strike.style == "thrust":
        pose = shifted(rest, hips=(0.0, -0.2, -0.16), hips_turn=(-0.5, 0.0, 0.0), chest_turn=(-0.7, 0.1, 0.0))
        pose = shifted(pose, head_turn=(1.1, -0.05, 0.0), right_foot=(0.0, -0.25, 0.0), left_foot=(0.0, 0.15, 0.0))
        return key(pose, right_hand=(0.3, -0.45, 1.12), left_hand=(-0.2, 0.4, 1.1), weapon=(0.04, -0.04, 0.0))
    if strike.style == "throw":
        pose = shifted(rest, chest_turn=(-0.9, -0.15, 0.0), head_turn=(0.8, 0.0, 0.0), hips=(0.0, -0.1, -0.05))
        return key(pose, right_hand=(0.5, -0.35, 1.6), left_hand=(-0.3, 0.55, 1.35), weapon=(0.0, 1.9, 0.0))
    if strike.style == "slam":
        pose = shifted(rest, hips=(0.0, 0.0, 0.03), chest_turn=(0.0, -0.4, 0.0), head_turn=(0.0, -0.3, 0.0))
        return key(_wide(pose), right_hand=(0.14, 0.1, 1.85), left_hand=(-0.14, 0.1, 1.8), weapon=(0.0, -1.35, 0.0))
    if strike.style == "ram":
        pose = shifted(rest, hips=(0.0, -0.2, -0.22), chest_turn=(-0.5, 0.5, -0.2), head_turn=(0.4, -0.35, 0.0))
        return key(pose, right_hand=(0.45, -0.3, 0.8), left_hand=(-0.2, 0.3, 0.95), weapon=(-2.3, -0.1, 0.0))
    if strike.style == "grab":
        pose = shifted(rest, hips=(0.0, -0.12, -0.12), chest_turn=(0.8, 0.15, 0.0), head_turn=(-0.7, 0.0, 0.0))
        return key(pose, right_hand=(0.45, 0.1, 0.85), left_hand=(-0.65, -0.3, 1.35), weapon=(-1.2, -0.5, 0.0))
    if strike.style == "breath":
        pose = shifted(rest, hips=(0.0, -0.15, 0.0), chest_turn=(0.0, -0.5, 0.0), head_turn=(0.0, -0.45, 0.0))
        return _wide(pose)
    pose = shifted(rest, hips=(0.0, 0.0, -0.3), chest_turn=(0.0, 0.8, 0.0), head_turn=(0.0, 0.4, 0.0))
    return key(_wide(pose), right_hand=(0.2, 0.25, 0.75), left_hand=(-0.2, 0.25, 0.75), weapon=(-0.9, -0.2, 0.0))


def _reaching(build: Build, rest: Pose, strike: Strike, share: float) -> Pose:
    """Return the pose whose weapon ends where the tip has to be."""
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
    # The hand goes out as far as is left when the weapon has its own length.
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


def _turned_whole(pose: Pose, face_rad: float) -> Pose:
    """Turn the whole body for a blow that goes to its side or back."""
    if abs(face_rad) > MOST_TWIST_RAD:
        pose[TUMBLE, 1] = 0.25 * face_rad
    return pose


def _lunge(rest: Pose, step: float) -> Pose:
    pose = rest.copy()
    pose[HIPS] += (0.0, 0.35 * step, -0.25 * step)
    pose[LEFT_FOOT, 1] += 0.7 * step
    pose[RIGHT_FOOT, 1] -= 0.6 * step
    return pose


def _wide(pose: Pose) -> Pose:
    return shifted(pose, right_foot=(0.1, 0.0, 0.0), left_foot=(-0.1, 0.0, 0.0))
