"""The candidates of a study and their results, drawn and stored with Optuna.

Optuna stores them in ``journal.jsonl``: one line of JSON for each event, appended, so that a crash loses at most the
line that was being written. One process writes the file.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from soulslab.config.input_files import read_bytes
from soulslab.errors import StudyError, optional_imports
from soulslab.learn.archive import git_commit, writing
from soulslab.learn.tuning.settings import Params, SearchSpace, StudySettings
from soulslab.learn.tuning.trial import REPORTS_PER_RUN, TrialOutcome, TrialReport, TrialStatus, is_maximised
from soulslab.version import VERSION

if TYPE_CHECKING:
    from optuna import Study
    from optuna.pruners import BasePruner
    from optuna.trial import FrozenTrial

FORMAT_VERSION: Final = 1
MAX_ATTEMPTS: Final = 2
"""How often a candidate is trained whose process was killed; the candidate itself may be the cause."""

MIN_FOR_IMPORTANCE: Final = 8
"""Smallest number of different values of complete candidates for which importances are computed."""

_MAX_BYTES: Final = 1 << 30
_N_TOP: Final = 4
_NAME: Final = "tune"
_DAMAGE: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
    msgspec.ValidationError,
)
"""Errors that Optuna, or the conversion of its values, raises for a damaged journal."""
_OUTCOME: Final = "outcome"
_RETRY_OF: Final = "retry_of"
_ATTEMPT: Final = "attempt"
_IS_BASE: Final = "is_base"
_RETRIED: Final = (TrialStatus.KILLED, TrialStatus.INTERRUPTED)

_log = logging.getLogger(__name__)


class TrialRow(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate of a study; it has no ``state`` while it is queued or in training.

    ``value`` is the last reported value if it was pruned; ``outcome`` is missing if its process ended without one.
    ``is_base`` marks the base settings of the study, ``is_retried`` a candidate that another one repeats, so that it
    does not count.
    """

    number: int
    params: dict[str, Any]
    state: TrialStatus | None
    value: float | None
    outcome: TrialOutcome | None
    is_base: bool
    is_retried: bool


class TrialStore:
    """Draws candidates and stores their results; needs Optuna."""

    def __init__(self, path: Path, study: StudySettings, space: SearchSpace) -> None:
        """Open the study in a journal that only this process uses, or start one.

        Candidates that were in training when the process of the study was killed are queued again. Raises StudyError if
        the journal is damaged or of another version, CheckpointError if it cannot be written.
        """
        self._path = path
        self._settings = study
        self._study = _open(path, study)
        self._distributions = space.distributions()
        self._started: dict[int, Any] = {}  # Optuna's trials that are in training
        with _using(path):
            if not self._study.get_trials(deepcopy=False):
                self._study.set_user_attr("format", FORMAT_VERSION)
                self._study.set_user_attr("soulslab", f"{VERSION} {git_commit()}".strip())
                base = space.base()
                if base is not None:
                    self._study.enqueue_trial(base, user_attrs={_IS_BASE: True})
            for trial in self._study.get_trials(deepcopy=False):
                if trial.state.name == "RUNNING":
                    self._end_stale(trial)

    def draw(self) -> tuple[int, Params]:
        """Return the number and the parameters of the next candidate."""
        with _using(self._path):
            trial = self._study.ask(self._distributions)
        self._started[trial.number] = trial
        return trial.number, dict(trial.params)

    def report(self, report: TrialReport) -> str:
        """Record the progress of a candidate; return the reason to prune it, or ""."""
        trial = self._started[report.number]
        with _using(self._path):
            for step in range(report.first_step, report.last_step + 1):
                trial.report(report.value, step)
            if not trial.should_prune():
                return ""
        share = 100 * report.last_step / (REPORTS_PER_RUN * len(self._settings.seeds))
        place = {"median": "worse than the median", "halving": "not in the best third"}[self._settings.pruner]
        return f"{place} at {share:.0f} %"

    def end(self, outcome: TrialOutcome) -> None:
        """Record the outcome of a candidate; one that was interrupted is queued again."""
        trial = self._started[outcome.number]
        with _using(self._path):
            if outcome.state in _RETRIED:
                self._retry(outcome.number, outcome.state)
            trial.set_user_attr(_OUTCOME, msgspec.to_builtins(outcome))
            self._settle(outcome)
        del self._started[outcome.number]

    def rows(self) -> list[TrialRow]:
        """Return the candidates in the order in which they were drawn."""
        with _using(self._path):
            return _rows(self._study)

    def importances(self) -> dict[str, float]:
        """Return the importance of each setting; see `importances_of`."""
        with _using(self._path):
            return importances_of(self._study)

    def _settle(self, outcome: TrialOutcome) -> None:
        from optuna.trial import TrialState  # noqa: PLC0415

        states = {TrialStatus.COMPLETE: None, TrialStatus.PRUNED: TrialState.PRUNED}
        self._study.tell(outcome.number, outcome.value, states.get(outcome.state, TrialState.FAIL))

    def _end_stale(self, trial: FrozenTrial) -> None:
        """End a candidate that was in training when the process of the study ended."""
        outcome = msgspec.convert(trial.user_attrs.get(_OUTCOME), TrialOutcome | None)
        if outcome is None:  # else it was recorded just before the process ended
            _log.info("trial %d was in training when its process ended", trial.number)
            self._retry(trial.number, TrialStatus.KILLED)
            outcome = TrialOutcome(number=trial.number, state=TrialStatus.KILLED)
        self._settle(outcome)

    def _retry(self, number: int, why: TrialStatus) -> None:
        """Queue a candidate again, unless its process was killed too often."""
        trials = self._study.get_trials(deepcopy=False)
        attrs, params = trials[number].user_attrs, trials[number].params
        attempt = attrs.get(_ATTEMPT, 1) + (why is TrialStatus.KILLED)
        is_there = any(trial.user_attrs.get(_RETRY_OF) == number for trial in trials)
        if attempt > MAX_ATTEMPTS or is_there or not params:
            return
        kept = {_RETRY_OF: number, _ATTEMPT: attempt, **({_IS_BASE: True} if attrs.get(_IS_BASE) else {})}
        self._study.enqueue_trial(params, user_attrs=kept)


