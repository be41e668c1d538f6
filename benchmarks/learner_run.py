"""Training runs of the benchmarks ``learner`` and ``ablation``: the task of a run, and its learning curve."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

import msgspec

from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
from soulslab.learn.telemetry import Evaluated, Message, TrainProgress
from soulslab.learn.train import train_uninterrupted

HALF: Final = 0.5
MOST: Final = 0.8
"""Evaluated win rates for which the decisions are counted."""

Kind = Literal["rainbow", "dqn", "qr_dqn"]


class LearnerTask(msgspec.Struct, frozen=True, kw_only=True):
    """Task of a training run.

    Attributes:
        name: Name in the tables.
        kind: Learner: soulslab's ``rainbow``, or that of a peer.
        is_tuned: A peer uses soulslab's settings where it has equivalents; otherwise its defaults.
        settings: Environment, length, evaluations and seed of every learner, and settings of soulslab's learner.
    """

    name: str
    kind: Kind
    is_tuned: bool = True
    settings: RainbowSettings

    def digest(self) -> str:
        """Return the digest of the task with its settings, 16 hexadecimal digits.

        The folder that contains the recorded fights does not matter: stored runs stay valid if it is moved.
        """
        shown = self.settings.demonstrations
        shown = msgspec.structs.replace(shown, path=Path(shown.path).name)
        unnamed = msgspec.structs.replace(
            self, name="", settings=msgspec.structs.replace(self.settings, demonstrations=shown)
        )
        return hashlib.sha256(msgspec.msgpack.encode(unnamed, order="deterministic")).hexdigest()[:16]


class Point(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """An evaluation during a run.

    Attributes:
        decisions: Game decisions in training after which the evaluation was due. It follows the fight in which they
            were reached, so a little more was played.
        win_rate: Share of the greedy fights won, 0..1.
        mean_return: Mean return of those fights, in the config's reward.
        seconds: Time since the start of the run; for soulslab's learner, its training time (s).
    """

    decisions: int
    win_rate: float
    mean_return: float
    seconds: float


class LearnerRun(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Result of a training run.

    Attributes:
        n_decisions: Game decisions taken in training.
        points: Evaluations, in order.
    """

    n_decisions: int
    points: tuple[Point, ...]

    def decisions_to(self, win_rate: float) -> int | None:
        """Return the decisions at the first evaluation with at least a win rate, or None."""
        return next((point.decisions for point in self.points if point.win_rate >= win_rate), None)

    def final_win_rate(self) -> float:
        """Return the last evaluated win rate, 0..1; 0 if nothing was evaluated."""
        return self.points[-1].win_rate if self.points else 0.0

    def area(self) -> float:
        """Return the mean of the evaluated win rates, 0..1: the area under the curve; 0 if nothing was evaluated."""
        return sum(point.win_rate for point in self.points) / len(self.points) if self.points else 0.0


def play(task: LearnerTask, report: Callable[[Point], None]) -> LearnerRun:
    """Train a learner.

    Args:
        task: Task of the run.
        report: Called with each evaluation.

    Returns:
        Result of the training run.

    Raises:
        ImportError: The peers are not installed.
    """
    points: list[Point] = []

    def keep(point: Point) -> None:
        points.append(point)
        report(point)

    if task.kind == "rainbow":
        n_decisions = _play_ours(task.settings, keep)
    else:
        # Optional and slow to import.
        from benchmarks.learner_peers import play_peer  # noqa: PLC0415

        n_decisions = play_peer(task, keep)
    return LearnerRun(n_decisions=n_decisions, points=tuple(points))


def _play_ours(settings: RainbowSettings, report: Callable[[Point], None]) -> int:
    """Train soulslab's learner and return its game decisions."""
    with TemporaryDirectory(prefix="soulslab-bench-") as folder:
        result = train_uninterrupted(
            settings, Path(folder), sinks=[_EvaluationSink(report, settings.run.evaluate_every)]
        )
    return result.env_steps


class _EvaluationSink:
    """Telemetry sink that reports each evaluation as a point."""

    def __init__(self, report: Callable[[Point], None], evaluate_every: int) -> None:
        self._report = report
        self._every = evaluate_every
        self._start = time.monotonic()
        self._trained_s: float | None = None

    def write(self, message: Message) -> None:
        match message:
            case TrainProgress():
                self._trained_s = message.seconds
            case Evaluated():
                point = Point(
                    decisions=message.env_steps - message.env_steps % self._every,
                    win_rate=message.win_rate or 0.0,
                    mean_return=message.mean_return,
                    seconds=self._trained_s if self._trained_s is not None else time.monotonic() - self._start,
                )
                self._report(point)
            case _:
                pass

    def close(self) -> None:
        """Do nothing."""
