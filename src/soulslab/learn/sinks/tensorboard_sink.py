"""A telemetry sink for TensorBoard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from soulslab.errors import MissingDependencyError
from soulslab.learn.archive import writing
from soulslab.learn.sinks.metric_names import numbers, values
from soulslab.learn.telemetry import EvaluationProgress, Message, TrainStarted

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

_FLUSH_S: Final = 10
#: Charts with several curves, on the tab "Custom Scalars": patterns of tags, or the tags of a curve with its margins.
_CHARTS: Final[dict[str, dict[str, list[Any]]]] = {
    "evaluation": {
        "win rate, 95 % interval": ["Margin", ["evaluation/win_rate", "evaluation/low", "evaluation/high"]],
    },
    "fights": {
        "return by term of the reward": ["Multiline", ["fight/reward/.*"]],
        "damage taken by attack (HP)": ["Multiline", ["fight/damage/.*"]],
        "fights ended by attack": ["Multiline", ["fight/kills/.*"]],
    },
}


class TensorBoardSink:
    """Writes the numbers of a run as TensorBoard scalars, and the actions as a histogram, by game decisions.

    The log is opened at the first message, so that a run that fails to start leaves no file. A resumed run hides the
    earlier values after the checkpoint from which it continues.
    """

    def __init__(self, folder: Path) -> None:
        """Set the folder of the log; raises MissingDependencyError without TensorBoard."""
        try:
            # Imported here because it takes half a second and not every run needs it.
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415
        except ImportError as error:
            raise MissingDependencyError("tensorboard", "learn") from error
        self._open: Callable[..., SummaryWriter] = SummaryWriter
        self._folder = folder
        self._writer: SummaryWriter | None = None

    def write(self, message: Message) -> None:
        """Log the numbers of a message; raises CheckpointError if the folder cannot be written."""
        with writing(self._folder):
            if self._writer is None:
                lost_from = message.env_steps + 1 if isinstance(message, TrainStarted) and message.is_resumed else None
                self._writer = self._open(str(self._folder), purge_step=lost_from, flush_secs=_FLUSH_S)
                self._writer.add_custom_scalars(_CHARTS)
            if isinstance(message, EvaluationProgress):
                return
            for number in (number for number in numbers(type(message)) if number.tag):
                found = values(number, message)
                if number.is_histogram:
                    _add_histogram(self._writer, number.tag, [value for _, value in found], message.env_steps)
                    continue
                for label, value in found:
                    tag = f"{number.tag}/{label}" if label else number.tag
                    self._writer.add_scalar(tag, value, message.env_steps)

    def close(self) -> None:
        """Flush and close the log."""
        if self._writer is not None:
            with writing(self._folder):
                self._writer.close()


def _add_histogram(writer: SummaryWriter, tag: str, shares: Sequence[float], env_steps: int) -> None:
    """Log shares, (A,), as a histogram with one bucket for each index."""
    numbered = list(enumerate(shares))
    writer.add_histogram_raw(
        tag,
        min=-0.5,
        max=len(shares) - 0.5,
        num=sum(shares),
        sum=sum(number * share for number, share in numbered),
        sum_squares=sum(number**2 * share for number, share in numbered),
        bucket_limits=[number + 0.5 for number, _ in numbered],
        bucket_counts=list(shares),
        global_step=env_steps,
    )
