"""The runs below a folder: which ones there are, their state, and a summary of each."""

from __future__ import annotations

import enum
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from soulslab.config.loading import read_toml
from soulslab.config.shell_words import shell_word
from soulslab.dashboard.run_log import DECISION_S, RunLog, last_evaluation, read_ends, win_rate_window
from soulslab.dashboard.run_starter import LOG_NAME, RunStarter
from soulslab.errors import ConfigError, SoulslabError
from soulslab.learn import telemetry
from soulslab.learn.evaluate import wilson_interval
from soulslab.learn.live_feed import FEED_NAME
from soulslab.learn.process_lock import is_held
from soulslab.learn.run_folder import CONFIG_NAME, LOCK_NAME, StopReason
from soulslab.learn.sinks import PROGRESS_NAME
from soulslab.learn.tuning.study_folder import STUDY_NAME
from soulslab.learn.tuning.trial import TrialStatus

T = TypeVar("T")

STALE_S: Final = 120.0
"""A run that holds its lock is stale if its last message is older than this (s)."""

FLEET_NAME: Final = "fleet"
"""Folder in the folder of a run that has a fleet."""

MAX_DEPTH: Final = 4
"""Depth below the root at which runs are found; a study has its runs at ``study/trials/0007/seed_0``."""

_MAX_LOGS: Final = 64
_SEARCH_EVERY_S: Final = 1.0


class RunState(enum.StrEnum):
    """State of a run."""

    RUNNING = "running"
    STALE = "stale"
    FINISHED = "finished"
    STOPPED = "stopped"
    PRUNED = "pruned"
    FAILED = "failed"
    NEW = "new"


STATE_MEANINGS: Final = {
    RunState.RUNNING: "A process trains in this folder.",
    RunState.STALE: f"A process holds this folder, but has sent no message for {STALE_S:.0f} s.",
    RunState.FINISHED: "The run reached one of its limits.",
    RunState.STOPPED: "The run was interrupted and saved; it can be resumed.",
    RunState.PRUNED: "The study ended this run early, because others were better.",
    RunState.FAILED: "The process ended without finishing the run; it can be resumed from its last checkpoint.",
    RunState.NEW: "The run has sent no message since it was started.",
}


