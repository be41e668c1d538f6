"""The listeners that soulslab ships: a progress bar, a file of JSON lines, TensorBoard."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column

from soulslab.errors import CheckpointError, CorruptCheckpointError, MissingDependencyError
from soulslab.learn.archive import writing
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

_log = logging.getLogger(__name__)


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

    The file is opened at the first message, so that a run that never begins leaves nothing behind. A resumed run
    appends to what is there, less a last line that a crash cut off.
    """

    def __init__(self, path: Path) -> None:
        """Choose the file.

        Args:
            path: The file; its folder is made if needed.
        """
        self._path = path
        self._file: BinaryIO | None = None

    def write(self, message: Message) -> None:
        """Append a message.

        Raises:
            CheckpointError: The file cannot be written.
        """
        with writing(self._path):
            if self._file is None:
                self._file = self._open()
            self._file.write(msgspec.json.encode(message) + b"\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with writing(self._path):
                self._file.close()

    def _open(self) -> BinaryIO:
        """Open the file, less what a crash left of its last line, so that the next one stands alone."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = self._path.open("a+b")
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        return file

    def __enter__(self) -> JsonLinesSink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class TensorBoardSink:
    """Writes every number of a run as a TensorBoard scalar, against the game decisions.

    The log is opened at the first message, so that a run that never begins leaves nothing behind.
    """

    def __init__(self, folder: Path) -> None:
        """Choose the log.

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
        self._open: Callable[[str], SummaryWriter] = SummaryWriter
        self._folder = folder
        self._writer: SummaryWriter | None = None

    def write(self, message: Message) -> None:
        """Log a message's numbers.

        Raises:
            CheckpointError: The folder cannot be written.
        """
        with writing(self._folder):
            if self._writer is None:
                self._writer = self._open(str(self._folder))
            match message:
                case TrainProgress():
                    _log_numbers(self._writer, "train", message)
                case UpdateStats():
                    _log_numbers(self._writer, "update", message)
                case _:
                    pass

    def close(self) -> None:
        """Flush and close the log."""
        if self._writer is not None:
            with writing(self._folder):
                self._writer.close()


def run_sinks(run_dir: Path) -> tuple[Sink, ...]:
    """Return the listeners of a run that a person watches: progress bar, JSON lines and TensorBoard in its folder."""
    return (ConsoleSink(), JsonLinesSink(run_dir / PROGRESS_NAME), TensorBoardSink(run_dir / TENSORBOARD_NAME))


def read_json_lines(path: Path) -> Iterator[Message]:
    """Yield the messages of a file that :class:`JsonLinesSink` wrote.

    A last line that was cut off by a crash is left out, with a warning.

    Raises:
        CheckpointError: The file cannot be read.
        CorruptCheckpointError: A line is no message.
    """
    try:
        *lines, rest = path.read_bytes().split(b"\n")
    except OSError as error:
        raise CheckpointError(path, f"cannot be read: {error.strerror or error}") from error
    decoder = msgspec.json.Decoder(Message)
    for number, line in enumerate(lines, start=1):
        try:
            yield decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise CorruptCheckpointError(
                path, f"line {number} is no message of a run ({error}); remove that line, or the file"
            ) from error
    if rest:
        _log.warning("%s: left out line %d, which was cut off", path, len(lines) + 1)


def _log_numbers(writer: SummaryWriter, group: str, message: TrainProgress | UpdateStats) -> None:
    for name, value in msgspec.structs.asdict(message).items():
        if name not in {"env_steps", "total_steps"} and value is not None:
            writer.add_scalar(f"{group}/{name}", value, message.env_steps)


def _success(message: TrainProgress) -> str:
    """Return the win rate, or the mean return where nobody can win."""
    if message.win_rate is None and message.mean_return is not None:
        return f"return {message.mean_return:.2f}"
    return f"won {_percent(message.win_rate)}"


def _percent(share: float | None) -> str:
    return _NO_NUMBER if share is None else f"{100.0 * share:.1f} %"
