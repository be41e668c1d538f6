"""The ground of a fight, as far as the fighters showed it: its size, its height, its cliff and the start poses."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from soulslab.arena.boss_file import MAX_START_POSES, Ground, Pose
from soulslab.arena.fitting.recorded_fight import RecordedFight

#: Margin of the limits of positions around the floor: the camera is behind the player.
MARGIN_M, DEPTH_M, HEIGHT_M = 12.0, 6.0, 10.0
#: Width of a cliff that is assumed around the falls.
CLIFF_RAD = 1.2
#: A fall is at least this deep.
FALL_M = 1.0
#: Greatest radius of a fitted ground.
MAX_RADIUS_M = 90.0
#: No fighter moves so far between two moments.
STRAY_M = 10.0
#: Fights begin at least this far from the edge.
INSIDE_M = 1.5

_log = logging.getLogger(__name__)


def fit_ground(fights: Sequence[RecordedFight]) -> Ground:
    """Return the smallest round floor that contains all recorded positions."""
    places, falls = [], []
    floor = float(np.median(np.concatenate([fight.moments["player_z"] for fight in fights])))
    for fight in fights:
        m = fight.moments
        is_falling = m["player_z"] < floor - FALL_M
        for who in ("player", "boss"):
            xy = np.stack([m[f"{who}_x"], m[f"{who}_y"]], axis=1)
            places.append(xy[~is_falling & ~_is_stray(xy)])
        if is_falling.any():
            first = int(np.argmax(is_falling))
            falls.append((float(m["player_x"][first]), float(m["player_y"][first])))
    (x, y), radius = cv2.minEnclosingCircle(np.concatenate(places).astype(np.float32))
    if radius > MAX_RADIUS_M:
        _log.warning(
            "the positions are up to %.0f m apart, and a ground may have a radius of %.0f m; record only the fight, or "
            "name the boss of the ground (--ground)",
            2 * radius,
            MAX_RADIUS_M,
        )
    radius = min(max(float(radius), 4.0), MAX_RADIUS_M)
    centre = (round(float(x), 3), round(float(y), 3))
    sides = [np.arctan2(fy - y, fx - x) for fx, fy in falls]
    cliff, width = 0.0, 0.0
    if sides:
        cliff = float(np.arctan2(np.sin(sides).mean(), np.cos(sides).mean()))
        off = np.abs(np.arctan2(np.sin(np.array(sides) - cliff), np.cos(np.array(sides) - cliff)))
        width = float(min(2 * off.max() + CLIFF_RAD / len(sides) + 0.2, 6.28))

    def pose(fight: RecordedFight, who: str) -> Pose:
        first = fight.moments[0]
        way = np.array([first[f"{who}_x"] - centre[0], first[f"{who}_y"] - centre[1]])
        way *= min(1.0, max(radius - INSIDE_M, 0.0) / max(float(np.hypot(*way)), 1e-9))
        px, py = np.round(way + centre, 3)
        return float(px), float(py), round(floor, 3), round(float(first[f"{who}_angle"]), 3)

    poses = list(dict.fromkeys(pose(fight, "player") for fight in fights))
    limit = round(radius + MARGIN_M, 1)
    return Ground(
        limits_m=(
            (centre[0] - limit, centre[0] + limit),
            (centre[1] - limit, centre[1] + limit),
            (round(floor - DEPTH_M, 2), round(floor + HEIGHT_M, 2)),
        ),
        centre_m=centre,
        radius_m=round(radius, 3),
        floor_m=round(floor, 3),
        cliff_rad=round(cliff, 3),
        cliff_width_rad=round(width, 3),
        reward_centre_m=centre,
        player_pose=poses[0],
        player_poses_random=tuple(poses[:MAX_START_POSES]),
        boss_pose=pose(fights[0], "boss"),
    )


def _is_stray(xy: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which positions, (N, 2), are far from both neighbours, which are near each other: values of a moment."""
    step = np.hypot(*np.diff(xy, axis=0).T) > STRAY_M
    found = np.zeros(len(xy), np.bool_)
    if len(xy) > 2:
        found[1:-1] = step[:-1] & step[1:] & (np.hypot(*(xy[2:] - xy[:-2]).T) < STRAY_M)
    return found
