"""Builds of the bosses, their rest poses, and the strike styles of their moves."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import msgspec

from soulslab.arena.blow import Blow
from soulslab.arena.boss_file import Boss, Move, Window
from soulslab.arena.records import Record
from soulslab.arena.window.figures.pose import Pose, key
from soulslab.arena.window.figures.rig import Build
from soulslab.arena.window.figures.strikes import Strike, Style

#: Styles of moves that cannot be derived from their numbers, by move id.
_STYLES: dict[str, Style] = {
    "leap": "leap",
    "charge": "charge",
    "shaft_jab": "thrust",
    "shoulder": "ram",
    "grab": "grab",
    "ground_slam": "slam",
    "lash": "lash",
    "transformation": "burst",
    "mace_slam": "overhead",
    "delayed_slam": "overhead",
    "charge_again": "ram",
    "charge_last": "leap",
    "wild_charge": "ram",
    "body_drop": "slam",
    "pounce": "leap",
    "bite": "ram",
    "frost_breath": "breath",
    "frost_burst": "burst",
    "freezing_roar": "burst",
    "leaping_cut": "leap",
    "vanishing_stab": "leap",
    "mirror_laugh": "throw",
}
#: Arcs below the first are thrusts, below the second overhead strikes, and above the third spins.
THRUST_RAD, OVERHEAD_RAD, SPIN_RAD = 0.85, 1.35, 5.5
#: An advance faster than this is drawn as running.
RUN_M_S = 11.0
#: Radius above which a boss is a beast; a beast charges on its hands and cannot use its weapon in it.
BEAST_RADIUS_M = 1.1


class MoveStyle(msgspec.Struct, frozen=True):
    """Strike style of each window of a move, and whether it is the change to the second phase."""

    style: tuple[Style, ...]
    is_change: bool


def styles_of(boss: Boss) -> tuple[MoveStyle, ...]:
    """Return the appearance of a boss's moves, in their order."""
    return tuple(
        MoveStyle(
            tuple(_style(boss, move, window) for window in move.windows),
            move.id == boss.phase_two.move,
        )
        for move in boss.moves
    )


def strike_of(build: Build, style: Style, blow: Blow, f: Record) -> Strike:
    """Return the strike of an attack, in the axes and units of the boss's build."""
    window = blow.window
    radius = (float(f.b_radius) + float(window.reach)) / build.scale_m
    face = math.atan2(float(window.face_sin), float(window.face_cos))
    return Strike(style, face, blow.half_rad, radius, blow.side)


def _style(boss: Boss, move: Move, window: Window) -> Style:
    if window.projectile is not None:
        return "throw"
    style = _STYLES.get(move.id)
    if style is None:
        style = "burst" if move.id == boss.phase_two.move else _style_by_numbers(window)
    return "ram" if style == "charge" and boss.radius_m > BEAST_RADIUS_M else style


def _style_by_numbers(window: Window) -> Style:
    if window.arc_rad > SPIN_RAD:
        return "spin"
    if window.advance_m / window.advance_s > RUN_M_S:
        return "charge"
    if window.arc_rad < THRUST_RAD:
        return "thrust"
    return "overhead" if window.arc_rad < OVERHEAD_RAD else "sweep"


def ticks_of_stage(d: Record, f: Record) -> tuple[int, int, int]:
    """Return (ticks since the last window's end or the move's start, start, end) of the present window."""
    move = f.moves[d.b_move]
    place = min(int(d.b_window), int(move.n_windows) - 1)
    window = f.windows[move.first_window + place]
    before = int(f.windows[move.first_window + place - 1].end) if place else 0
    return before, int(window.start), int(window.end)


Kind: TypeAlias = Literal["judge", "beast", "trickster"]


class Figure(msgspec.Struct, frozen=True):
    """Appearance and posture of a boss; the stride of its walk is in units of its scale."""

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
