"""Plot of win rates against game decisions: during a run, or after recordings of several lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.learner_run import HALF, MOST, LearnerRun
from soulslab.arena.records import DECISION_S
from soulslab.errors import MissingDependencyError
from soulslab.learn.archive import writing

_DPI: Final = 120
_FAINT: Final = "#9aa5b1"
_COLOURS: Final = ("#1b4965", "#c1666b", "#d4a03a", "#4f9d69", "#7d5ba6", "#3d9fbf", "#8a7f72")
_TICKS: Final = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000)


def draw_curves(runs: Mapping[str, Sequence[LearnerRun]], picture: Path, title: str = "") -> None:
    """Draw the evaluated win rate of each series of runs: the mean and the range over its seeds.

    Args:
        runs: Runs of each series by its name, one per seed. A curve ends with the shortest run.
        picture: The PNG to write.
        title: Title of the plot.

    Raises:
        CheckpointError: The picture cannot be written.
        MissingDependencyError: matplotlib is not installed.
    """
    try:
        # matplotlib takes a second to import.
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise MissingDependencyError("matplotlib", "learn") from error
    figure = Figure(figsize=(9.0, 4.2), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for number, (name, of_seeds) in enumerate(runs.items()):
        n_points = min(len(run.points) for run in of_seeds)
        if n_points == 0:
            continue
        colour = _COLOURS[number % len(_COLOURS)]
        decisions = np.mean([[point.decisions for point in run.points[:n_points]] for run in of_seeds], axis=0)
        rates = 100.0 * np.array([[point.win_rate for point in run.points[:n_points]] for run in of_seeds])
        axes.plot(decisions, rates.mean(axis=0), color=colour, linewidth=1.8, marker=".", label=name)
        axes.fill_between(decisions, rates.min(axis=0), rates.max(axis=0), color=colour, alpha=0.15, linewidth=0.0)
    for level in (HALF, MOST):
        axes.axhline(100.0 * level, color=_FAINT, linewidth=0.8, linestyle="--")
    axes.set_xscale("log")
    least, most = axes.get_xlim()
    ticks = [tick for tick in _TICKS if least <= tick <= most]
    axes.set_xticks(ticks, [f"{tick // 1000} k\n{play_time(tick)}" for tick in ticks], minor=False)
    axes.set_xticks([], minor=True)
    axes.set_ylim(-2.0, 101.0)  # a line at 0 % shall not hide in the axis
    axes.set_xlabel("game decisions, and the time to play them")
    axes.set_ylabel("greedy fights won (%)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, color=_FAINT, alpha=0.25, linewidth=0.6)
    figure.legend(loc="outside right upper", frameon=False, fontsize=9)
    if title:
        axes.set_title(title, fontsize=11)
    with writing(picture):
        picture.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(picture)


def play_time(n_decisions: int) -> str:
    """Return the time to play a number of decisions, as text."""
    minutes = n_decisions * DECISION_S / 60
    return f"{minutes:.0f} min" if minutes < 60 else f"{minutes / 60:.1f} h"