@contextmanager
def _using(journal: Path) -> Iterator[None]:
    """Convert errors of the file system and of a damaged journal into errors that name it."""
    try:
        with writing(journal):
            yield
    except _DAMAGE as error:
        problem = f"is damaged ({type(error).__name__}: {error}); start a new study in another folder"
        raise StudyError(journal, problem) from error


def read_trials(journal: Path) -> tuple[list[TrialRow], dict[str, float]]:
    """Return the candidates of a study and the importance of each setting, without changing the study.

    Another process may be writing the journal; an incomplete last line is left out. Raises StudyError if the journal
    cannot be read or is damaged, MissingDependencyError without Optuna.
    """
    with optional_imports():
        import optuna  # noqa: PLC0415  (as in `_open`)
        from optuna.storages.journal import JournalFileBackend  # noqa: PLC0415
    data = read_bytes(journal, _MAX_BYTES, partial(StudyError, journal))
    with TemporaryDirectory(prefix="soulslab_study_") as folder:
        copy = Path(folder) / journal.name
        copy.write_bytes(data[: data.rfind(b"\n") + 1])
        with _using(journal):
            storage = optuna.storages.JournalStorage(JournalFileBackend(str(copy)))
            study = optuna.load_study(storage=storage, study_name=_NAME)
            return _rows(study), importances_of(study)


def importances_of(study: Study) -> dict[str, float]:
    """Return the importance of each setting, highest first; {} if there are too few candidates.

    Watanabe, Bansal & Hutter 2023, "PED-ANOVA: efficiently quantifying hyperparameter importance in arbitrary
    subspaces": the difference between the distributions of the best tenth (at least four) and of all candidates along
    each setting. The result is deterministic.
    """
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances  # noqa: PLC0415

    values = [row.value for row in _rows(study) if row.state is TrialStatus.COMPLETE]
    if len(set(values)) < MIN_FOR_IMPORTANCE:
        return {}
    evaluator = PedAnovaImportanceEvaluator(target_quantile=max(0.1, _N_TOP / len(values)))
    return get_param_importances(study, evaluator=evaluator)


def _rows(study: Study) -> list[TrialRow]:
    trials = study.get_trials(deepcopy=False)
    retried = {trial.user_attrs.get(_RETRY_OF) for trial in trials}
    return [_row(trial, is_retried=trial.number in retried) for trial in trials]


