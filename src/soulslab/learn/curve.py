"""The learning curve of a run as a picture: win rate against game decisions and against training time."""

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

Told = TypeVar("Told", TrainProgress, Evaluated)

_DPI: Final = 120
_INK: Final = "#1b4965"
_FAINT: Final = "#9aa5b1"
MOVING: Final = "win rate of the last fights (%)"
EVALUATED: Final = "evaluated win rate, 95 % interval (%)"
RETURNS: Final = "mean return of the last episodes"


class Curve(NamedTuple):
    """What is drawn: places, heights, and how sure they are.

    Attributes:
        env_steps: Game decisions of each point.
        seconds: Training time of each point (s).
        heights: What the curve shows: win rates (%) or returns.
        margins: Lower and upper ends of the points' intervals, as heights; None without them.
        label: Stands at the axis: :data:`EVALUATED`, :data:`MOVING` or :data:`RETURNS`.
    """

    env_steps: list[int]
    seconds: list[float]
    heights: list[float]
    margins: tuple[list[float], list[float]] | None
    label: str


def read_curve(log: Path) -> list[TrainProgress]:
    """Read how a run went.

    Args:
        log: The file of a :class:`soulslab.learn.sinks.JsonLinesSink`.

    Returns:
        Its progress in order of game decisions. Where a run was resumed from an earlier checkpoint, the part
        that was lost is left out.

    Raises:
        CheckpointError: The log cannot be read.
        CorruptCheckpointError: A line of it is no message.
    """
    return _told(log, TrainProgress)


def read_evaluations(log: Path) -> list[Evaluated]:
    """Read what a run's evaluations came to.

    Args:
        log: The file of a :class:`soulslab.learn.sinks.JsonLinesSink`.

    Returns:
        Them in order of game decisions; what was lost before a resume is left out. Empty where none were made.

    Raises:
        CheckpointError: The log cannot be read.
        CorruptCheckpointError: A line of it is no message.
    """
    return _told(log, Evaluated)


def learning_curve(log: Path, *, of_returns: bool = False) -> Curve:
    """Return the most telling curve that a log has: evaluated win rates, moving ones, or mean returns.

    Args:
        log: The file of a :class:`soulslab.learn.sinks.JsonLinesSink`.
        of_returns: Take mean returns also where win rates are known.

    Raises:
        CheckpointError: The log cannot be read or holds no finished episode.
        CorruptCheckpointError: A line of it is no message.
    """
    progress = read_curve(log)
    judged = [point for point in read_evaluations(log) if point.win_rate is not None]
    if judged and progress and not of_returns:
        # Evaluations tell no time; the progress around them does.
        times = np.interp(
            [point.env_steps for point in judged],
            [point.env_steps for point in progress],
            [point.seconds for point in progress],
        )
        return Curve(
            env_steps=[point.env_steps for point in judged],
            seconds=[float(time) for time in times],
            heights=[100.0 * (point.win_rate or 0.0) for point in judged],
            margins=(
                [100.0 * (point.low or 0.0) for point in judged],
                [100.0 * (1.0 if point.high is None else point.high) for point in judged],
            ),
            label=EVALUATED,
        )
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
    """Draw the learning curve of a run.

    Win rates are drawn where the environment tells who won, mean returns elsewhere. Where the run was evaluated on
    its way, the win rate is that of the evaluations, with its interval; else that of the last fights of training.

    Args:
        log: The file of a :class:`soulslab.learn.sinks.JsonLinesSink`.
        picture: The PNG to write.
        title: Stands above it.
        baseline: Mean return of a player who acts at random, as a line; only where returns are drawn.
        of_returns: Draw mean returns also where win rates are known.

    Raises:
        CheckpointError: The log cannot be read or holds no finished episode, or the picture cannot be written.
        CorruptCheckpointError: A line of the log is no message.
        MissingDependencyError: matplotlib is not installed.
    """
    try:
        # A second to import, for one picture at the end of a run.
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise MissingDependencyError("matplotlib", "learn") from error
    curve = learning_curve(log, of_returns=of_returns)
    figure = Figure(figsize=(9.0, 3.6), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, sharey=True)
    unit, word = (1e6, "millions") if curve.env_steps[-1] >= 1_000_000 else (1e3, "thousands")
    _plot(left, [steps / unit for steps in curve.env_steps], curve)
    _plot(right, curve.seconds, curve)
    left.set_xlabel(f"game decisions ({word})")
    right.set_xlabel("training time (s)")
    left.set_ylabel(curve.label)
    for axes in (left, right):
        _plain(axes)
        if curve.label != RETURNS:
            axes.set_ylim(-2.0, 101.0)  # a line at 0 % shall not hide in the axis
            axes.axhline(90.0, color=_FAINT, linewidth=0.8, linestyle="--")
        elif baseline is not None:
            axes.axhline(baseline, color=_FAINT, linewidth=0.8, linestyle="--")
            axes.annotate("at random", (1.0, baseline), xycoords=("axes fraction", "data"), ha="right", va="bottom")
    if title:
        figure.suptitle(title, fontsize=11)
    with writing(picture):
        figure.savefig(picture)


def _told(log: Path, kind: type[Told]) -> list[Told]:
    """Return the messages of a kind, less those that a resumed run overtook."""
    points: list[Told] = []
    for message in read_json_lines(log):
        if isinstance(message, TrainStarted):
            while points and points[-1].env_steps > message.env_steps:
                points.pop()
        elif isinstance(message, kind):
            while points and points[-1].env_steps >= message.env_steps:
                points.pop()
            points.append(message)
    return points


def _plot(axes: Axes, places: list[float], curve: Curve) -> None:
    # Evaluations are few, and each is a point of its own.
    marker = "o" if curve.margins is not None else ""
    axes.plot(places, curve.heights, color=_INK, linewidth=1.8, marker=marker, markersize=3.5)
    if curve.margins is not None:
        axes.fill_between(places, *curve.margins, color=_INK, alpha=0.18, linewidth=0.0)


def _plain(axes: Axes) -> None:
    """Leave only what carries information."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, color=_FAINT, alpha=0.25, linewidth=0.6)
    axes.set_xlim(left=0.0)