_STATES_BY_REASON: Final = {
    StopReason.INTERRUPTED.value: RunState.STOPPED,
    StopReason.REQUESTED.value: RunState.STOPPED,
    TrialStatus.PRUNED.value: RunState.PRUNED,
}


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Summary of a run in the list of runs.

    Attributes:
        run_id: Path relative to the root, with ``/``; the name of the root if it is a run itself.
        state: State of the run.
        reason: Why it ended, "" if it has not.
        env_id: Gymnasium id; "" before the first message.
        env_steps: Game decisions.
        total_steps: Game decisions at which the run is complete.
        game_hours: Game time of the decisions (h).
        train_hours: Training time (h).
        steps_per_second: Game decisions per second in the last message; None unless the run is running.
        win_rate: Evaluated win rate, or that of the last fights without an evaluation, in %; None if unknown.
        low: Lower end of its 95 % Wilson interval, in %.
        high: Upper end of that interval, in %.
        is_evaluated: Whether the win rate is an evaluated one.
        mean_return: Mean return of the last fights.
        last_wall_s: Wall time of the last message (Unix time, s).
        sparkline: Some win rates in %, or returns without win rates, in order.
    """

    run_id: str
    state: RunState
    reason: str = ""
    env_id: str = ""
    env_steps: int = 0
    total_steps: int = 0
    game_hours: float = 0.0
    train_hours: float = 0.0
    steps_per_second: float | None = None
    win_rate: float | None = None
    low: float | None = None
    high: float | None = None
    is_evaluated: bool = False
    mean_return: float | None = None
    last_wall_s: float | None = None
    sparkline: tuple[float, ...] = ()


class Controls(NamedTuple):
    """Whether a run can be stopped and saved, whether it can be resumed, and why a control is missing."""

    can_stop: bool
    can_resume: bool
    reason: str = ""


class _Listed(msgspec.Struct):
    """The last summary of a run, with the size and the time of the file that it was made from."""

    stamp: tuple[int, int]
    summary: RunSummary


class RunLibrary:
    """All runs below a folder; `root` may itself be a run, and need not exist yet.

    Attributes:
        root: The folder.
        starter: Starts and resumes runs.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.starter = RunStarter()
        self._listed: dict[str, _Listed] = {}
        self._logs: dict[str, RunLog] = {}
        # Pages read in threads. The logs have a separate lock, because reading a long one takes a second.
        self._lock = threading.RLock()
        self._reading = threading.Lock()
        self._ids: list[str] = []
        self._is_run = False
        self._searched_s = float("-inf")

    def run_ids(self) -> list[str]:
        """Return the ids of all runs, in alphabetical order; the folder is searched at most once a second."""
        with self._lock:
            if time.monotonic() - self._searched_s >= _SEARCH_EVERY_S:
                self._search()
            return self._ids

    def folder(self, run_id: str) -> Path | None:
        """Return the folder of a run; None for an id that is not in the library, such as a path outside of it."""
        with self._lock:
            if run_id not in self.run_ids():
                self._search()  # a run may have begun since the last search
            return self.path(run_id) if run_id in self._ids else None

    def _search(self) -> None:
        """Find the ids of all runs."""
        self._is_run = _is_run(self.root)
        self._ids = [self.root.resolve().name] if self._is_run else sorted(self._find(self.root, 0))
        self._searched_s = time.monotonic()

    def summaries(self) -> list[RunSummary]:
        """Return a summary of every run, the one with the newest message first."""
        found = [self.summary(run_id) for run_id in self.run_ids()]
        return sorted(found, key=lambda each: (-(each.last_wall_s or 0.0), each.run_id))

    def summary(self, run_id: str) -> RunSummary:
        """Return the summary of a run; it is computed again only if its file or its state changed."""
        with self._lock:
            return self._summary(run_id)

    def _summary(self, run_id: str) -> RunSummary:
        folder = self.path(run_id)
        stamp = _stamp(folder / PROGRESS_NAME)
        listed = self._listed.get(run_id)
        if listed is None or listed.stamp != stamp:
            listed = _Listed(stamp, _summarise(run_id, folder, self.decision_s(run_id)))
            self._listed[run_id] = listed
        is_starting = self.starter.is_starting(folder, listed.summary.last_wall_s)
        state = _state(folder, listed.summary, is_starting=is_starting)
        if state is not listed.summary.state:
            listed.summary = msgspec.structs.replace(listed.summary, state=state)
        return listed.summary

    def controls(self, run_id: str) -> Controls:
        """Return what can be done with a run now."""
        state, folder = self.summary(run_id).state, self.path(run_id).resolve()
        is_running = state in (RunState.RUNNING, RunState.STALE)
        has_ended = state in (RunState.STOPPED, RunState.FAILED)
        study = folder.parents[2] if len(folder.parents) > 2 else folder
        if (study / STUDY_NAME).exists():
            # A trial that is stopped ends the study, as Ctrl-C does.
            return Controls(False, False, f"This run belongs to the study {study.name}, which starts and ends it.")
        if has_ended and (folder / FLEET_NAME).is_dir():
            return Controls(False, False, f"Resume this fleet with: soulslab fleet learn --resume {shell_word(folder)}")
        return Controls(is_running, has_ended)

    def resume(self, run_id: str) -> None:
        """Resume a run; raises ConfigError if that is not possible now."""
        with self._lock:  # two pages may resume a run at the same time
            controls = self.controls(run_id)
            if not controls.can_resume:
                state = self.summary(run_id).state
                problem = controls.reason or f"is {state}; only a run that was stopped or has failed can be resumed"
                raise ConfigError(problem, source=run_id)
            self.starter.resume(self.path(run_id))

    def read(self, run_id: str, make: Callable[[RunLog], T]) -> T:
        """Return what a function makes of the measurements of a run, updated, in one thread at a time."""
        with self._reading:
            return make(self._log(run_id))

    def _log(self, run_id: str) -> RunLog:
        """Return the measurements of a run, updated; the least recently used ones are forgotten."""
        folder = self.path(run_id)
        log = self._logs.pop(run_id, None) or RunLog(folder / PROGRESS_NAME)
        log.update()
        self._logs[run_id] = log
        while len(self._logs) > _MAX_LOGS:
            del self._logs[next(iter(self._logs))]
        return log

    def settings(self, run_id: str) -> dict[str, Any]:
        """Return the settings of a run as one flat table; empty if the file is missing or malformed."""
        folder = self.path(run_id)
        try:
            return _flat(read_toml(folder / CONFIG_NAME))
        except SoulslabError:
            return {}

    def decision_s(self, run_id: str) -> float:
        """Return the game time of a decision (s)."""
        step_ms = self.settings(run_id).get("env.options.step_ms")
        return step_ms / 1000.0 if isinstance(step_ms, int | float) and step_ms > 0 else DECISION_S

    @property
    def is_single(self) -> bool:
        """Whether the folder is that of one run, the only one in this library."""
        with self._lock:
            self.run_ids()
            return self._is_run

    def path(self, run_id: str) -> Path:
        """Return the folder of a run that is in the library."""
        return self.root if self._is_run else self.root / run_id

    def _find(self, folder: Path, depth: int) -> list[str]:
        if _is_run(folder):
            return [folder.relative_to(self.root).as_posix()]
        if depth == MAX_DEPTH:
            return []
        try:
            # Path.is_dir raises an error for an entry that may not be examined, and the others would be lost with it.
            inner = [each for each in folder.iterdir() if not each.name.startswith(".") and os.path.isdir(each)]  # noqa: PTH112
        except OSError:
            return []
        return [run_id for each in inner for run_id in self._find(each, depth + 1)]


def _is_run(folder: Path) -> bool:
    """Return whether a folder is that of a run; False for one that may not be searched, as that of another user."""
    # Path.exists raises PermissionError before Python 3.14.
    return any(os.path.exists(folder / name) for name in (PROGRESS_NAME, LOCK_NAME, FEED_NAME, LOG_NAME))  # noqa: PTH110


