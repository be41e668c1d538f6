"""The listeners that soulslab ships: a progress bar, a file of JSON lines, TensorBoard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column

from soulslab.errors import MissingDependencyError
from soulslab.learn.telemetry import (
    EvaluationProgress,
    Message,
    Sink,
    TrainFinished,
    TrainProgress,
    TrainStarted,
    UpdateStats,
)

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

_NO_NUMBER: Final = "-"

PROGRESS_NAME: Final = "progress.jsonl"
TENSORBOARD_NAME: Final = "tensorboard"


class ConsoleSink:
    """A progress bar with win rate, speed and time left."""

    def __init__(self, console: Console | None = None) -> None:
        """Draw on a console.

        Args:
            console: By default a new one on standard error, so that standard output stays clean.
        """
        self._progress = Progress(
            # In 80 columns the bar gives way to the numbers.
            BarColumn(bar_width=16, table_column=Column(min_width=4, ratio=1)),
            TextColumn("{task.fields[numbers]}", table_column=Column(no_wrap=True)),
            TimeRemainingColumn(elapsed_when_finished=True),
            expand=True,
            console=console or Console(stderr=True),
        )
        self._task: TaskID | None = None

    def write(self, message: Message) -> None:
        """Show a message."""
        match message:
            case TrainStarted():
                self._show("training", message.env_steps, message.total_steps, "")
            case TrainProgress():
                numbers = (
                    f"{message.env_steps / 1e6:.2f} M steps  {message.steps_per_second / 1e3:.0f} k/s  "
                    f"{message.n_fights} fights  {_success(message)}"
                )
                self._show("training", message.env_steps, message.total_steps, numbers)
            case EvaluationProgress():
                share = message.n_wins / message.n_done if message.n_done else None
                numbers = f"{message.n_done} of {message.n_fights} fights  won {_percent(share)}"
                self._show("evaluating", message.n_done, message.n_fights, numbers)
                if message.n_done == message.n_fights:
                    self._stop()
            case TrainFinished():
                self._stop()
            case _:
                pass

    def close(self) -> None:
        """Leave the bar as it stands."""
        self._stop()

    def _show(self, what: str, completed: int, total: int, numbers: str) -> None:
        if self._task is None:
            self._task = self._progress.add_task(what, total=total, completed=completed, numbers=numbers)
            self._progress.start()
        self._progress.update(self._task, completed=completed, numbers=numbers)

    def _stop(self) -> None:
        if self._task is not None:
            self._progress.stop()
            self._progress.remove_task(self._task)
            self._task = None


class JsonLinesSink:
    """Appends every message to a file, one JSON object per line; a field ``type`` tells which.

    A resumed run appends to what is there, less a last line that a crash cut off.
    """

    def __init__(self, path: Path) -> None:
        """Open the file.

        Args:
            path: The file; its folder is made if needed.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a+b")
        self._drop_half_line()

    def write(self, message: Message) -> None:
        """Append a message."""
        self._file.write(msgspec.json.encode(message) + b"\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _drop_half_line(self) -> None:
        """Remove what a crash left of its last line, so that the next one stands alone."""
        self._file.seek(0)
        whole = self._file.read().rfind(b"\n") + 1
        self._file.truncate(whole)

    def __enter__(self) -> JsonLinesSink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class TensorBoardSink:
    """Writes every number of a run as a TensorBoard scalar, against the game decisions."""

    def __init__(self, folder: Path) -> None:
        """Open a log.

        Args:
            folder: TensorBoard's log folder for this run.

        Raises:
            MissingDependencyError: TensorBoard is not installed.
        """
        try:
            # Half a second to import, for a sink that not every run has.
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415
        except ImportError as error:
            raise MissingDependencyError("tensorboard", "learn") from error
        self._writer: SummaryWriter = SummaryWriter(str(folder))

    def write(self, message: Message) -> None:
        """Log a message's numbers."""
        match message:
            case TrainProgress():
                self._log("train", message)
            case UpdateStats():
                self._log("update", message)
            case _:
                pass

    def close(self) -> None:
        """Flush and close the log."""
        self._writer.close()

    def _log(self, group: str, message: TrainProgress | UpdateStats) -> None:
        for name, value in msgspec.structs.asdict(message).items():
            if name not in {"env_steps", "total_steps"} and value is not None:
                self._writer.add_scalar(f"{group}/{name}", value, message.env_steps)


def run_sinks(run_dir: Path) -> tuple[Sink, ...]:
    """Return the listeners of a run that a person watches: progress bar, JSON lines and TensorBoard in its folder."""
    return (ConsoleSink(), JsonLinesSink(run_dir / PROGRESS_NAME), TensorBoardSink(run_dir / TENSORBOARD_NAME))


def read_json_lines(path: Path) -> Iterator[Message]:
    """Yield the messages of a file that :class:`JsonLinesSink` wrote.

    A last line that was cut off by a crash is left out.
    """
    decoder = msgspec.json.Decoder(Message)
    for line in path.read_bytes().split(b"\n")[:-1]:
        yield decoder.decode(line)


def _success(message: TrainProgress) -> str:
    """Return the win rate, or the mean return where nobody can win."""
    if message.win_rate is None and message.mean_return is not None:
        return f"return {message.mean_return:.2f}"
    return f"won {_percent(message.win_rate)}"


def _percent(share: float | None) -> str:
    return _NO_NUMBER if share is None else f"{100.0 * share:.1f} %"
