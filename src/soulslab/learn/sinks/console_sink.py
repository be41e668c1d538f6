"""A progress bar in the terminal."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column

from soulslab.learn import telemetry

_TRAINING: Final = "training"
_EVALUATING: Final = "evaluating"
_LINE_EVERY_S: Final = 60.0


def make_progress(console: Console | None) -> Progress:
    """Return a progress bar with the field ``numbers`` beside it, by default on standard error."""
    return Progress(
        # In a terminal of 80 columns the bar is shortened, not the numbers.
        BarColumn(bar_width=16, table_column=Column(min_width=4, ratio=1)),
        TextColumn("{task.fields[numbers]}", table_column=Column(no_wrap=True)),
        TimeRemainingColumn(elapsed_when_finished=True),
        expand=True,
        console=console or Console(stderr=True),
    )


class ConsoleSink:
    """A progress bar with win rate, speed and remaining time.

    With Rainbow a second line shows the updates per second, the last evaluation, and the number of late or lost steps,
    if any. If the output is not a terminal, the same is written as one line per minute of training and per evaluation.
    """

    def __init__(self, console: Console | None = None) -> None:
        """Prepare a progress bar on a console, by default on standard error, so that standard output stays clean."""
        self._progress = make_progress(console)
        self._is_file = not self._progress.console.is_terminal
        self._line_at_s: float | None = None
        self._tasks: dict[str, TaskID] = {}
        self._at: telemetry.TrainProgress | None = None
        self._learning: telemetry.LearningStats | None = None
        self._evaluated: telemetry.Evaluated | None = None
        self._actor: telemetry.ActorStats | None = None

    def write(self, message: telemetry.Message) -> None:
        """Display a message."""
        match message:
            case telemetry.TrainStarted():
                self._show(_TRAINING, message.env_steps, message.total_steps, "")
            case telemetry.TrainProgress():
                self._at = message
                self._show_training()
                if self._line_at_s is None or message.seconds - self._line_at_s >= _LINE_EVERY_S:
                    self._write_line()
            case telemetry.LearningStats():
                self._learning = message
                self._show_training()
            case telemetry.Evaluated():
                self._evaluated = message
                self._show_training()
                self._write_line()
            case telemetry.ActorStats():
                self._actor = message
                self._show_training()
            case telemetry.EvaluationProgress():
                numbers = f"{message.n_done} of {message.n_fights} fights"
                if message.n_wins is not None:
                    numbers += f"  won {_percent(message.n_wins / message.n_done if message.n_done else None)}"
                self._show(_EVALUATING, message.n_done, message.n_fights, numbers)
                if message.n_done == message.n_fights:
                    self._remove(_EVALUATING)
            case telemetry.TrainFinished():
                self.close()
            case _:
                pass

    def close(self) -> None:
        """Stop the progress bar; its last state stays on the screen."""
        for what in tuple(self._tasks):
            self._remove(what)

    def _show_training(self) -> None:
        """Draw the state of the run; before the first progress message there is nothing to draw."""
        if self._at is not None:
            self._show(_TRAINING, self._at.env_steps, self._at.total_steps, "\n".join(self._numbers(self._at)))

    def _write_line(self) -> None:
        """Write the state of the run as a line, unless the output is a terminal."""
        if self._is_file and self._at is not None:
            self._line_at_s = self._at.seconds
            self._progress.console.print("  ".join(self._numbers(self._at)), soft_wrap=True, highlight=False)

    def _numbers(self, at: telemetry.TrainProgress) -> list[str]:
        learner = _learner(self._learning, self._evaluated, self._actor)
        return [_standing(at), learner] if learner else [_standing(at)]

    def _show(self, what: str, completed: int, total: int, numbers: str) -> None:
        if what not in self._tasks:
            self._tasks[what] = self._progress.add_task(what, total=total, completed=completed, numbers=numbers)
            self._progress.start()
        self._progress.update(self._tasks[what], completed=completed, numbers=numbers)

    def _remove(self, what: str) -> None:
        """Remove a bar; the last one stays on the screen."""
        task = self._tasks.pop(what)
        if not self._tasks:
            self._progress.stop()
        self._progress.remove_task(task)


def _standing(message: telemetry.TrainProgress) -> str:
    """Return steps, speed, number of fights and win rate, or mean return if the environment does not report wins."""
    if message.total_steps >= 1_000_000:
        steps = f"{message.env_steps / 1e6:.2f} M steps"
    else:
        steps = f"{message.env_steps / 1e3:.1f} k steps"
    per_second = message.steps_per_second
    speed = f"{per_second / 1e3:.0f} k/s" if per_second >= 10_000 else f"{per_second:.0f}/s"
    has_no_wins = message.mean_return is not None and message.win_rate is None
    success = f"return {message.mean_return:.2f}" if has_no_wins else f"won {_percent(message.win_rate)}"
    return f"{steps}  {speed}  {message.n_fights} fights  {success}"


def _learner(
    learning: telemetry.LearningStats | None, evaluated: telemetry.Evaluated | None, actor: telemetry.ActorStats | None
) -> str:
    """Return the state of the learner, the most important value first; "" if nothing is known."""
    parts = []
    if learning is not None:
        parts.append(f"{learning.updates_per_second:.0f} updates/s")
    if evaluated is not None:
        has_wins = evaluated.win_rate is not None
        parts.append(f"evaluated {_percent(evaluated.win_rate) if has_wins else f'return {evaluated.mean_return:.2f}'}")
        if evaluated.low is not None and evaluated.high is not None:
            parts[-1] += f" ({100.0 * evaluated.low:.0f} to {100.0 * evaluated.high:.0f} %)"
    if actor is not None and actor.n_dropped:
        parts.append(f"{actor.n_dropped} lost")
    if actor is not None and actor.n_late:
        parts.append(f"{actor.n_late} late")
    return "  ".join(parts)


def _percent(share: float | None) -> str:
    return f"{100.0 * share:.1f} %" if share is not None else "-"
