"""Training of one candidate: one run for each seed, with progress reports and the value under the objective.

If a run evaluates its policy, only the evaluations count; otherwise the moving averages of its progress count. The
maximum of many noisy measurements would be biased upwards, so ``win_rate`` and ``return`` are means over the last few
measurements.
"""

from __future__ import annotations

import enum
import logging
import math
import shutil
import traceback
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

import msgspec

from soulslab.errors import SoulslabError
from soulslab.learn.actors import episode_window as episodes
from soulslab.learn.actors.shared_memory import find_memory_folder
from soulslab.learn.ppo import episode_tracker
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
from soulslab.learn.run_folder import BEST_POLICY_NAME, CONFIG_NAME, POLICY_NAME, StopReason
from soulslab.learn.sinks import PROGRESS_NAME, JsonLinesSink
from soulslab.learn.telemetry import Evaluated, Message, TrainFinished, TrainProgress
from soulslab.learn.training import AnySettings, load_run_settings
from soulslab.learn.tuning.settings import Objective, StudySettings

LEVELS: Final[dict[Objective, float]] = {"decisions_to_50": 0.5, "decisions_to_80": 0.8}
"""Win rates of the objectives that count the game decisions until a win rate is reached."""


def is_maximised(objective: Objective) -> bool:
    """Return whether a higher value is better."""
    return objective not in LEVELS


def run_settings(settings: AnySettings, objective: Objective) -> AnySettings:
    """Return the settings of the runs: if the objective is a win rate to reach, a run ends when it is reached."""
    if objective not in LEVELS:
        return settings
    run = msgspec.structs.replace(settings.run, stop_win_rate=LEVELS[objective])
    return msgspec.structs.replace(settings, run=run)


class RunValue:
    """Computes the value of one run, and its last win rate (None before the first), from its messages."""

    def __init__(self, settings: AnySettings, study: StudySettings) -> None:
        self.env_steps = 0
        self.seconds = 0.0
        self.win_rate: float | None = None
        self._run = settings.run
        self._full_window = episodes.WINDOW if isinstance(settings, RainbowSettings) else episode_tracker.WINDOW
        self._objective = study.objective
        self._last: deque[tuple[float | None, float]] = deque(maxlen=study.window)  # win rate, mean return
        self._best_win_rate = 0.0
        self._reached_at: int | None = None

    def take(self, message: Message) -> bool:
        """Process a message of the run; return whether it was a measurement."""
        match message:
            case TrainProgress():
                self.env_steps, self.seconds = message.env_steps, message.seconds
                if self._run.evaluate_every or message.mean_return is None:
                    return False
                # An average over less than a full window is noisy: a level may be reached by chance.
                is_solid = message.n_fights >= self._full_window
                self._add(message.win_rate, message.mean_return, is_solid=is_solid)
            case Evaluated() if self._run.evaluate_every:
                self.env_steps = message.env_steps
                self._add(message.win_rate, message.mean_return, is_solid=True)
            case _:
                return False
        return True

    @property
    def share(self) -> float:
        """Completed share of the run, 0..1: the larger of the shares of its decisions and of its time."""
        return min(1.0, max(self.env_steps / self._run.total_steps, self.seconds / self._run.max_seconds))

    @property
    def value(self) -> float | None:
        """Present value of the run; None before the first measurement.

        For ``decisions_to_50`` and ``decisions_to_80`` it is the number of decisions, at most ``run.total_steps``. If
        the level was not reached, it is between one and two times ``run.total_steps``; a higher best win rate gives a
        lower value.
        """
        if not self._last:
            return None
        if self._objective == "return":
            return sum(mean_return for _, mean_return in self._last) / len(self._last)
        known = [win_rate for win_rate, _ in self._last if win_rate is not None]
        if not known:
            return None
        if self._objective == "win_rate":
            return sum(known) / len(known)
        if self._reached_at is not None:
            return float(min(self._reached_at, self._run.total_steps))
        best = min(self._best_win_rate, LEVELS[self._objective])
        return self._run.total_steps * (2.0 - best / LEVELS[self._objective])

    def _add(self, win_rate: float | None, mean_return: float, *, is_solid: bool) -> None:
        self._last.append((win_rate, mean_return))
        if win_rate is None:
            return
        self.win_rate = win_rate
        if not is_solid:
            return
        self._best_win_rate = max(self._best_win_rate, win_rate)
        if win_rate >= LEVELS.get(self._objective, math.inf) and self._reached_at is None:
            self._reached_at = self.env_steps


