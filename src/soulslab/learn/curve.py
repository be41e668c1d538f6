"""Plot of the learning curve of a run: win rate against game decisions and against training time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import numpy as np

from soulslab.errors import CheckpointError, MissingDependencyError
from soulslab.learn.archive import writing
from soulslab.learn.sinks import read_json_lines
from soulslab.learn.telemetry import Evaluated, TrainProgress, TrainStarted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MessageType = TypeVar("MessageType", TrainProgress, Evaluated)

DPI: Final = 120
INK: Final = "#1b4965"
FAINT: Final = "#9aa5b1"
MOVING: Final = "win rate of the last fights (%)"
EVALUATED: Final = "evaluated win rate, 95 % interval (%)"
RETURNS: Final = "mean return of the last episodes"


class Curve(NamedTuple):
    """A learning curve: points with optional intervals, in %, or returns.

    ``margins`` are the lower and upper ends of the intervals; the label is :data:`EVALUATED`, :data:`MOVING` or
    :data:`RETURNS`.
    """

    env_steps: list[int]
    seconds: list[float]
    heights: list[float]
    margins: tuple[list[float], list[float]] | None
    label: str


def read_points(log: Path, kind: type[MessageType]) -> list[MessageType]:
    """Return the messages of a type in a log, without repetitions by a resumed run.

    The log is the file of a :class:`soulslab.learn.sinks.JsonLinesSink`; errors as in `read_json_lines`.
    """
    points: list[MessageType] = []
    for message in read_json_lines(log):
        if isinstance(message, TrainStarted):
            while points and points[-1].env_steps > message.env_steps:
                points.pop()
        elif isinstance(message, kind):
            while points and points[-1].env_steps >= message.env_steps:
                points.pop()
            points.append(message)
    return points


def read_evaluations(log: Path) -> list[Evaluated]:
    """Return the evaluations of a run, in order of game decisions; see `read_points`."""
    return read_points(log, Evaluated)


def learning_curve(log: Path, *, of_returns: bool = False) -> Curve:
    """Return the best curve of a log: evaluated win rates, else moving averages, else mean returns."""
    progress = read_points(log, TrainProgress)
    judged = [point for point in read_evaluations(log) if point.win_rate is not None]
    if judged and progress and not of_returns:
        env_steps = [point.env_steps for point in judged]
        # Evaluations have no time; it is interpolated between the progress messages.
        seconds = np.interp(env_steps, [p.env_steps for p in progress], [p.seconds for p in progress]).tolist()
        low = [100.0 * (point.low or 0.0) for point in judged]
        high = [100.0 * (point.high if point.high is not None else 1.0) for point in judged]
        return Curve(env_steps, seconds, [100.0 * (point.win_rate or 0.0) for point in judged], (low, high), EVALUATED)
    points = [point for point in progress if point.mean_return is not None]
    if not points:
        raise CheckpointError(log, "holds no finished episode to draw; train for longer")
    has_wins = not of_returns and all(point.win_rate is not None for point in points)
    return Curve(
        env_steps=[point.env_steps for point in points],
        seconds=[point.seconds for point in points],
        heights=[100.0 * (p.win_rate or 0.0) if has_wins else (p.mean_return or 0.0) for p in points],
        margins=None,
        label=MOVING if has_wins else RETURNS,
    )


def draw_curve(
    log: Path, picture: Path, title: str = "", *, baseline: float | None = None, of_returns: bool = False
) -> None:
    """Plot the learning curve of a run as a PNG file.

    If the environment reports wins, the plot shows win rates, otherwise mean returns. If the run was evaluated, the win
    rates are those of the evaluations, with their intervals; otherwise those of the last training fights.

    ``of_returns`` plots mean returns even if win rates are known; the ``baseline`` is then the mean return of a random
    policy. Raises CheckpointError if the log holds no finished episode or the file cannot be written,
    MissingDependencyError without matplotlib, and the errors of `read_points`.
    """
    try:
        # Imported here because it takes a second and is used once.
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise MissingDependencyError("matplotlib", "learn") from error
    curve = learning_curve(log, of_returns=of_returns)
    figure = Figure(figsize=(9.0, 3.6), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, sharey=True)
    unit, word = (1e6, "millions") if curve.env_steps[-1] >= 1_000_000 else (1e3, "thousands")
    _plot(left, [steps / unit for steps in curve.env_steps], curve)
    _plot(right, curve.seconds, curve)
    left.set_xlabel(f"game decisions ({word})")
    right.set_xlabel("training time (s)")
    left.set_ylabel(curve.label)
    for axes in (left, right):
        plain_axes(axes)
        axes.set_xlim(left=0.0)
        if curve.label != RETURNS:
            axes.set_ylim(-2.0, 101.0)  # a line at 0 % must not coincide with the axis
            axes.axhline(90.0, color=FAINT, linewidth=0.8, linestyle="--")
        elif baseline is not None:
            axes.axhline(baseline, color=FAINT, linewidth=0.8, linestyle="--")
            axes.annotate("at random", (1.0, baseline), xycoords=("axes fraction", "data"), ha="right", va="bottom")
    if title:
        figure.suptitle(title, fontsize=11)
    with writing(picture):
        figure.savefig(picture)


def _plot(axes: Axes, places: list[float], curve: Curve) -> None:
    # Evaluations are few, so each is marked.
    marker = "o" if curve.margins is not None else ""
    axes.plot(places, curve.heights, color=INK, linewidth=1.8, marker=marker, markersize=3.5)
    if curve.margins is not None:
        axes.fill_between(places, *curve.margins, color=INK, alpha=0.18, linewidth=0.0)


def plain_axes(axes: Axes) -> None:
    """Remove the upper and right border, and draw a light grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, color=FAINT, alpha=0.25, linewidth=0.6)