def _stamp(path: Path) -> tuple[int, int]:
    try:
        about = path.stat()
    except OSError:
        return (0, 0)
    return about.st_size, about.st_mtime_ns


def _state(folder: Path, summary: RunSummary, *, is_starting: bool) -> RunState:
    """Return the state of a run from its lock and its last message; a process that starts takes the lock late."""
    try:
        is_locked = is_held(folder / LOCK_NAME)
    except OSError:
        is_locked = False
    if is_locked:
        age_s = time.time() - summary.last_wall_s if summary.last_wall_s is not None else 0.0
        return RunState.STALE if age_s > STALE_S and not is_starting else RunState.RUNNING
    if is_starting:
        return RunState.NEW
    if summary.reason:
        return _STATES_BY_REASON.get(summary.reason, RunState.FINISHED)
    has_begun = summary.last_wall_s is not None or (folder / LOG_NAME).exists()
    return RunState.FAILED if has_begun else RunState.NEW


def _summarise(run_id: str, folder: Path, decision_s: float) -> RunSummary:
    """Return the summary of a run from a sample of its messages."""
    found: dict[type[telemetry.Message], Any] = {}
    evaluated: list[telemetry.Evaluated] = []
    reports: list[telemetry.TrainProgress] = []
    wall_s: float | None = None
    total_steps = 0  # of the last message that has it: a run may be resumed with another one
    for message, at_s in read_ends(folder / PROGRESS_NAME):
        wall_s = at_s
        if isinstance(message, telemetry.TrainStarted):  # a resumed run repeats what followed its checkpoint
            start = message.env_steps
            found = {kind: each for kind, each in found.items() if getattr(each, "env_steps", 0) <= start}
            evaluated = [each for each in evaluated if each.env_steps <= start]
            reports = [each for each in reports if each.env_steps <= start]
        if isinstance(message, telemetry.TrainStarted | telemetry.TrainProgress):
            found.pop(telemetry.TrainFinished, None)  # nothing follows the end but a resume
            total_steps = message.total_steps
        found[type(message)] = message
        if isinstance(message, telemetry.Evaluated) and message.win_rate is not None:
            evaluated.append(message)
        elif isinstance(message, telemetry.TrainProgress):
            reports.append(message)
    newest = last_evaluation(folder / PROGRESS_NAME)  # evaluations are rare, so the sample may not have it
    if newest is not None:
        found[telemetry.Evaluated] = newest
    evaluated_rates = [100.0 * (each.win_rate or 0.0) for each in evaluated]
    rates = [100.0 * each.win_rate for each in reports if each.win_rate is not None]
    returns = [each.mean_return for each in reports if each.mean_return is not None]
    at: telemetry.TrainProgress | None = found.get(telemetry.TrainProgress)
    started: telemetry.TrainStarted | None = found.get(telemetry.TrainStarted)
    finished: telemetry.TrainFinished | None = found.get(telemetry.TrainFinished)
    window = win_rate_window(is_rainbow=telemetry.LearningStats in found)
    win_rate, low, high, is_evaluated = _win_rate(found.get(telemetry.Evaluated), at, window)
    env_steps = at.env_steps if at is not None else started.env_steps if started is not None else 0
    return RunSummary(
        run_id=run_id,
        state=RunState.NEW,
        reason=finished.reason if finished is not None else "",
        env_id=started.env_id if started is not None else "",
        env_steps=env_steps,
        total_steps=total_steps,
        game_hours=env_steps * decision_s / 3600.0,
        train_hours=at.seconds / 3600.0 if at is not None else 0.0,
        steps_per_second=at.steps_per_second if at is not None and finished is None else None,
        win_rate=win_rate,
        low=low,
        high=high,
        is_evaluated=is_evaluated,
        mean_return=at.mean_return if at is not None else None,
        last_wall_s=wall_s,
        sparkline=_thin(evaluated_rates if len(evaluated_rates) > 2 else rates or returns),
    )


def _win_rate(
    evaluated: telemetry.Evaluated | None, at: telemetry.TrainProgress | None, window: int
) -> tuple[float | None, float | None, float | None, bool]:
    """Return a win rate and its interval, in %, and whether it is an evaluated one."""
    if evaluated is not None and evaluated.win_rate is not None:
        low, high = (100.0 * end if end is not None else None for end in (evaluated.low, evaluated.high))
        return 100.0 * evaluated.win_rate, low, high, True
    if at is None or at.win_rate is None:
        return None, None, None, False
    n = max(1, min(at.n_fights, window))
    ends = wilson_interval(round(at.win_rate * n), n)
    return 100.0 * at.win_rate, 100.0 * ends.low, 100.0 * ends.high, False


def _thin(values: list[float], n: int = 60) -> tuple[float, ...]:
    """Return at most ``n`` evenly spaced values, with the last one."""
    step = -(-len(values) // n) if values else 1
    return tuple(reversed(values[::-1][::step]))


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
