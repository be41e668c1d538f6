"""The 74 features that agents are trained on, computed from the state of a duel.

Layout and scaling are those of SoulsAI (MIT), so that one policy works in the arena and in the real game: health and
stamina as shares, the distance divided by 50 m, positions normalised by the limits of the ground, angles as sine and
cosine, the two animation times, and the animations one-hot. Animations with the same meaning share a bin. The boss's
walks and turns share one bin, and the time of that bin continues when one walk or turn follows another.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from soulslab.arena.duel_state import CAMERA_BACK_M, CAMERA_UP_M, MAX_ANIMATION_S
from soulslab.arena.kernel import kernel, rule
from soulslab.arena.knight_file import load_knight
from soulslab.arena.records import TICKS_PER_S, Record, Table
from soulslab.arena.vocabulary import BOSS_ANIMATIONS

_SCALARS = (
    "player_hp",
    "player_sp",
    "boss_hp",
    "distance",
    "player_x",
    "player_y",
    "player_z",
    "player_sin",
    "player_cos",
    "boss_x",
    "boss_y",
    "boss_z",
    "boss_sin",
    "boss_cos",
    "camera_sin",
    "camera_cos",
    "player_animation_duration",
    "boss_animation_duration",
)


def _player_bin(name: str) -> str:
    """Return the bin of a player animation; animations with the same meaning share a bin."""
    if name in {"Idle", "Move", "None"} or name.startswith("RunStop"):
        return "Move"
    prefixes = ("AddDamage", "QuickTurn", "LandFace", "Land", "Fall")
    return next((prefix for prefix in prefixes if name.startswith(prefix)), name)


def _boss_bin(name: str) -> str:
    """Return the bin of a boss animation; walks and turns share a bin."""
    return "Walk" if name.startswith(("Walk", "TurnBattle")) else name


def _bins(names: list[str]) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Return the distinct bins in the order of their first use, and the bin number of each name."""
    bins = tuple(dict.fromkeys(names))
    return bins, np.array([bins.index(name) for name in names], dtype=np.int64)


PLAYER_BINS, PLAYER_BIN = _bins([_player_bin(name) for name in load_knight().animations])
BOSS_BINS, BOSS_BIN = _bins([_boss_bin(name) for name in BOSS_ANIMATIONS])

#: Names of the features, in order.
FEATURE_NAMES = (
    *_SCALARS,
    *(f"player_animation={name}" for name in PLAYER_BINS),
    *(f"boss_animation={name}" for name in BOSS_BINS),
)
N_FEATURES = len(FEATURE_NAMES)
_ANIMATIONS = FEATURE_NAMES.index("player_animation_duration")
_N_PLAYER_BINS = len(PLAYER_BINS)

_HIGH = {
    "distance": 4.0,
    "player_animation_duration": MAX_ANIMATION_S,
    "boss_animation_duration": MAX_ANIMATION_S,
}


