"""One candidate, trained once for each seed, watched all the while."""

from __future__ import annotations

import enum
import logging
import shutil
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

import msgspec

from soulslab.errors import SoulslabError
from soulslab.learn.actors.shared_folder import find_place
from soulslab.learn.runs import BEST_POLICY_NAME, CONFIG_NAME, POLICY_NAME, StopReason
from soulslab.learn.sinks import PROGRESS_NAME, JsonLinesSink
from soulslab.learn.telemetry import Message
from soulslab.learn.train import train
from soulslab.learn.training import AnySettings, load_run_settings
from soulslab.learn.tuning.objective import Measure, run_settings
from soulslab.learn.tuning.settings import StudySettings

REPORTS: Final = 20
"""Places in each run at which candidates are compared."""

ERROR_NAME: Final = "error.txt"
_KEPT: Final = frozenset({CONFIG_NAME, POLICY_NAME, BEST_POLICY_NAME, PROGRESS_NAME})

_log = logging.getLogger(__name__)


class State(enum.StrEnum):
    """How a candidate ended."""

    COMPLETE = "complete"
    PRUNED = "pruned"
    FAILED = "failed"
    KILLED = "killed"
    INTERRUPTED = "interrupted"


class Job(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """What is to be trained.

    Attributes:
        number: Number of the candidate.
        folder: Its folder, which holds its settings.
        study: What is better.
    """

    number: int
    folder: str
    study: StudySettings


class Report(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """How a candidate stands.

    Attributes:
        number: Number of the candidate.
        first_step: First of the places that this is said of, counted through the runs of all seeds, from 1.
        last_step: The last of them.
        value: What it is worth, the runs before included.
    """

    number: int
    first_step: int
    last_step: int
    value: float


class Outcome(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """What became of a candidate.

    Attributes:
        number: Its number.
        state: How it ended.
        value: What it is worth; None if it is not complete.
        values: The same for each seed that was trained to the end.
        env_steps: Game decisions taken, all runs together.
        seconds: Training time, all runs together (s).
        win_rate: Last win rate, mean over the runs that have one; None if none has.
        reason: Why it is not complete; "" if it is.
    """

    number: int
    state: State
    value: float | None = None
    values: tuple[float, ...] = ()
    env_steps: int = 0
    seconds: float = 0.0
    win_rate: float | None = None
    reason: str = ""


class Control(Protocol):
    """Who decides whether a candidate goes on."""

    def report(self, report: Report) -> str:
        """Take a report; return why the candidate ends here, or "" if it goes on."""

    def is_stopped(self) -> bool:
        """Tell whether the whole study ends."""


class _Ended(BaseException):
    """A run is not to go on; no error, for which the run would be saved first: replay buffers are large."""

    def __init__(self, state: State, reason: str) -> None:
        self.state = state
        self.reason = reason
        super().__init__(reason)


def run_trial(job: Job, control: Control) -> Outcome:
    """Train a candidate and say what became of it.

    Whatever goes wrong in a run is the candidate's failure, not the study's: its trace is written to ``error.txt`` in
    the candidate's folder.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed twice.
    """
    folder = Path(job.folder)
    measures: list[Measure] = []
    state, reason = State.COMPLETE, ""
    try:
        settings = load_run_settings(folder / CONFIG_NAME, [])
        for index, seed in enumerate(job.study.seeds):
            run = msgspec.structs.replace(settings.run, seed=seed)
            seeded = run_settings(msgspec.structs.replace(settings, run=run), job.study.objective)
            measures.append(Measure(seeded, job.study))
            _train(seeded, folder / f"seed_{seed}", _Watcher(job, index, measures, control))
    except _Ended as ended:
        state, reason = ended.state, ended.reason
    except Exception as error:  # noqa: BLE001  (settings drawn at random may break anything)
        state, reason = State.FAILED, f"{type(error).__name__}: {error}"
        _note(folder / ERROR_NAME)
    return _outcome(job, state, reason, measures)


def tidy(folder: Path) -> None:
    """Remove what only going on with a run would need: checkpoints and replay buffers are large."""
    for run in folder.glob("seed_*"):
        _end_actor(run)
        for path in run.iterdir():
            if path.name not in _KEPT:
                with suppress(OSError):  # a leftover does no harm
                    shutil.rmtree(path) if path.is_dir() else path.unlink()


def _end_actor(run: Path) -> None:
    """End an actor apart whose learner was cut off, and free the memory that it keeps for one that goes on."""
    if find_place(run) is None:
        return
    from soulslab.learn.rainbow.remote_actor import discard  # noqa: PLC0415  (compiles kernels that few runs need)

    try:
        discard(run)
    except SoulslabError as error:
        _log.warning("%s", error)


def _train(settings: AnySettings, run_dir: Path, watcher: _Watcher) -> None:
    """Train one run, and judge it."""
    try:
        result = train(settings, run_dir, sinks=(JsonLinesSink(run_dir / PROGRESS_NAME), watcher))
    finally:
        tidy(run_dir.parent)
    if result.reason is StopReason.INTERRUPTED:
        raise _Ended(State.INTERRUPTED, "stopped")
    if watcher.value is None:
        raise _Ended(
            State.FAILED,
            f"nothing was measured in {result.env_steps} decisions and {result.train_seconds:.0f} s; make the runs "
            "longer, evaluate more often, or choose an objective that the environment tells (return)",
        )


class _Watcher:
    """Listens to one run of a candidate, and ends it when it is told to."""

    def __init__(self, job: Job, index: int, measures: list[Measure], control: Control) -> None:
        self._job = job
        self._before = [measure.value or 0.0 for measure in measures[:index]]
        self._measure = measures[index]
        self._control = control
        self._told = index * REPORTS  # the last place that was reported
        self._start = index * REPORTS

    @property
    def value(self) -> float | None:
        return self._measure.value

    def write(self, message: Message) -> None:
        """Take in a message; report where the run passes a place."""
        if self._control.is_stopped():
            raise _Ended(State.INTERRUPTED, "stopped")
        if not self._measure.take(message) or self._measure.value is None:
            return
        # At the very end there is nothing left to save by ending it.
        end = len(self._job.study.seeds) * REPORTS - 1
        step = min(self._start + int(self._measure.share * REPORTS), end)
        if step <= self._told:
            return
        value = (sum(self._before) + self._measure.value) / (len(self._before) + 1)
        report = Report(number=self._job.number, first_step=self._told + 1, last_step=step, value=value)
        self._told = step
        reason = self._control.report(report)
        if reason:
            raise _Ended(State.PRUNED, reason)

    def close(self) -> None:
        """Nothing is held."""


def _outcome(job: Job, state: State, reason: str, measures: list[Measure]) -> Outcome:
    n_whole = len(measures) if state is State.COMPLETE else len(measures) - 1
    values = tuple(measure.value for measure in measures[: max(0, n_whole)] if measure.value is not None)
    win_rates = [measure.win_rate for measure in measures if measure.win_rate is not None]
    return Outcome(
        number=job.number,
        state=state,
        value=sum(values) / len(values) if state is State.COMPLETE else None,
        values=values,
        env_steps=sum(measure.env_steps for measure in measures),
        seconds=sum(measure.seconds for measure in measures),
        win_rate=sum(win_rates) / len(win_rates) if win_rates else None,
        reason=reason,
    )


def _note(path: Path) -> None:
    """Write down the error under way."""
    _log.debug("a candidate failed", exc_info=True)
    with suppress(OSError):  # the reason is in the study all the same
        path.write_text(traceback.format_exc(), encoding="utf-8")
