"""The learning curve of a run as a picture: win rate against game decisions and against training time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from soulslab.errors import CheckpointError, MissingDependencyError
from soulslab.learn.archive import writing
from soulslab.learn.sinks import read_json_lines
from soulslab.learn.telemetry import TrainProgress

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DPI: Final = 120
_INK: Final = "#1b4965"
_FAINT: Final = "#9aa5b1"


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
    points: list[TrainProgress] = []
    for message in read_json_lines(log):
        if isinstance(message, TrainProgress):
            while points and points[-1].env_steps >= message.env_steps:
                points.pop()
            points.append(message)
    return points


def draw_curve(
    log: Path, picture: Path, title: str = "", *, baseline: float | None = None, of_returns: bool = False
) -> None:
    """Draw the learning curve of a run.

    Win rates are drawn where the environment tells who won, mean returns elsewhere.

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
    points = [point for point in read_curve(log) if point.mean_return is not None]
    if not points:
        raise CheckpointError(log, "holds no finished episode to draw; train for longer")
    has_wins = not of_returns and all(point.win_rate is not None for point in points)
    heights = [100.0 * (p.win_rate or 0.0) if has_wins else (p.mean_return or 0.0) for p in points]
    figure = Figure(figsize=(9.0, 3.6), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, sharey=True)
    left.plot([point.env_steps / 1e6 for point in points], heights, color=_INK, linewidth=1.8)
    right.plot([point.seconds for point in points], heights, color=_INK, linewidth=1.8)
    left.set_xlabel("game decisions (millions)")
    right.set_xlabel("training time (s)")
    left.set_ylabel("win rate, last 1000 fights (%)" if has_wins else "mean return, last 1000 episodes")
    for axes in (left, right):
        _plain(axes)
        if has_wins:
            axes.set_ylim(-2.0, 101.0)  # a line at 0 % shall not hide in the axis
            axes.axhline(90.0, color=_FAINT, linewidth=0.8, linestyle="--")
        elif baseline is not None:
            axes.axhline(baseline, color=_FAINT, linewidth=0.8, linestyle="--")
            axes.annotate("at random", (1.0, baseline), xycoords=("axes fraction", "data"), ha="right", va="bottom")
    if title:
        figure.suptitle(title, fontsize=11)
    with writing(picture):
        figure.savefig(picture)


def _plain(axes: Axes) -> None:
    """Leave only what carries information."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, color=_FAINT, alpha=0.25, linewidth=0.6)
    axes.set_xlim(left=0.0)
