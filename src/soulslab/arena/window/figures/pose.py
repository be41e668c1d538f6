"""Poses: the state of a body at one moment, as an array of (rows, 3) with the rows `Row`.

A pose defines the positions of hands and feet and the rotations of trunk, head and weapons; `rig` computes elbows and
knees. Blending two poses is a weighted mean, so an animation consists of a few key poses.

Positions are in units of the body's scale (a man of 1.8 m has a height of 1.8), angles in rad.
"""

from __future__ import annotations

import math
from enum import IntEnum
from pathlib import Path
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.arena.blow import ease
from soulslab.config.loading import read_toml

Pose: TypeAlias = NDArray[np.float64]
Triple: TypeAlias = tuple[float, float, float]


class Row(IntEnum):
    """Rows of a pose. Hands, feet, hips and tip are positions; the others are explained here.

    Attributes:
        TUMBLE: Rotation of the whole body forwards (pitch) and to the left (yaw), and its lift.
        HIPS_TURN: Yaw to the left, pitch forwards, roll to the right; so are ``CHEST_TURN`` (relative to the hips) and
            ``HEAD_TURN`` (relative to the chest).
        WEAPON: Yaw and elevation of its direction, and roll of the edge; so is ``OFFHAND``.
        TIP: Position of the weapon's tip, which replaces ``WEAPON`` by the weight in ``EXTRA``.
        EXTRA: Weight of the second hand on the weapon (0 to 1), lift of cape or tail (rad), weight of ``TIP`` (0 to 1).
    """

    TUMBLE = 0
    HIPS = 1
    HIPS_TURN = 2
    CHEST_TURN = 3
    HEAD_TURN = 4
    RIGHT_HAND = 5
    LEFT_HAND = 6
    RIGHT_FOOT = 7
    LEFT_FOOT = 8
    WEAPON = 9
    OFFHAND = 10
    TIP = 11
    EXTRA = 12


_ROW_OF = {row.name.lower(): row for row in Row}


def key(base: Pose | None = None, **rows: Triple) -> Pose:
    """Return a key pose: a base pose (zeros if None) with some rows replaced, by their names."""
    pose = base.copy() if base is not None else np.zeros((len(Row), 3))
    for name, row in rows.items():
        pose[_ROW_OF[name]] = row
    return pose


def read_poses(file: str) -> dict[str, Pose]:
    """Read key poses from a TOML file in this folder; each has the rows of its ``base`` unless it has its own."""
    found: dict[str, Pose] = {}
    for name, rows in read_toml(Path(__file__).parent / file).items():
        base = rows.pop("base", "")
        found[name] = key(found[base] if base else None, **rows)
    return found


def shifted(base: Pose, **rows: Triple) -> Pose:
    """Return a pose with offsets added to some rows, by their names."""
    pose = base.copy()
    for name, row in rows.items():
        pose[_ROW_OF[name]] += row
    return pose


def lunge(rest: Pose, step: float) -> Pose:
    """Return a pose with a step forward."""
    pose = rest.copy()
    pose[Row.HIPS] += (0.0, 0.35 * step, -0.25 * step)
    pose[Row.LEFT_FOOT, 1] += 0.7 * step
    pose[Row.RIGHT_FOOT, 1] -= 0.6 * step
    return pose


