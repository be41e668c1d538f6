"""Builds of the bosses, their rest poses, and the strike styles of their moves."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from soulslab.arena.blow import Blow
from soulslab.arena.boss_file import Boss, Move, Window
from soulslab.arena.picture.looks import BEAST_RADIUS_M, Body, look_of
from soulslab.arena.records import Record
from soulslab.arena.window.figures.pose import Pose, key
from soulslab.arena.window.figures.rig import Build
from soulslab.arena.window.figures.strikes import Strike, Style
from soulslab.config.loading import read_toml

#: Arcs below the first are thrusts, below the second overhead strikes, and above the third spins.
THRUST_RAD, OVERHEAD_RAD, SPIN_RAD = 0.85, 1.35, 5.5
#: An advance faster than this is drawn as running.
RUN_M_S = 11.0


def strike_of(build: Build, style: Style, blow: Blow, f: Record) -> Strike:
    """Return the strike of an attack, in the axes and units of the boss's build."""
    window = blow.window
    radius = (float(f.b_radius) + float(window.reach)) / build.scale_m
    face = math.atan2(float(window.face_sin), float(window.face_cos))
    return Strike(style, face, blow.half_rad, radius, blow.side)


def _style(boss: Boss, move: Move, window: Window) -> Style:
    """Return the style of an attack; a beast charges on its hands and cannot use its weapon in it."""
    if window.projectile is not None:
        return "throw"
    style = _facts()["styles"].get(move.id)
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


class Figure(msgspec.Struct, frozen=True):
    """Appearance and posture of a boss; the stride of its walk is in units of its scale.

    ``styles`` has the strike style of each window of each move.
    """

    body: Body
    build: Build
    rest: Pose
    styles: tuple[tuple[Style, ...], ...]
    stride: float
    breath_s: float


@cache
def _facts() -> dict[str, dict[str, Any]]:
    """Return the content of ``boss_builds.toml``."""
    return read_toml(Path(__file__).parent / "boss_builds.toml")


def figure_of(boss: Boss) -> Figure:
    """Return a boss's figure, derived from its size and moves, as boss files do not describe appearance."""
    body = look_of(boss).body
    facts = _facts()[body]
    build = msgspec.convert(facts["build"], Build)
    build = msgspec.structs.replace(build, scale_m=build.scale_m * (boss.radius_m / facts["radius_m"]))
    styles = tuple(tuple(_style(boss, move, window) for window in move.windows) for move in boss.moves)
    return Figure(body, build, key(**facts["rest"]), styles, facts["stride"], facts["breath_s"])
