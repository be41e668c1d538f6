"""Strike styles of the bosses' moves, and the strikes of their weapons."""

from __future__ import annotations

import math

import msgspec

from soulslab.arena.blow import Blow
from soulslab.arena.boss_file import Boss, Move, Window
from soulslab.arena.records import Record
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
    """Appearance of a move.

    Attributes:
        style: Strike style of each of its windows.
        is_change: Whether it is the change to the second phase.
    """

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
