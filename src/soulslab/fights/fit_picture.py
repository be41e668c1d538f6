"""Picture of a fitted boss: for each attack the area of its windows, with the recorded hits and near misses in it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from soulslab.arena.boss_file import Window
from soulslab.arena.fitting.fit import Fit, FittedMove
from soulslab.arena.fitting.hit_windows import HitWindow
from soulslab.arena.records import TICKS_PER_S
from soulslab.errors import RecordingError, optional_imports

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

#: Colours of the windows of an attack, in order, and of hits and near misses; they differ in brightness, too.
WINDOW_COLOURS: Final = ("#d95f02", "#7570b3", "#1b9e77", "#e7298a", "#66a61e", "#a6761d", "#666666", "#1f78b4")
HIT, MISS, BODY = "#b2182b", "#2166ac", "#888888"
N_COLUMNS: Final = 4
#: Height of the two panels of an attack, and of the legend.
ROW_HEIGHT_IN, LEGEND_HEIGHT_IN = 3.9, 1.5
#: Points that are drawn of each kind, so that the picture stays small.
MAX_POINTS: Final = 300
#: Largest distance that is drawn beyond the reach of the windows (m).
AROUND_M: Final = 2.0
#: Width of a bar of the hits in the course of time (s).
BAR_S: Final = 0.05
#: Opacity of a window in the view from above, and in the course of time.
AREA_ALPHA, TIME_ALPHA = 0.25, 0.4
DASHED: Final[dict[str, Any]] = {"linestyle": "--", "linewidth": 0.7}
#: Half of the largest sector that is not drawn as a circle (degrees).
MAX_HALF_DEG: Final = 179.9


def write_picture(fit: Fit, out: Path) -> None:
    """Write the picture of a fit (`draw_fit`) as PNG.

    Raises:
        MissingDependencyError: matplotlib is not installed.
        RecordingError: The file cannot be written.
    """
    figure = draw_fit(fit)
    try:
        figure.savefig(out)
    except OSError as error:
        raise RecordingError(out, f"cannot be written: {error.strerror or error}") from error


def draw_fit(fit: Fit) -> Figure:
    """Draw a panel for each attack: seen from above, the boss faces up; below it is the course of time.

    The dashed areas have the least reach and arc of the 90 % intervals, and the greatest. The windows of an attack that
    never hit are not drawn, because they are assumptions. Raises `MissingDependencyError` without matplotlib.
    """
    with optional_imports():
        from matplotlib.figure import Figure  # noqa: PLC0415  (an optional package)

    n_rows = math.ceil(len(fit.moves) / N_COLUMNS)
    height = ROW_HEIGHT_IN * n_rows + LEGEND_HEIGHT_IN
    figure = Figure(figsize=(3.2 * N_COLUMNS, height), dpi=80)
    fights, minutes = fit.uncertainty.n_fights, fit.uncertainty.game_time_s / 60
    title = f"{fit.boss.name}: {fights} fight{'' if fights == 1 else 's'}, {minutes:.1f} minutes"
    n_windows = max(len(move.windows) for move in fit.boss.moves)
    figure.legend(handles=_legend(n_windows), loc="upper center", ncols=4, fontsize=9, title=title)
    # A constrained layout would take longer than all the rest of the picture.
    inside = {"left": 0.04, "right": 0.99, "bottom": 0.4 / height, "top": 1 - LEGEND_HEIGHT_IN / height}
    grid = figure.add_gridspec(n_rows, N_COLUMNS, hspace=0.25, wspace=0.15, **inside)
    for i, move in enumerate(fit.moves):
        panels = grid[divmod(i, N_COLUMNS)].subgridspec(2, 1, height_ratios=[6, 1], hspace=0.15)
        _draw_area(figure.add_subplot(panels[0]), fit, i, move)
        _draw_time(figure.add_subplot(panels[1]), fit, i, move)
    return figure


def _legend(n_windows: int) -> list[Artist]:
    """Return the entries of the legend."""
    from matplotlib.lines import Line2D  # noqa: PLC0415  (an optional package)
    from matplotlib.patches import Patch  # noqa: PLC0415

    windows = [
        Patch(color=WINDOW_COLOURS[j], alpha=TIME_ALPHA, label=f"window {j + 1}: area, and time below")
        for j in range(min(n_windows, len(WINDOW_COLOURS)))
    ]
    return [
        Line2D([], [], color=HIT, marker="o", markersize=3, linestyle="", label="hit"),
        Line2D([], [], color=MISS, marker="x", markersize=4, linestyle="", label="near miss"),
        Line2D([], [], color="black", label="least and greatest area (90 %)", **DASHED),
        Patch(color=HIT, label=f"hits in {BAR_S} s, below"),
        *windows,
    ]


def _draw_area(axes: Axes, fit: Fit, i: int, move: FittedMove) -> None:
    """Draw an attack from above; the boss is in the middle and faces up."""
    from matplotlib.patches import Circle  # noqa: PLC0415  (an optional package)

    radius = fit.boss.radius_m
    farthest = radius + AROUND_M
    for j, found in enumerate(move.windows):
        if not found.hits:
            continue  # a guess
        window = fit.boss.moves[i].windows[j] if j < len(fit.boss.moves[i].windows) else None
        colour = WINDOW_COLOURS[j % len(WINDOW_COLOURS)]
        if window is not None and isinstance(found, HitWindow):
            reach, arc = found.area.reach_m, found.area.arc_rad
            axes.add_patch(_sector(radius, window.reach_m, window, window.arc_rad, facecolor=colour, alpha=AREA_ALPHA))
            for end_m, end_rad in ((reach.low, arc.low), (reach.high, arc.high)):
                axes.add_patch(_sector(radius, end_m, window, end_rad, fill=False, edgecolor=colour, **DASHED))
            farthest = max(farthest, radius + window.reach_m + AROUND_M, radius + reach.high + 0.3)
            _scatter(axes, found.area.misses, radius, MISS, "x")
        points = np.array([(hit.gap, hit.bearing) for hit in found.hits]).reshape(-1, 2)
        _scatter(axes, points, radius, HIT, "o")
        if len(points):
            farthest = max(farthest, radius + float(points[:, 0].max()) + 0.5)
    axes.add_patch(Circle((0, 0), radius, color=BODY))
    axes.annotate("", (0, radius * 1.2), (0, 0), arrowprops={"arrowstyle": "->", "color": "white"})
    axes.set(xlim=(-farthest, farthest), ylim=(-farthest, farthest), aspect="equal")
    outcome = "" if move.is_explained else ", never hit"
    axes.set_title(f"{move.animation}, seen {move.n_seen} time{'' if move.n_seen == 1 else 's'}{outcome}", fontsize=9)
    axes.set_ylabel("m", fontsize=7, labelpad=0)
    axes.tick_params(labelsize=7)


def _sector(radius: float, reach_m: float, window: Window, arc_rad: float, **style: Any) -> Patch:
    """Return a sector around the boss, whose middle is the facing of the window."""
    from matplotlib.patches import Circle, Wedge  # noqa: PLC0415  (an optional package)

    half = math.degrees(arc_rad / 2)
    if half > MAX_HALF_DEG:  # a wedge of 360 degrees has a line from its middle to its edge, or is only a line
        return Circle((0, 0), radius + reach_m, **style)
    middle = 90 + math.degrees(window.facing_rad)
    return Wedge((0, 0), radius + reach_m, middle - half, middle + half, **style)


def _scatter(axes: Axes, points: Any, radius: float, colour: str, marker: str) -> None:
    """Draw gaps and bearings (P, 2) as points; the player is drawn where its body is nearest to the boss."""
    points = points[:: max(len(points) // MAX_POINTS, 1)]
    distance = points[:, 0] + radius
    x, y = -distance * np.sin(points[:, 1]), distance * np.cos(points[:, 1])
    axes.scatter(x, y, s=8, c=colour, marker=marker, linewidths=0.8, zorder=3)


def _draw_time(axes: Axes, fit: Fit, i: int, move: FittedMove) -> None:
    """Draw the course of an attack: its windows, and bars of the number of hits."""
    boss_move = fit.boss.moves[i]
    for j, (window, found) in enumerate(zip(boss_move.windows, move.windows, strict=False)):
        if not found.hits:
            continue  # a guess
        axes.axvspan(window.start_s, window.end_s, color=WINDOW_COLOURS[j % len(WINDOW_COLOURS)], alpha=TIME_ALPHA)
    times = [hit.k / TICKS_PER_S for found in move.windows for hit in found.hits]
    if times:
        bins = np.arange(0, boss_move.duration_s + BAR_S, BAR_S).tolist()
        axes.hist(times, bins=bins, histtype="stepfilled", color=HIT)
    axes.set(xlim=(0, max(boss_move.duration_s, 0.1)), yticks=[])
    axes.set_xlabel("s", fontsize=7, labelpad=0)
    axes.tick_params(labelsize=7)
