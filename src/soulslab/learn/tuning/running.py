"""The search loop of a study: draw a candidate, train it, record the result, until the budget is used."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import gymnasium
import msgspec

from soulslab.config import dump_settings
from soulslab.errors import ConfigError, StudyError, optional_imports
from soulslab.learn.archive import write_atomically, writing
from soulslab.learn.run_folder import CONFIG_NAME
from soulslab.learn.stop_request import StopRequest
from soulslab.learn.training import AnySettings
from soulslab.learn.tuning.settings import SearchSpace, TuneSettings
from soulslab.learn.tuning.study_folder import BEST_NAME, PICTURE_NAME, StudyFolder
from soulslab.learn.tuning.study_plot import draw_study
from soulslab.learn.tuning.trial import (
    REPORTS_PER_RUN,
    TrialJob,
    TrialOutcome,
    TrialReport,
    TrialStatus,
    remove_unneeded_files,
    run_trial,
)
from soulslab.learn.tuning.trial_store import TrialRow, TrialStore, best_first, count_states
from soulslab.learn.tuning.worker_pool import WorkerPool

_CHECK_EVERY_S: Final = 0.5
"""Longest time until a signal is handled (s)."""

_PATIENCE_S: Final = 30.0
"""Time that a worker gets to stop its run (s); it stops between two updates or evaluations."""

_log = logging.getLogger(__name__)


class StudyProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a study; ``under_way`` is the sum of the completed shares of the candidates in training."""

    n_trials: int
    n_done: int
    under_way: float
    n_pruned: int
    n_failed: int
    best: float | None


class StudyResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a study, with the settings that the candidates are based on.

    ``rows`` are the candidates in the order in which they were drawn, ``importances`` the importance of each setting,
    highest first, {} if there are too few candidates. ``is_interrupted`` means that the same command resumes the study.
    """

    folder: Path
    tuning: TuneSettings
    settings: AnySettings
    rows: list[TrialRow]
    importances: dict[str, float]
    is_interrupted: bool

    @property
    def best(self) -> TrialRow | None:
        """The best candidate; None if none was trained to the end."""
        return next(iter(best_first(self.rows, self.tuning.study)), None)


Listener = Callable[[StudyProgress], None]


def tune(
    settings: AnySettings,
    tuning: TuneSettings,
    folder: Path,
    *,
    processes: int = 1,
    prepare: Callable[[], None] | None = None,
    listener: Listener | None = None,
) -> StudyResult:
    """Search for good settings, or resume a search.

    SIGINT and SIGTERM end the study after the present updates. When it is resumed, interrupted candidates are repeated.

    Args:
        settings: Settings that the candidates are based on.
        tuning: Definition of the study.
        folder: Folder of the study; if it holds the same study, that study is resumed.
        processes: Number of candidates that are trained at once; 1 trains in this process. A script that uses more
            needs ``if __name__ == "__main__":``.
        prepare: Called first in each worker process, to register environments.
        listener: Called with the progress of the study.

    Returns:
        Result of the study; ``best.toml`` and ``study.png`` are in the folder.

    Raises:
        ConfigError: The search space does not fit the settings.
        StudyError: The folder holds other files or is in use, or too many candidates failed.
        CheckpointError: The folder cannot be written.
        MissingDependencyError: Optuna or matplotlib is not installed.
    """
    with optional_imports():  # checked before the folder is made; both are first used later
        import matplotlib.figure  # noqa: F401, PLC0415  (takes a second)
        import optuna  # noqa: F401, PLC0415  (takes half a second)
    space = SearchSpace(tuning.search, settings, tuning.study.objective)
    if ":" not in settings.env.id:  # module:id is registered when it is first made
        gymnasium.spec(settings.env.id)  # reports an unknown id once instead of for every candidate
    with StudyFolder(folder) as held:
        held.take(settings, tuning)
        search = _Search(held, tuning, space, listener)
        with StopRequest() as request:
            search.request = request
            try:
                if processes == 1:
                    is_interrupted = _alone(search, request)
                else:
                    is_interrupted = _together(search, processes, prepare, request)
            except StudyError:
                search.abandon()
                search.finish(settings, is_interrupted=False)  # of the candidates that were trained
                raise
            finally:
                search.abandon()
        return search.finish(settings, is_interrupted=is_interrupted)


class _Search:
    """State of a running study."""

    def __init__(
        self, folder: StudyFolder, tuning: TuneSettings, space: SearchSpace, listener: Listener | None
    ) -> None:
        self._folder = folder
        self._tuning = tuning
        self._space = space
        self._listener = listener
        self._store = TrialStore(folder.journal, tuning.study, space)
        self._under_way: dict[int, float] = {}  # completed share of each candidate that is being trained
        self.request: StopRequest | None = None
        self._n_failed = 0  # number of failures without a success between them
        self._notify()

    def next_job(self) -> TrialJob | None:
        """Return the next candidate to train; None if enough candidates have ended or are being trained."""
        while count_states(self._store.rows()).total() + len(self._under_way) < self._tuning.study.n_trials:
            number, params = self._store.draw()
            self._under_way[number] = 0.0
            path = self._folder.trial(number)
            try:
                text = dump_settings(self._space.settings(params))
            except ConfigError as error:
                self.end(TrialOutcome(number=number, state=TrialStatus.FAILED, reason=str(error)))
                continue
            with writing(path):
                if path.exists():  # the journal lost this candidate when the machine crashed
                    shutil.rmtree(path)
                path.mkdir(parents=True)
            write_atomically(path / CONFIG_NAME, text.encode())
            return TrialJob(number=number, folder=str(path), study=self._tuning.study)
        return None

    def report(self, report: TrialReport) -> str:
        """Record the progress of a candidate; return the reason to prune it, or ""."""
        self._under_way[report.number] = report.last_step / (REPORTS_PER_RUN * len(self._tuning.study.seeds))
        self._notify()
        return self._store.report(report)

    def is_stopped(self) -> bool:
        """Return whether a signal came before the training of a candidate in this process began to handle signals."""
        return self.request is not None and bool(self.request.signal_name)

    def end(self, outcome: TrialOutcome) -> None:
        """Record the outcome of a candidate; raises StudyError after ``study.max_failures`` failures in a row."""
        self._store.end(outcome)
        del self._under_way[outcome.number]
        remove_unneeded_files(self._folder.trial(outcome.number))
        self._notify()
        if outcome.state in (TrialStatus.COMPLETE, TrialStatus.PRUNED):
            self._n_failed = 0
        elif outcome.state in (TrialStatus.FAILED, TrialStatus.KILLED):
            _log.warning("trial %d %s: %s", outcome.number, outcome.state, outcome.reason)
            self._n_failed += 1
            if self._n_failed >= self._tuning.study.max_failures:
                raise StudyError(
                    self._folder.path,
                    f"{self._n_failed} candidates in a row failed; the last, {outcome.number}: {outcome.reason}",
                )

    def abandon(self) -> None:
        """Mark the candidates in training as interrupted; a resumed study repeats them."""
        for number in list(self._under_way):
            self.end(TrialOutcome(number=number, state=TrialStatus.INTERRUPTED, reason="stopped"))

    def finish(self, settings: AnySettings, *, is_interrupted: bool) -> StudyResult:
        """Write the best settings and the plot, and return the result."""
        result = StudyResult(
            folder=self._folder.path,
            tuning=self._tuning,
            settings=settings,
            rows=self._store.rows(),
            importances=self._store.importances(),
            is_interrupted=is_interrupted,
        )
        if result.best is not None:
            best = self._space.settings(result.best.params, self._tuning.study.seeds[0])
            write_atomically(self._folder.path / BEST_NAME, dump_settings(best).encode())
            draw_study(result.rows, self._tuning, result.importances, self._folder.path / PICTURE_NAME)
        return result

    def _notify(self) -> None:
        if self._listener is None:
            return
        rows = self._store.rows()
        counts = count_states(rows)
        best = best_first(rows, self._tuning.study)
        self._listener(
            StudyProgress(
                n_trials=self._tuning.study.n_trials,
                n_done=counts.total(),
                under_way=sum(self._under_way.values()),
                n_pruned=counts[TrialStatus.PRUNED],
                n_failed=counts[TrialStatus.FAILED] + counts[TrialStatus.KILLED],
                best=best[0].value if best else None,
            )
        )


def _alone(search: _Search, request: StopRequest) -> bool:
    """Train candidates one after the other; return whether the study was interrupted."""
    while not request.signal_name and (job := search.next_job()) is not None:
        outcome = run_trial(job, search)
        search.end(outcome)
        if outcome.state is TrialStatus.INTERRUPTED:
            return True
    return bool(request.signal_name)


def _together(search: _Search, processes: int, prepare: Callable[[], None] | None, request: StopRequest) -> bool:
    """Train several candidates at once; return whether the study was interrupted."""
    ends_at_s: float | None = None
    with WorkerPool(prepare) as pool:
        while ends_at_s is None or time.monotonic() < ends_at_s:
            while pool.n_busy < processes and ends_at_s is None and (job := search.next_job()) is not None:
                pool.start(job)
            if pool.n_busy == 0:
                break
            for worker, message in pool.events(_CHECK_EVERY_S):
                if isinstance(message, TrialReport):
                    worker.send(search.report(message))
                else:
                    search.end(message)
            if request.signal_name and ends_at_s is None:
                ends_at_s = time.monotonic() + _PATIENCE_S
                pool.stop()
    return bool(request.signal_name)
