"""Relative features: a duel in a coordinate system of the player, invariant under turns and shifts of the whole duel.

The origin is the player's position; the first axis points from the player to the boss ("ahead"), the second a quarter
turn to the left of that, seen from above. With u the unit vector from player to boss, a vector v has the components

    ahead = v . u,        left = v . (-u_y, u_x)

(the arena's "right" of a direction (x, y) is (y, -x), see `soulslab.arena.player_rules`). The components of a direction
are the cosine and the sine of its angle to u. The boss's facing is expressed in the boss's own system, whose first axis
points at the player, so that a cosine of 1 means for both that one faces the other. If both have the same position,
"ahead" is the player's facing.

Health, stamina, animations and their times are those of `soulslab.arena.features`.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.arena.duel_state import MAX_ANIMATION_S
from soulslab.arena.features import BOSS_BINS, PLAYER_BINS, animation_time, write_animations
from soulslab.arena.geometry import direction
from soulslab.arena.kernel import kernel, rule
from soulslab.arena.records import Record

#: Unit of lengths, in m.
LENGTH_M = 10.0
#: Lower bound of the distance inside the logarithm, in m; bodies never come this close.
LEAST_DISTANCE_M = 0.1
#: The logarithm is divided by this: from 0.1 m to 200 m it goes from -1.2 to 2.7.
LOG_UNIT = 2.0


class RelativeFeature(msgspec.Struct, frozen=True):
    """Description of a feature that is not part of an animation's one-hot vector, and its unit or meaning."""

    name: str
    unit: str
    doc: str


RELATIVE_SCALARS = (
    RelativeFeature("player_hp", "share", "player's health"),
    RelativeFeature("player_sp", "share", "player's stamina"),
    RelativeFeature("boss_hp", "share", "boss's health"),
    RelativeFeature("distance", "10 m", "from player to boss, on the ground"),
    RelativeFeature(
        "log_distance", "half of ln(m)", "half of the natural logarithm of the distance in m, at least 0.1 m"
    ),
    RelativeFeature("player_facing_cos", "cosine", "player's facing relative to the direction to the boss; 1: to it"),
    RelativeFeature("player_facing_sin", "sine", "the same; 1: faces a quarter turn to the left of the boss"),
    RelativeFeature("boss_facing_cos", "cosine", "boss's facing relative to the direction to the player; 1: to it"),
    RelativeFeature("boss_facing_sin", "sine", "the same; 1: faces a quarter turn to the left of the player"),
    RelativeFeature("camera_view_cos", "cosine", "camera's view relative to the direction from player to boss"),
    RelativeFeature("camera_view_sin", "sine", "the same; 1: a quarter turn to the left"),
    RelativeFeature("place_ahead", "half the ground", "from the ground's centre to the player, towards the boss"),
    RelativeFeature("place_left", "half the ground", "the same, to the left of the direction to the boss"),
    RelativeFeature("place_distance", "half the ground", "from the ground's centre to the player"),
    RelativeFeature("player_height", "10 m", "height of the player above the floor"),
    RelativeFeature("player_animation_duration", "s", "time since the player's animation began, at most 10"),
    RelativeFeature("boss_animation_duration", "s", "the same for the boss; continues between walks and turns"),
)
"""The features before the animations, in order; "half the ground" is half the smaller extent of its limits."""

#: Names of the features, in order.
RELATIVE_NAMES = (
    *(feature.name for feature in RELATIVE_SCALARS),
    *(f"player_animation={name}" for name in PLAYER_BINS),
    *(f"boss_animation={name}" for name in BOSS_BINS),
)
N_RELATIVE = len(RELATIVE_NAMES)
_DISTANCE, _PLAYER = RELATIVE_NAMES.index("distance"), RELATIVE_NAMES.index("player_facing_cos")
_BOSS, _CAMERA = RELATIVE_NAMES.index("boss_facing_cos"), RELATIVE_NAMES.index("camera_view_cos")
_PLACE, _HEIGHT = RELATIVE_NAMES.index("place_ahead"), RELATIVE_NAMES.index("player_height")
_ANIMATIONS = RELATIVE_NAMES.index("player_animation_duration")