class PosePattern(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes of a rest pose: rows that are added and rows that are replaced.

    The rows of ``shift_by`` and ``key_by`` are multiplied by a factor and added. ``lunge`` is a step forward;
    ``is_wide`` spreads the feet, and ``is_one_handed`` takes the second hand from the weapon.
    """

    shift: dict[str, Triple] = {}
    shift_by: dict[str, Triple] = {}
    key: dict[str, Triple] = {}
    key_by: dict[str, Triple] = {}
    lunge: float = 0.0
    is_wide: bool = False
    is_one_handed: bool = False

    def of(self, rest: Pose, factor: float = 0.0) -> Pose:
        """Return the pose for a rest pose and the factor of the rows that depend on one."""
        pose = shifted(lunge(rest, self.lunge), **_sum(self.shift, self.shift_by, factor))
        if self.is_wide:
            pose = shifted(pose, right_foot=(0.1, 0.0, 0.0), left_foot=(-0.1, 0.0, 0.0))
        pose = key(pose, **_sum(self.key, self.key_by, factor))
        if self.is_one_handed:
            pose[Row.EXTRA, 0] = 0.0
        return pose


def _sum(rows: dict[str, Triple], others: dict[str, Triple], factor: float) -> dict[str, Triple]:
    """Return rows plus a multiple of other rows."""
    found = dict(rows)
    for name, (x, y, z) in others.items():
        x0, y0, z0 = rows.get(name, (0.0, 0.0, 0.0))
        found[name] = (x0 + factor * x, y0 + factor * y, z0 + factor * z)
    return found


def read_patterns(file: str, part: str) -> dict[str, PosePattern]:
    """Read the pose patterns of a part of a TOML file in this folder."""
    return msgspec.convert(read_toml(Path(__file__).parent / file)[part], dict[str, PosePattern])


def blend(first: Pose, second: Pose, share: float) -> Pose:
    """Return the pose between two poses, at a share of 0 to 1."""
    if share <= 0.0:
        return first
    if share >= 1.0:
        return second
    return first + (second - first) * share


def play(keys: list[tuple[float, Pose]], moment: float) -> Pose:
    """Return the pose at a moment between keys (moment, pose), which are in order, with smooth starts and ends."""
    before, pose = keys[0]
    for after, following in keys:
        if moment < after:
            if after <= before:
                return pose
            return blend(pose, following, ease((moment - before) / (after - before)))
        before, pose = after, following
    return pose


def breathe(base: Pose, tick: int, period_s: float, strength: float = 1.0) -> Pose:
    """Return a breathing pose: chest, hands and hips rise and sink slightly."""
    breath = math.sin(tick * (2.0 * math.pi / (60.0 * period_s))) * strength
    pose = base.copy()
    pose[Row.HIPS, 2] += 0.008 * breath
    pose[Row.CHEST_TURN, 1] += 0.02 * breath
    pose[Row.RIGHT_HAND, 2] += 0.018 * breath
    pose[Row.LEFT_HAND, 2] += 0.014 * breath
    pose[Row.WEAPON, 1] += 0.03 * breath
    return pose


def foot_of(phase: float, stride: float, lift: float) -> tuple[float, float]:
    """Return the distance ahead and the height of a foot in a step; ``stride`` is the length of one cycle.

    In the first half of the phase (0 to 1) the foot is on the ground and moves back as fast as the body moves ahead.
    """
    reach = stride / 4.0
    if phase < 0.5:
        return reach * (1.0 - 4.0 * phase), 0.0
    swing = 2.0 * phase - 1.0
    return -reach + 2.0 * reach * ease(swing), lift * math.sin(math.pi * swing)


def walk(base: Pose, phase: float, way_rad: float, stride: float, *, lift: float = 0.14) -> Pose:
    """Return a walking pose; ``phase`` is in cycles of length ``stride``, ``way_rad`` is to the left of "ahead"."""
    pose = base.copy()
    ahead, aside = math.cos(way_rad), -math.sin(way_rad)
    phase %= 1.0
    for row, offset in ((Row.RIGHT_FOOT, 0.0), (Row.LEFT_FOOT, 0.5)):
        along, height = foot_of((phase + offset) % 1.0, stride, lift)
        pose[row, 0] = 0.75 * base[row, 0] + aside * along
        pose[row, 1] = 0.3 * base[row, 1] + ahead * along
        pose[row, 2] = base[row, 2] + height
    swing = math.cos(2.0 * math.pi * phase)
    bob = abs(math.sin(2.0 * math.pi * phase))
    pose[Row.HIPS, 2] += 0.035 * bob - 0.05
    pose[Row.HIPS_TURN, 0] += 0.14 * swing * ahead
    pose[Row.CHEST_TURN, 0] -= 0.22 * swing * ahead
    pose[Row.CHEST_TURN, 1] += 0.12 * ahead
    pose[Row.CHEST_TURN, 2] += 0.08 * aside
    pose[Row.RIGHT_HAND, 1] -= 0.1 * swing * ahead
    pose[Row.LEFT_HAND, 1] += 0.07 * swing * ahead
    pose[Row.RIGHT_HAND, 2] += 0.02 * bob
    pose[Row.EXTRA, 1] += 0.4 * ahead + 0.1 * bob
    return pose
