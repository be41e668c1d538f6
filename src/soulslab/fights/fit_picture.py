"""Picture of a fitted boss: for each attack the area of its windows, with the recorded hits and near misses in it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from soulslab.arena.fitting.fit import Fit, FittedMove
from soulslab.arena.fitting.hit_windows import HitWindow
from soulslab.arena.records import TICKS_PER_S
from soulslab.errors import RecordingError, optional_imports

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colours of the windows of an attack, in order, and of hits and near misses; they differ in brightness, too.
WINDOW_COLOURS: Final = ("#d95f02", "#7570b3", "#1b9e77", "#e7298a", "#66a61e", "#a6761d", "#666666", "#1f78b4")
HIT, MISS, BODY = "#b2182b", "#2166ac", "#888888"
N_COLUMNS: Final = 4
#: Points that are drawn of each kind, so that the picture stays small.
MAX_POINTS: Final = 300
#: Largest distance that is drawn beyond the reach of the windows (m).
AROUND_M: Final = 2.0
#: Half of the largest sector that is drawn (degrees); matplotlib draws one of 360 degrees as a line.
MAX_HALF_DEG: Final = 179.9


def write_picture(fit: Fit, out: Path) -> None:
    """Write a PNG with a panel for each attack: seen from above, the boss faces up; below it is the course of time.

    The windows of an attack that never hit are not drawn, because they are assumptions.

    Raises:
        MissingDependencyError: matplotlib is not installed.
        RecordingError: The file cannot be written.
    """
    with optional_imports():
        from matplotlib.figure import Figure  # noqa: PLC0415  (an optional package)

    n_rows = math.ceil(len(fit.moves) / N_COLUMNS)
    figure = Figure(figsize=(3.2 * N_COLUMNS, 3.9 * n_rows + 0.8), dpi=80, layout="constrained")
    n_fights = fit.uncertainty.n_fights
    fights = f"{n_fights} fight{'' if n_fights == 1 else 's'}"
    title = f"{fit.boss.name}: {fights}, {fit.uncertainty.game_time_s / 60:.1f} minutes"
    figure.suptitle(f"{title}\nsectors: fitted areas; dashed: 90 % interval; red: hits; blue: near misses", fontsize=11)
    grid = figure.add_gridspec(2 * n_rows, N_COLUMNS, height_ratios=[5, 1] * n_rows)
    for i, move in enumerate(fit.moves):
        row, column = divmod(i, N_COLUMNS)
        _draw_area(figure.add_subplot(grid[2 * row, column]), fit, i, move)
        _draw_time(figure.add_subplot(grid[2 * row + 1, column]), fit, i, move)
    try:
        figure.savefig(out)
    except OSError as error:
        raise RecordingError(out, f"cannot be written: {error.strerror or error}") from error


def _draw_area(axes: Axes, fit: Fit, i: int, move: FittedMove) -> None:
    """Draw an attack from above; the boss is in the middle and faces up."""
    from matplotlib.patches import Circle, Wedge  # noqa: PLC0415  (an optional package)

    radius = fit.boss.radius_m
    farthest = radius + AROUND_M
    for j, found in enumerate(move.windows if move.is_explained else ()):
        window = fit.boss.moves[i].windows[j] if j < len(fit.boss.moves[i].windows) else None
        colour = WINDOW_COLOURS[j % len(WINDOW_COLOURS)]
        if window is not None and isinstance(found, HitWindow):
            middle = 90 + math.degrees(window.facing_rad)
            half = min(math.degrees(window.arc_rad / 2), MAX_HALF_DEG)
            reach = radius + window.reach_m
            axes.add_patch(Wedge((0, 0), reach, middle - half, middle + half, facecolor=colour, alpha=0.25))
            for end in (found.area.reach_m.low, found.area.reach_m.high):
                arc = Wedge((0, 0), radius + end, middle - half, middle + half, fill=False, ls="--", ec=colour, lw=0.7)
                axes.add_patch(arc)
            farthest = max(farthest, reach + AROUND_M)
            _scatter(axes, found.area.misses, radius, MISS, "x")
        points = np.array([(hit.gap, hit.bearing) for hit in found.hits]).reshape(-1, 2)
        _scatter(axes, points, radius, HIT, "o")
        if len(points):
            farthest = max(farthest, radius + float(points[:, 0].max()) + 0.5)
    axes.add_patch(Circle((0, 0), radius, color=BODY))
    axes.annotate("", (0, radius * 1.2), (0, 0), arrowprops={"arrowstyle": "->", "color": "white"})
    axes.set(xlim=(-farthest, farthest), ylim=(-farthest, farthest), aspect="equal")
    outcome = "" if move.is_explained else ", never hit"
    axes.set_title(f"{move.animation}, seen {move.n_seen} times{outcome}", fontsize=9)
    axes.set_ylabel("m", fontsize=7, labelpad=0)
    axes.tick_params(labelsize=7)


def _scatter(axes: Axes, points: Any, radius: float, colour: str, marker: str) -> None:
    """Draw gaps and bearings (P, 2) as points; the player is drawn where its body is nearest to the boss."""
    points = points[:: max(len(points) // MAX_POINTS, 1)]
    distance = points[:, 0] + radius
    x, y = -distance * np.sin(points[:, 1]), distance * np.cos(points[:, 1])
    axes.scatter(x, y, s=8, c=colour, marker=marker, linewidths=0.8, zorder=3)


def _draw_time(axes: Axes, fit: Fit, i: int, move: FittedMove) -> None:
    """Draw the course of an attack: its windows, and a line for each hit."""
    boss_move = fit.boss.moves[i]
    for j, window in enumerate(boss_move.windows if move.is_explained else ()):
        axes.axvspan(window.start_s, window.end_s, color=WINDOW_COLOURS[j % len(WINDOW_COLOURS)], alpha=0.4)
    times = [hit.k / TICKS_PER_S for found in move.windows for hit in found.hits]
    if times:
        axes.hist(times, bins=np.arange(0, boss_move.duration_s + 0.05, 0.05).tolist(), color=HIT)
    axes.set(xlim=(0, max(boss_move.duration_s, 0.1)), yticks=[])
    axes.set_xlabel("s", fontsize=7, labelpad=0)
    axes.tick_params(labelsize=7)
