"""Builds of the bosses: their proportions and rest poses."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from soulslab.arena.boss_file import Boss
from soulslab.arena.window.figures.pose import Pose, key
from soulslab.arena.window.figures.rig import Build
from soulslab.arena.window.figures.strike_styles import BEAST_RADIUS_M

Kind: TypeAlias = Literal["judge", "beast", "trickster"]


class Figure(msgspec.Struct, frozen=True):
    """Appearance and posture of a boss.

    Attributes:
        kind: Kind of its meshes.
        build: Proportions.
        rest: Rest pose.
        stride: Stride of its walk, in units of its scale.
        breath_s: Period of its breath.
    """

    kind: Kind
    build: Build
    rest: Pose
    stride: float
    breath_s: float


def figure_of(boss: Boss) -> Figure:
    """Return a boss's figure, derived from its size and moves, as boss files do not describe appearance."""
    if boss.radius_m > BEAST_RADIUS_M:
        return _beast(boss.radius_m / 1.6)
    if any(window.projectile is not None for move in boss.moves for window in move.windows):
        return _trickster(boss.radius_m / 0.6)
    return _judge(boss.radius_m / 0.9)


def _judge(size: float) -> Figure:
    build = Build(
        scale_m=1.85 * size,
        shoulder_width=0.27,
        weapon=1.3,
        second_grip=0.42,
        choke=0.95,
        cape_at=(-0.14, 0.4),
        upper_arm=0.33,
        forearm=0.33,
    )
    rest = key(
        hips=(0.0, 0.0, 0.91),
        hips_turn=(-0.35, 0.03, 0.0),
        chest_turn=(-0.2, 0.05, 0.0),
        head_turn=(0.5, 0.05, 0.0),
        right_hand=(0.42, 0.14, 0.92),
        left_hand=(-0.15, 0.3, 1.05),
        right_foot=(0.22, -0.2, 0.0),
        left_foot=(-0.18, 0.2, 0.0),
        weapon=(0.5, 0.95, 0.0),
        offhand=(0.3, 0.0, 0.0),
        tip=(0.0, 1.6, 1.0),
        extra=(1.0, 0.05, 0.0),
    )
    return Figure("judge", build, rest, 1.15, 3.0)


def _trickster(size: float) -> Figure:
    build = Build(
        scale_m=1.42 * size,
        thigh=0.5,
        shin=0.48,
        hip_width=0.09,
        trunk=0.46,
        shoulder_width=0.2,
        upper_arm=0.34,
        forearm=0.35,
        weapon=0.95,
        choke=0.1,
        cape_at=(-0.1, 0.38),
        elbows=1.0,
    )
    rest = key(
        hips=(0.0, -0.02, 0.88),
        hips_turn=(-0.3, 0.12, 0.0),
        chest_turn=(-0.15, 0.3, 0.0),
        head_turn=(0.4, -0.25, 0.12),
        right_hand=(0.5, 0.22, 0.92),
        left_hand=(-0.44, 0.3, 1.02),
        right_foot=(0.2, -0.26, 0.0),
        left_foot=(-0.16, 0.26, 0.0),
        weapon=(-0.3, -0.2, 0.6),
        offhand=(0.9, -0.1, -0.6),
        tip=(0.0, 1.2, 0.9),
        extra=(0.0, 0.08, 0.0),
    )
    return Figure("trickster", build, rest, 1.5, 1.8)


def _beast(size: float) -> Figure:
    """Return a hunched giant that walks on short legs and its left fist, and drags a mace with its right hand."""
    build = Build(
        scale_m=1.75 * size,
        thigh=0.38,
        shin=0.36,
        hip_width=0.24,
        trunk=0.72,
        neck=-0.06,
        shoulder_width=0.46,
        upper_arm=0.5,
        forearm=0.52,
        weapon=0.95,
        choke=0.2,
        pivot=0.6,
        cape_at=(-0.24, -0.02),
        has_tail=True,
        elbows=1.0,
    )
    rest = key(
        hips=(0.0, -0.34, 0.72),
        hips_turn=(0.0, 0.45, 0.0),
        chest_turn=(0.0, 0.45, 0.0),
        head_turn=(0.0, -0.8, 0.0),
        right_hand=(0.72, 0.3, 0.5),
        left_hand=(-0.62, 0.5, 0.1),
        right_foot=(0.34, -0.5, 0.0),
        left_foot=(-0.34, -0.3, 0.0),
        weapon=(-0.5, -0.42, 0.0),
        offhand=(0.0, -1.3, 0.0),
        tip=(0.0, 1.2, 0.6),
        extra=(0.0, 0.3, 0.0),
    )
    return Figure("beast", build, rest, 1.1, 2.4)
