"""Which way each boss strikes each of its moves, and where its weapon is in them."""

from __future__ import annotations

import math

import msgspec

from soulslab.arena.boss_file import Boss, Move, Window
from soulslab.arena.motion import Blow
from soulslab.arena.state import Record
from soulslab.arena.window.figures.rig import Build
from soulslab.arena.window.figures.strikes import Strike, Style

#: Moves whose numbers do not tell how they look, by their id.
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
#: Narrower blows than these are thrusts, or come down from above; wider ones than the last go all around.
THRUST_RAD, OVERHEAD_RAD, SPIN_RAD = 0.85, 1.35, 5.5
#: A step of this speed into a blow is a run.
RUN_M_S = 11.0
#: A beast cannot charge with its weapon out: it runs on its hands.
BEAST_RADIUS_M = 1.1


class MoveStyle(msgspec.Struct, frozen=True):
    """How a move looks.

    Attributes:
        style: Of each of its windows.
        is_change: Whether it is the change to the second phase.
    """

    style: tuple[Style, ...]
    is_change: bool


def styles_of(boss: Boss) -> tuple[MoveStyle, ...]:
    """Return how a boss's moves look, in their order."""
    return tuple(
        MoveStyle(
            tuple(_style(boss, move, window) for window in move.windows),
            move.id == boss.phase_two.move,
        )
        for move in boss.moves
    )


def strike_of(build: Build, style: Style, blow: Blow, f: Record) -> Strike:
    """Return the strike of a blow, in the axes and units of the boss's build."""
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
    """Return (ticks since the last window's end or the move's start, start, end) of the window that is under way."""
    move = f.moves[d.b_move]
    place = min(int(d.b_window), int(move.n_windows) - 1)
    window = f.windows[move.first_window + place]
    before = int(f.windows[move.first_window + place - 1].end) if place else 0
    return before, int(window.start), int(window.end)
