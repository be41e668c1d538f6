"""The progress bar of a study."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from soulslab.learn.tuning.running import StudyProgress
from soulslab.learn.tuning.settings import Objective
from soulslab.learn.tuning.study_report import format_value


class StudyBar:
    """Shows the number of finished candidates and the best value, from the first `show` to the end of the block."""

    def __init__(self, objective: Objective, total_steps: int, console: Console | None = None) -> None:
        """Prepare a progress bar.

        Args:
            objective: Objective of the study.
            total_steps: Game decisions of one run.
            console: Console to draw on; None makes one on standard error, so that standard output stays clean.
        """
        self._objective: Objective = objective
        self._total_steps = total_steps
        self._progress = Progress(
            # In a terminal of 80 columns the bar is shortened, not the numbers.
            BarColumn(bar_width=16, table_column=Column(min_width=4, ratio=1)),
            TextColumn("{task.fields[numbers]}", table_column=Column(no_wrap=True)),
            TimeRemainingColumn(elapsed_when_finished=True),
            expand=True,
            console=console or Console(stderr=True),
        )
        self._is_shown = False
        self._task = self._progress.add_task("tuning", total=None, numbers="")

    def show(self, progress: StudyProgress) -> None:
        """Update the progress bar."""
        best = format_value(progress.best, self._objective, self._total_steps)
        numbers = (
            f"{progress.n_done} of {progress.n_trials} candidates  {progress.n_pruned} pruned  "
            f"{progress.n_failed} failed  best {best}"
        )
        done = progress.n_done + progress.under_way
        if not self._is_shown:
            self._progress.start()
            self._is_shown = True
        self._progress.update(self._task, total=progress.n_trials, completed=done, numbers=numbers)

    def __enter__(self) -> StudyBar:
        return self

    def __exit__(self, *error: object) -> None:
        if self._is_shown:
            self._progress.stop()