def count_states(rows: list[TrialRow]) -> Counter[TrialStatus]:
    """Return the number of candidates by state, without candidates that another one repeats."""
    return Counter(row.state for row in rows if row.state is not None and not row.is_retried)


def best_first(rows: list[TrialRow], study: StudySettings) -> list[TrialRow]:
    """Return the complete candidates, best first; of equal ones the older comes first."""
    sign = -1.0 if is_maximised(study.objective) else 1.0
    complete = [row for row in rows if row.state is TrialStatus.COMPLETE and row.value is not None]
    return sorted(complete, key=lambda row: (sign * (row.value or 0.0), row.number))


def _row(trial: FrozenTrial, *, is_retried: bool) -> TrialRow:
    outcome = msgspec.convert(trial.user_attrs.get(_OUTCOME), TrialOutcome | None)
    state = None
    if trial.state.is_finished():
        state = outcome.state if outcome is not None else TrialStatus.KILLED
    value = trial.value
    if value is None and trial.intermediate_values:
        value = trial.intermediate_values[max(trial.intermediate_values)]
    return TrialRow(
        number=trial.number,
        params=dict(trial.params or trial.system_attrs.get("fixed_params", {})),
        state=state,
        value=value,
        outcome=outcome,
        is_base=bool(trial.user_attrs.get(_IS_BASE)),
        is_retried=is_retried,
    )


def _open(path: Path, settings: StudySettings) -> Study:
    import optuna  # noqa: PLC0415  (takes half a second, and comes with an extra)
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock  # noqa: PLC0415

    # By default Optuna writes to standard error; its messages belong into the log.
    optuna.logging.disable_default_handler()
    optuna.logging.enable_propagation()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with _using(path):
        _mend(path)
        backend = JournalFileBackend(str(path), lock_obj=JournalFileOpenLock(str(path)))
        storage = optuna.storages.JournalStorage(backend)
        if not storage.get_all_studies():
            directions = optuna.study.StudyDirection
            direction = directions.MAXIMIZE if is_maximised(settings.objective) else directions.MINIMIZE
            optuna.create_study(storage=storage, study_name=_NAME, direction=direction)
        n_before = len(optuna.load_study(storage=storage, study_name=_NAME).get_trials(deepcopy=False))
        sampler = optuna.samplers.TPESampler(
            n_startup_trials=settings.startup_trials,
            multivariate=True,
            constant_liar=True,  # candidates that are trained at once must differ
            # A resumed study must not draw the candidates of its start again.
            seed=int(np.random.SeedSequence([settings.sampler_seed, n_before]).generate_state(1)[0]),
        )
        study = optuna.load_study(storage=storage, study_name=_NAME, sampler=sampler, pruner=_pruner(settings))
    version = study.user_attrs.get("format", FORMAT_VERSION)
    if version != FORMAT_VERSION:
        raise StudyError(path, f"has version {version}; this soulslab reads version {FORMAT_VERSION}")
    return study


def _mend(path: Path) -> None:
    """Remove the lock and the incomplete last line that a crash left, and check the other lines."""
    path.with_name(f"{path.name}.lock").unlink(missing_ok=True)
    with path.open("a+b") as file:
        file.seek(0)
        *lines, rest = file.read().split(b"\n")
        file.truncate(file.tell() - len(rest))
    for number, line in enumerate(lines, start=1):
        try:
            msgspec.json.decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            # Optuna ignores an invalid last line, and everything that is appended to it is lost.
            raise StudyError(
                path, f"line {number} is not an event ({error}); start a new study in another folder"
            ) from error


def _pruner(settings: StudySettings) -> BasePruner:
    from optuna.pruners import MedianPruner, NopPruner, SuccessiveHalvingPruner  # noqa: PLC0415

    warmup_steps = round(settings.warmup * REPORTS_PER_RUN)
    if settings.pruner == "median":
        return MedianPruner(n_startup_trials=settings.startup_trials, n_warmup_steps=warmup_steps)
    if settings.pruner == "halving":
        return SuccessiveHalvingPruner(min_resource=max(1, warmup_steps), reduction_factor=3)
    return NopPruner()
