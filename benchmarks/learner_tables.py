"""Tables of runs: means over the seeds with their intervals, and lower bounds for seeds without the win rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import mean, stdev
from typing import Final, NamedTuple

from benchmarks.learner_run import HALF, MOST, LearnerRun, LearnerTask
from benchmarks.result import Cell, MoreThan, Row
from soulslab.arena.records import DECISION_S

# fmt: off
T_975: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)
"""The 97.5 % points of Student's t distribution with 1, 2, ... degrees of freedom, from a table."""
# fmt: on
_T_MANY: Final = 1.960


class Mean(NamedTuple):
    """A mean over seeds.

    Attributes:
        mean: The mean; `MoreThan` if some seeds did not reach the win rate and count with all their decisions.
        margin: Half the width of its 95 % interval, or None.
    """

    mean: float | MoreThan
    margin: float | None


def t_quantile(n_degrees: int) -> float:
    """Return the 97.5 % point of Student's t distribution, n_degrees at least 1."""
    return T_975[n_degrees - 1] if n_degrees <= len(T_975) else _T_MANY


def mean_of(values: Sequence[float]) -> Mean:
    """Return the mean of independent values with its 95 % t interval; a single value has no interval.

    Source: Student 1908, "The probable error of a mean".
    """
    if len(values) < 2:
        return Mean(mean(values), None)
    return Mean(mean(values), t_quantile(len(values) - 1) * stdev(values) / math.sqrt(len(values)))


def mean_decisions(runs: Sequence[LearnerRun], win_rate: float) -> Mean:
    """Return the decisions until an evaluated win rate was reached; other seeds count with all their decisions."""
    reached = [run.decisions_to(win_rate) for run in runs]
    counted = [n if n is not None else run.n_decisions for n, run in zip(reached, runs, strict=True)]
    if None in reached:
        return Mean(MoreThan(mean(counted)), None)
    return mean_of(counted)


def decision_cells(runs: Sequence[LearnerRun]) -> Row:
    """Return the columns with the decisions of runs with several seeds, and the play time."""
    row: Row = {}
    for level in (HALF, MOST):
        found = mean_decisions(runs, level)
        name = f"{100 * level:.0f} %"
        row[f"to {name}"] = _whole(found.mean)
        row[f"± {name}"] = round(found.margin) if found.margin is not None else None
        row[f"min to {name}"] = _minutes(found.mean)
    reached = [run.decisions_to(MOST) for run in runs]
    n_reached = len(runs) - reached.count(None)
    latest = max(n if n is not None else run.n_decisions for n, run in zip(reached, runs, strict=True))
    slowest = latest if n_reached == len(runs) else MoreThan(latest)
    return row | {"seeds at 80 %": f"{n_reached} of {len(runs)}", "slowest to 80 %": slowest}


def run_row(task: LearnerTask, run: LearnerRun) -> Row:
    """Return the row of one run."""
    late = MoreThan(run.n_decisions)
    half, most = run.decisions_to(HALF), run.decisions_to(MOST)
    last = run.points[-1] if run.points else None
    return {
        "learner": task.name,
        "seed": task.settings.run.seed,
        "decisions": run.n_decisions,
        "to 50 %": half if half is not None else late,
        "to 80 %": most if most is not None else late,
        "won at last (%)": 100 * run.final_win_rate(),
        "best (%)": 100 * max((point.win_rate for point in run.points), default=0.0),
        "return at last": last.mean_return if last else None,
        "training (s)": last.seconds if last else None,
    }


def at_least(measured: float | MoreThan | None, bound: float) -> bool | None:
    """Return whether a number is at least a bound; None if that is unknown."""
    if isinstance(measured, MoreThan):
        return True if measured.value >= bound else None
    return measured >= bound if measured is not None else None


def at_most(measured: float | MoreThan | None, bound: float) -> bool | None:
    """Return whether a number is at most a bound; None if that is unknown."""
    if isinstance(measured, MoreThan):
        return False if measured.value >= bound else None
    return measured <= bound if measured is not None else None


def _whole(value: float | MoreThan) -> Cell:
    return MoreThan(round(value.value)) if isinstance(value, MoreThan) else round(value)


def _minutes(decisions: float | MoreThan) -> Cell:
    if isinstance(decisions, MoreThan):
        return MoreThan(decisions.value * DECISION_S / 60)
    return decisions * DECISION_S / 60
