"""Plot of a study: values of the candidates, importances, and value against each setting."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from soulslab.config.writing import toml_value
from soulslab.learn.archive import writing
from soulslab.learn.curve import DPI, FAINT, INK, plain_axes
from soulslab.learn.tuning.settings import StudySettings, TuneSettings
from soulslab.learn.tuning.trial import TrialStatus, is_maximised
from soulslab.learn.tuning.trial_store import TrialRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BEST: Final = "#c8553d"
_N_SETTINGS: Final = 4
"""Number of settings that get a panel, starting with the most important one."""

OBJECTIVE_LABELS: Final = {
    "win_rate": "win rate (%)",
    "return": "mean return",
    "decisions_to_50": "decisions to 50 % wins",
    "decisions_to_80": "decisions to 80 % wins",
}


def draw_study(rows: list[TrialRow], tuning: TuneSettings, importances: dict[str, float], picture: Path) -> None:
    """Plot a study with at least one complete candidate to a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415  (takes a second)
    from matplotlib.figure import Figure  # noqa: PLC0415  (as above)

    names = [*importances, *(name for name in tuning.search if name not in importances)][:_N_SETTINGS]
    figure = Figure(figsize=(10.0, 7.0), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, 1)
    above, below = grid[0].subgridspec(1, 2), grid[1].subgridspec(1, len(names))
    _draw_history(figure.add_subplot(above[0]), rows, tuning.study)
    _draw_importances(figure.add_subplot(above[1]), importances)
    panels: list[Axes] = []
    for place, name in enumerate(names):
        panels.append(figure.add_subplot(below[place], sharey=panels[0] if panels else None))
        _draw_setting(panels[-1], rows, tuning, name)
    panels[0].set_ylabel(OBJECTIVE_LABELS[tuning.study.objective])
    with writing(picture):
        figure.savefig(picture)


def _draw_history(axes: Axes, rows: list[TrialRow], study: StudySettings) -> None:
    """Draw the value of each candidate in order, and the best one so far."""
    complete = _points(rows, TrialStatus.COMPLETE, study)
    pruned = _points(rows, TrialStatus.PRUNED, study)
    better = max if is_maximised(study.objective) else min
    best = [better(value for _, value in complete[: i + 1]) for i in range(len(complete))]
    numbers = [row.number for row, _ in complete]
    axes.plot([r.number for r, _ in pruned], [v for _, v in pruned], "x", color=FAINT, label="pruned, as it stood")
    axes.plot(numbers, [value for _, value in complete], "o", color=INK, label="trained to the end")
    axes.step([*numbers, rows[-1].number], [*best, best[-1]], where="post", color=_BEST, label="best so far")
    axes.set_xlabel("trial")
    axes.set_ylabel(OBJECTIVE_LABELS[study.objective])
    # The legend is above the panel, because inside it would cover points.
    axes.legend(frameon=False, fontsize=8, ncols=3, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.2)
    plain_axes(axes)


def _draw_importances(axes: Axes, importances: dict[str, float]) -> None:
    """Draw a bar for each setting, the most important one on top."""
    plain_axes(axes)
    if not importances:
        axes.annotate("too few candidates", (0.5, 0.5), xycoords="axes fraction", ha="center", color=FAINT)
        axes.set_axis_off()
        return
    names = list(reversed(importances))
    axes.barh(names, [100.0 * importances[name] for name in names], color=INK, height=0.6)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("importance for being among the best (%)")


def _draw_setting(axes: Axes, rows: list[TrialRow], tuning: TuneSettings, name: str) -> None:
    dimension = tuning.search[name]
    for state, mark, colour in ((TrialStatus.PRUNED, "x", FAINT), (TrialStatus.COMPLETE, "o", INK)):
        points = [(row.params[name], value) for row, value in _points(rows, state, tuning.study) if name in row.params]
        xs: list[Any] = [x for x, _ in points]
        if dimension.choices is not None:
            labels = [toml_value(choice) for choice in dimension.choices]
            xs = [labels.index(x) for x in xs]
            axes.set_xticks(range(len(labels)), labels, rotation=20, fontsize=8)
            axes.set_xlim(-0.5, len(labels) - 0.5)
        axes.plot(xs, [value for _, value in points], mark, color=colour)
    if dimension.log:
        axes.set_xscale("log")
    axes.set_xlabel(name)
    plain_axes(axes)


def _points(rows: list[TrialRow], state: TrialStatus, study: StudySettings) -> list[tuple[TrialRow, float]]:
    """Return the candidates with a value that ended in a state, with the value in the unit of the plot."""
    scale = 100.0 if study.objective == "win_rate" else 1.0
    return [(row, scale * row.value) for row in rows if row.state is state and row.value is not None]