def feature_bounds() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the least and the greatest value of each feature, two (F,) float32 arrays."""
    low = [-1.0 if name.endswith(("_sin", "_cos")) else 0.0 for name in FEATURE_NAMES]
    high = [_HIGH.get(name, 1.0) for name in FEATURE_NAMES]
    return np.array(low, dtype=np.float32), np.array(high, dtype=np.float32)


# The camera looks slightly downwards.
CAMERA_COS, CAMERA_SIN = math.cos(0.3), math.sin(0.3)


@rule
def animation_time(ticks: int) -> float:
    """Return a number of ticks in seconds, at most `MAX_ANIMATION_S`."""
    return min(ticks / TICKS_PER_S, MAX_ANIMATION_S)


@kernel
def write_state(d: Record, f: Record, s: Record) -> None:
    """Write a duel as a `DUEL_STATE` record."""
    s.phase = d.phase
    s.player_hp, s.player_max_hp = d.p_hp, int(f.p_max_hp)
    s.player_sp, s.player_max_sp = d.p_sp, int(f.p_max_sp)
    s.boss_hp, s.boss_max_hp = d.b_hp, int(f.b_max_hp)
    p, b, c = s.player_pose, s.boss_pose, s.camera_pose
    p[0], p[1], p[2], p[3] = d.p_x, d.p_y, d.p_z, math.atan2(-d.p_fx, -d.p_fy)
    b[0], b[1], b[2], b[3] = d.b_x, d.b_y, f.floor, math.atan2(-d.b_fx, -d.b_fy)
    c[0], c[1], c[2] = d.p_x - CAMERA_BACK_M * d.c_fx, d.p_y - CAMERA_BACK_M * d.c_fy, d.p_z + CAMERA_UP_M
    c[3], c[4], c[5] = d.c_fx * CAMERA_COS, d.c_fy * CAMERA_COS, -CAMERA_SIN
    s.player_animation, s.player_animation_duration = d.p_anim, animation_time(d.p_ticks)
    s.boss_animation, s.boss_animation_duration = d.b_anim, animation_time(d.b_anim_ticks)
    s.boss_bin_duration = animation_time(d.b_bin_ticks)
    s.lock_on = d.lock_on


@kernel
def write_states(duels: Table, fights: Table, states: Table) -> None:
    """Write duels (N,) as `DUEL_STATE` records (N,), given the rules of the fights (K,)."""
    for i in range(duels.shape[0]):
        write_state(duels[i], fights[duels[i].fight], states[i])


@kernel
def write_features(d: Record, f: Record, out: NDArray[np.float32]) -> None:
    """Write the features of a duel without computing angles (see `features_of_state` for states of other sources)."""
    out[:] = 0.0
    out[0], out[1], out[2] = d.p_hp / f.p_max_hp, d.p_sp / f.p_max_sp, d.b_hp / f.b_max_hp
    dx, dy = d.b_x - d.p_x, d.b_y - d.p_y
    out[3] = math.sqrt(dx * dx + dy * dy) / 50.0
    low, extent = f.low, f.extent
    out[4], out[5] = (d.p_x - low[0]) / extent[0], (d.p_y - low[1]) / extent[1]
    out[6] = (d.p_z - low[2]) / extent[2]
    out[7], out[8] = -d.p_fx, -d.p_fy
    out[9], out[10] = (d.b_x - low[0]) / extent[0], (d.b_y - low[1]) / extent[1]
    out[11] = (f.floor - low[2]) / extent[2]
    out[12], out[13] = -d.b_fx, -d.b_fy
    out[14], out[15] = d.c_fx, d.c_fy
    write_animations(out, _ANIMATIONS, d.p_anim, animation_time(d.p_ticks), d.b_anim, animation_time(d.b_bin_ticks))


@rule
def write_animations(
    out: NDArray[np.float32],
    first: int,
    player: int,
    player_s: float,
    boss: int,
    boss_s: float,
) -> None:
    """Write both animation times and both one-hot vectors from ``out[first]`` on; -1 (unknown) sets no entry."""
    out[first], out[first + 1] = player_s, boss_s
    if player >= 0:
        out[first + 2 + PLAYER_BIN[player]] = 1.0
    if boss >= 0:
        out[first + 2 + _N_PLAYER_BINS + BOSS_BIN[boss]] = 1.0


@kernel
def features_of_state(
    s: Record,
    low: NDArray[np.float64],
    extent: NDArray[np.float64],
    out: NDArray[np.float32],
) -> None:
    """Write the features of a `DUEL_STATE` record from any source; ``low`` and ``extent`` of the ground are in m."""
    out[:] = 0.0
    out[0], out[1] = s.player_hp / s.player_max_hp, s.player_sp / s.player_max_sp
    out[2] = s.boss_hp / s.boss_max_hp
    dx, dy = s.boss_pose[0] - s.player_pose[0], s.boss_pose[1] - s.player_pose[1]
    out[3] = math.sqrt(dx * dx + dy * dy) / 50.0
    for i in range(3):
        out[4 + i] = (s.player_pose[i] - low[i]) / extent[i]
        out[9 + i] = (s.boss_pose[i] - low[i]) / extent[i]
    out[7], out[8] = math.sin(s.player_pose[3]), math.cos(s.player_pose[3])
    out[12], out[13] = math.sin(s.boss_pose[3]), math.cos(s.boss_pose[3])
    # The camera's angle is atan2(nx, ny), so its sine and cosine are the normalised parts; straight down it is 0.
    nx, ny = s.camera_pose[3], s.camera_pose[4]
    norm = math.sqrt(nx * nx + ny * ny)
    out[14], out[15] = (nx / norm, ny / norm) if norm > 0.0 else (0.0, 1.0)
    write_animations(
        out, _ANIMATIONS, s.player_animation, s.player_animation_duration, s.boss_animation, s.boss_bin_duration
    )
