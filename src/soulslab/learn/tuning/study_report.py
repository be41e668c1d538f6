"""The result of a study as tables, and its progress bar."""

from __future__ import annotations

from typing import Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.table import Table

from soulslab.learn.sinks.console_sink import make_progress
from soulslab.learn.tuning.running import StudyProgress, StudyResult
from soulslab.learn.tuning.settings import Objective
from soulslab.learn.tuning.trial import LEVELS, TrialStatus
from soulslab.learn.tuning.trial_store import MIN_FOR_IMPORTANCE, TrialRow, best_first, count_states

N_BEST: Final = 10
N_ENDED: Final = 10
_BAR_WIDTH: Final = 20
_NO_NUMBER: Final = "-"


def study_report(result: StudyResult) -> Group:
    """Return the tables of a study: best candidates, candidates that did not complete, importances."""
    parts: list[Any] = [_best_table(result) if result.best else "No candidate was trained to the end."]
    # Newest first; a candidate that was interrupted and repeated is left out.
    ended = [
        row
        for row in reversed(result.rows)
        if row.state not in (TrialStatus.COMPLETE, None)
        and not (row.state is TrialStatus.INTERRUPTED and row.is_retried)
    ]
    if ended:
        parts += ["", _ended_table(result, ended)]
    return Group(*parts, "", _importance_table(result))


def summary(result: StudyResult) -> str:
    """Return the number of candidates by state, in one line."""
    counts = count_states(result.rows)
    states = ", ".join(f"{counts[state]} {state}" for state in TrialStatus if counts[state])
    return f"{counts.total()} of {result.tuning.study.n_trials} candidates tried: {states or 'none'}"


def format_value(value: float | None, objective: Objective, total_steps: int) -> str:
    """Return a value as text: ``62.5 %``, ``84.0 k``, ``never (best 31 %)``."""
    if value is None:
        return _NO_NUMBER
    if objective == "win_rate":
        return f"{100 * value:.1f} %"
    if objective == "return":
        return f"{value:.4g}"
    if value <= total_steps:
        return short_count(value)
    return f"never (best {100 * LEVELS[objective] * (2.0 - value / total_steps):.0f} %)"


def short_count(n: float) -> str:
    """Return a number of decisions as ``84.0 k`` or ``1.20 M``."""
    for size, unit, digits in ((1e6, "M", 2), (1e3, "k", 1)):
        if n >= size:
            return f"{n / size:.{digits}f} {unit}"
    return f"{n:.0f}"


def _best_table(result: StudyResult) -> Table:
    study = result.tuning.study
    rows = best_first(result.rows, study)[:N_BEST]
    more = len(study.seeds)
    title = f"Best candidates by {study.objective}{f', mean of {more} seeds' if more > 1 else ''}"
    table = _table(title, result, [*(["each seed"] if more > 1 else []), "last wins", "decisions", "s"])
    for row in rows:
        values = row.outcome.values if row.outcome else ()
        each = ["  ".join(_value(result, value) for value in values)] if more > 1 else []
        table.add_row(*_cells(result, row), *each, *_costs(row))
    return table


def _ended_table(result: StudyResult, rows: list[TrialRow]) -> Table:
    title = "Pruned, failed or cut off" + (f", the last {N_ENDED} of {len(rows)}" if len(rows) > N_ENDED else "")
    table = _table(title, result, ["why"])
    table.columns[-1].justify = "left"
    for row in rows[:N_ENDED]:
        why = row.outcome.reason if row.outcome else "the study's own process ended"
        state = f"{row.state}, tried again" if row.is_retried else str(row.state)
        table.add_row(*_cells(result, row), f"{state}: {why}")
    return table


def _table(title: str, result: StudyResult, heads: list[str]) -> Table:
    """Return a table with the columns of `_cells`, and others."""
    table = Table(title=title, box=SIMPLE_HEAD, padding=0)
    names = short_names(list(result.tuning.search)).values()
    for head in ("trial", *names, result.tuning.study.objective, *heads):
        table.add_column(head, justify="right", overflow="fold")
    return table


def _cells(result: StudyResult, row: TrialRow) -> list[str]:
    """Return number, parameters and value of a candidate."""
    number = f"{row.number}{' (config)' if row.is_base else ''}"
    params = [format_param(row.params.get(name)) for name in result.tuning.search]
    return [number, *params, _value(result, row.value)]


def _importance_table(result: StudyResult) -> Table | str:
    if not result.importances:
        return f"Importances need {MIN_FOR_IMPORTANCE} candidates that were trained to the end and differ in value."
    n_complete = count_states(result.rows)[TrialStatus.COMPLETE]
    table = Table(title=f"Importance (PED-ANOVA, {n_complete} candidates)", box=SIMPLE_HEAD)
    table.add_column("setting")
    table.add_column("share", justify="right")
    table.add_column("")
    for name, share in result.importances.items():
        table.add_row(name, f"{100 * share:.0f} %", "█" * round(_BAR_WIDTH * share))
    return table


def short_names(names: list[str]) -> dict[str, str]:
    """Return the last part of each name, or the whole name if the last part is not unique."""
    lasts = [name.rpartition(".")[2] for name in names]
    return {name: last if lasts.count(last) == 1 else name for name, last in zip(names, lasts, strict=True)}


def format_param(value: Any) -> str:
    """Return the value of a setting with few digits; ``best.toml`` has all digits."""
    if value is None:
        return _NO_NUMBER
    # Lists in the notation of the command line, without spaces to save width.
    return f"{value:.2g}" if isinstance(value, float) else str(value).replace(", ", ",")


def _value(result: StudyResult, value: float | None) -> str:
    return format_value(value, result.tuning.study.objective, result.settings.run.total_steps)


def _costs(row: TrialRow) -> tuple[str, str, str]:
    """Return the last win rate, the game decisions and the seconds of a candidate."""
    outcome = row.outcome
    if outcome is None:
        return _NO_NUMBER, _NO_NUMBER, _NO_NUMBER
    won = f"{100 * outcome.win_rate:.1f} %" if outcome.win_rate is not None else _NO_NUMBER
    return won, short_count(outcome.env_steps), f"{outcome.seconds:.1f}"


class StudyBar:
    """Shows the number of finished candidates and the best value, from the first `show` to the end of the block."""

    def __init__(self, objective: Objective, total_steps: int, console: Console | None = None) -> None:
        """Prepare a bar for runs of this many game decisions, on standard error by default."""
        self._objective: Objective = objective
        self._total_steps = total_steps
        self._progress = make_progress(console)
        self._task = self._progress.add_task("tuning", total=None, numbers="")

    def show(self, progress: StudyProgress) -> None:
        """Update the progress bar."""
        best = format_value(progress.best, self._objective, self._total_steps)
        numbers = (
            f"{progress.n_done} of {progress.n_trials} candidates  {progress.n_pruned} pruned  "
            f"{progress.n_failed} failed  best {best}"
        )
        done = progress.n_done + progress.under_way
        self._progress.start()
        self._progress.update(self._task, total=progress.n_trials, completed=done, numbers=numbers)

    def __enter__(self) -> StudyBar:
        return self

    def __exit__(self, *error: object) -> None:
        if self._progress.live.is_started:
            self._progress.stop()