def relative_bounds(
    low: NDArray[np.float64], extent: NDArray[np.float64], floor: float
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the least and the greatest value of each feature, (F,) float32 each, for one ground; lengths are in m."""
    farthest = math.hypot(extent[0], extent[1])
    place = farthest / min(extent[0], extent[1])
    lowest, highest = (low[2] - floor) / LENGTH_M, (low[2] + extent[2] - floor) / LENGTH_M
    bounds = dict.fromkeys(RELATIVE_NAMES, (0.0, 1.0))
    bounds |= {name: (-1.0, 1.0) for name in RELATIVE_NAMES if name.endswith(("_sin", "_cos"))}
    bounds |= {
        "distance": (0.0, farthest / LENGTH_M),
        "log_distance": (_log(0.0), _log(farthest)),
        "place_ahead": (-place, place),
        "place_left": (-place, place),
        "place_distance": (0.0, place),
        "player_height": (lowest, highest),
        "player_animation_duration": (0.0, MAX_ANIMATION_S),
        "boss_animation_duration": (0.0, MAX_ANIMATION_S),
    }
    both = np.array([bounds[name] for name in RELATIVE_NAMES], np.float32)
    return both[:, 0].copy(), both[:, 1].copy()


@kernel
def _log(distance: float) -> float:
    return math.log(max(distance, LEAST_DISTANCE_M)) / LOG_UNIT


@rule
def _parts(x: float, y: float, ux: float, uy: float) -> tuple[float, float]:
    """Return the components of (x, y) along the unit vector (ux, uy) and to the left of it."""
    return x * ux + y * uy, y * ux - x * uy


@kernel
def write_relative(d: Record, f: Record, out: NDArray[np.float32]) -> None:
    """Write the features of a duel without computing angles (see `relative_of_state` for states of other sources)."""
    out[:] = 0.0
    out[0], out[1], out[2] = d.p_hp / f.p_max_hp, d.p_sp / f.p_max_sp, d.b_hp / f.b_max_hp
    ux, uy, distance = direction(d.b_x - d.p_x, d.b_y - d.p_y, d.p_fx, d.p_fy)
    out[_DISTANCE], out[_DISTANCE + 1] = distance / LENGTH_M, _log(distance)
    out[_PLAYER], out[_PLAYER + 1] = _parts(d.p_fx, d.p_fy, ux, uy)
    out[_BOSS], out[_BOSS + 1] = _parts(d.b_fx, d.b_fy, -ux, -uy)
    out[_CAMERA], out[_CAMERA + 1] = _parts(d.c_fx, d.c_fy, ux, uy)
    low, extent = f.low, f.extent
    half = 0.5 * min(extent[0], extent[1])
    x, y = (d.p_x - low[0] - 0.5 * extent[0]) / half, (d.p_y - low[1] - 0.5 * extent[1]) / half
    out[_PLACE], out[_PLACE + 1] = _parts(x, y, ux, uy)
    out[_PLACE + 2] = math.sqrt(x * x + y * y)
    out[_HEIGHT] = (d.p_z - f.floor) / LENGTH_M
    write_animations(out, _ANIMATIONS, d.p_anim, animation_time(d.p_ticks), d.b_anim, animation_time(d.b_bin_ticks))


@kernel
def relative_of_state(
    s: Record,
    low: NDArray[np.float64],
    extent: NDArray[np.float64],
    floor: float,
    out: NDArray[np.float32],
) -> None:
    """Write the features of a `DUEL_STATE` record from any source; lengths of the ground are in m."""
    out[:] = 0.0
    out[0], out[1] = s.player_hp / s.player_max_hp, s.player_sp / s.player_max_sp
    out[2] = s.boss_hp / s.boss_max_hp
    p, b, c = s.player_pose, s.boss_pose, s.camera_pose
    # The direction of a pose with the angle a is (-sin a, -cos a) (see `soulslab.arena.records`).
    px, py, bx, by = -math.sin(p[3]), -math.cos(p[3]), -math.sin(b[3]), -math.cos(b[3])
    ux, uy, distance = direction(b[0] - p[0], b[1] - p[1], px, py)
    out[_DISTANCE], out[_DISTANCE + 1] = distance / LENGTH_M, _log(distance)
    out[_PLAYER], out[_PLAYER + 1] = _parts(px, py, ux, uy)
    out[_BOSS], out[_BOSS + 1] = _parts(bx, by, -ux, -uy)
    norm = math.sqrt(c[3] * c[3] + c[4] * c[4])
    if norm > 0.0:
        out[_CAMERA], out[_CAMERA + 1] = _parts(c[3] / norm, c[4] / norm, ux, uy)
    half = 0.5 * min(extent[0], extent[1])
    x, y = (p[0] - low[0] - 0.5 * extent[0]) / half, (p[1] - low[1] - 0.5 * extent[1]) / half
    out[_PLACE], out[_PLACE + 1] = _parts(x, y, ux, uy)
    out[_PLACE + 2] = math.sqrt(x * x + y * y)
    out[_HEIGHT] = (p[2] - floor) / LENGTH_M
    write_animations(
        out, _ANIMATIONS, s.player_animation, s.player_animation_duration, s.boss_animation, s.boss_bin_duration
    )