REPORTS_PER_RUN: Final = 20
"""Number of points in each run at which candidates are compared."""

ERROR_NAME: Final = "error.txt"
_KEPT: Final = frozenset({CONFIG_NAME, POLICY_NAME, BEST_POLICY_NAME, PROGRESS_NAME})

_log = logging.getLogger(__name__)


class TrialStatus(enum.StrEnum):
    """How a candidate ended."""

    COMPLETE = "complete"
    PRUNED = "pruned"
    FAILED = "failed"
    KILLED = "killed"
    INTERRUPTED = "interrupted"


class TrialJob(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """A candidate to train; the folder holds its settings."""

    number: int
    folder: str
    study: StudySettings


class TrialReport(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Progress of a candidate between two points, counted through the runs of all seeds, from 1.

    ``value`` is the mean value of the runs so far, including the present one.
    """

    number: int
    first_step: int
    last_step: int
    value: float


class TrialOutcome(msgspec.Struct, frozen=True, tag="Outcome", kw_only=True):
    """Result of a candidate: totals over all runs, and the values of the complete runs.

    ``value`` is the mean over all seeds, None if it is not complete; ``reason`` then names the cause. ``win_rate`` is
    the mean of the last win rates of the runs.
    """

    number: int
    state: TrialStatus
    value: float | None = None
    values: tuple[float, ...] = ()
    env_steps: int = 0
    seconds: float = 0.0
    win_rate: float | None = None
    reason: str = ""


class Control(Protocol):
    """Decides whether the training of a candidate continues."""

    def report(self, report: TrialReport) -> str:
        """Process a report; return the reason to end the candidate, or "" to continue."""

    def is_stopped(self) -> bool:
        """Return whether the study has been stopped."""


class _Ended(BaseException):
    """Ends a run; a BaseException, so that the training loop does not save the run (large replay buffers)."""

    def __init__(self, state: TrialStatus, reason: str) -> None:
        self.state = state
        self.reason = reason
        super().__init__(reason)


def run_trial(job: TrialJob, control: Control) -> TrialOutcome:
    """Train a candidate and return its outcome.

    An error in a run ends the candidate, not the study: the traceback is written to ``error.txt`` in the folder of the
    candidate. Ctrl-C twice raises KeyboardInterrupt.
    """
    folder = Path(job.folder)
    measures: list[RunValue] = []
    state, reason = TrialStatus.COMPLETE, ""
    try:
        settings = load_run_settings(folder / CONFIG_NAME, [])
        for seed in job.study.seeds:
            run = msgspec.structs.replace(settings.run, seed=seed)
            seeded = run_settings(msgspec.structs.replace(settings, run=run), job.study.objective)
            measures.append(RunValue(seeded, job.study))
            _train(seeded, folder / f"seed_{seed}", _Watcher(job, measures, control))
    except _Ended as ended:
        state, reason = ended.state, ended.reason
    except Exception as error:  # noqa: BLE001  (settings drawn at random may cause any error)
        state, reason = TrialStatus.FAILED, f"{type(error).__name__}: {error}"
        _log.debug("a candidate failed", exc_info=True)
        with suppress(OSError):  # the reason is recorded in the study too
            (folder / ERROR_NAME).write_text(traceback.format_exc(), encoding="utf-8")
    return _outcome(job, state, reason, measures)


def remove_unneeded_files(folder: Path) -> None:
    """Remove the files that only a resumed run needs: checkpoints and replay buffers are large."""
    for run in folder.glob("seed_*"):
        if find_memory_folder(run) is not None:  # a remote actor may still run
            from soulslab.learn.rainbow.remote_actor import discard  # noqa: PLC0415  (compiles kernels; rarely needed)

            try:
                discard(run)
            except SoulslabError as error:
                _log.warning("%s", error)
        for path in run.iterdir():
            if path.name not in _KEPT:
                with suppress(OSError):  # a file that remains does no harm
                    shutil.rmtree(path) if path.is_dir() else path.unlink()


def _train(settings: AnySettings, run_dir: Path, watcher: _Watcher) -> None:
    from soulslab.learn.train import train  # noqa: PLC0415  (imports torch, which takes a second)

    try:
        result = train(settings, run_dir, sinks=(JsonLinesSink(run_dir / PROGRESS_NAME), watcher))
    except _Ended as ended:
        _note_end(run_dir / PROGRESS_NAME, watcher.measure, ended.state)
        raise
    finally:
        remove_unneeded_files(run_dir.parent)
    if result.reason is StopReason.INTERRUPTED:
        raise _Ended(TrialStatus.INTERRUPTED, "stopped")
    if watcher.measure.value is None:
        raise _Ended(
            TrialStatus.FAILED,
            f"nothing was measured in {result.env_steps} decisions and {result.train_seconds:.0f} s; make the runs "
            "longer, evaluate more often, or choose an objective that the environment reports (return)",
        )


def _note_end(path: Path, measure: RunValue, state: TrialStatus) -> None:
    """Write the end of a run that the study ended, so that readers of its telemetry know why."""
    sink = JsonLinesSink(path)
    try:
        sink.write(TrainFinished(env_steps=measure.env_steps, seconds=measure.seconds, reason=state.value))
    finally:
        sink.close()


class _Watcher:
    """Telemetry sink of one run: reports the value of the run, and ends the run if the study demands it."""

    def __init__(self, job: TrialJob, measures: list[RunValue], control: Control) -> None:
        index = len(measures) - 1
        self._job = job
        self._before = [measure.value or 0.0 for measure in measures[:index]]
        self.measure = measures[index]
        self._control = control
        self._start = self._last_reported = index * REPORTS_PER_RUN  # points, as in `TrialReport`

    def write(self, message: Message) -> None:
        """Process a message; send a report when the run passes a point."""
        if self._control.is_stopped():
            raise _Ended(TrialStatus.INTERRUPTED, "stopped")
        if not self.measure.take(message) or self.measure.value is None:
            return
        # Pruning at the very end would save no time.
        end = len(self._job.study.seeds) * REPORTS_PER_RUN - 1
        step = min(self._start + int(self.measure.share * REPORTS_PER_RUN), end)
        if step <= self._last_reported:
            return
        value = (sum(self._before) + self.measure.value) / (len(self._before) + 1)
        report = TrialReport(number=self._job.number, first_step=self._last_reported + 1, last_step=step, value=value)
        self._last_reported = step
        if reason := self._control.report(report):
            raise _Ended(TrialStatus.PRUNED, reason)

    def close(self) -> None:
        """Do nothing."""


def _outcome(job: TrialJob, state: TrialStatus, reason: str, measures: list[RunValue]) -> TrialOutcome:
    whole = measures if state is TrialStatus.COMPLETE else measures[:-1]
    values = tuple(measure.value for measure in whole if measure.value is not None)
    win_rates = [measure.win_rate for measure in measures if measure.win_rate is not None]
    return TrialOutcome(
        number=job.number,
        state=state,
        value=sum(values) / len(values) if state is TrialStatus.COMPLETE else None,
        values=values,
        env_steps=sum(measure.env_steps for measure in measures),
        seconds=sum(measure.seconds for measure in measures),
        win_rate=sum(win_rates) / len(win_rates) if win_rates else None,
        reason=reason,
    )
