"""Folders of studies without training: candidates that were given a value."""

from __future__ import annotations

import math
from pathlib import Path

from soulslab.learn.settings import TrainSettings
from soulslab.learn.tuning.settings import SearchSpace, load_tune_settings
from soulslab.learn.tuning.study_folder import StudyFolder
from soulslab.learn.tuning.trial import TrialOutcome, TrialReport, TrialStatus
from soulslab.learn.tuning.trial_store import TrialStore


def write_study(folder: Path, n_trials: int = 12) -> TrialStore:
    """Write a study whose win rate is highest at a learning rate of 1e-3; every fourth candidate is pruned."""
    search = ("learner.lr=1e-5..1e-1:log", "learner.n_epochs=1..4")
    tuning = load_tune_settings(None, search, {"startup_trials": 4, "n_trials": 40})
    with StudyFolder(folder) as held:
        held.take(TrainSettings(), tuning)
    store = TrialStore(held.journal, tuning.study, SearchSpace(tuning.search, TrainSettings(), "win_rate"))
    for i in range(n_trials):
        number, params = store.draw()
        value = max(0.0, 1.0 - 0.3 * abs(math.log10(params["learner.lr"]) + 3.0))
        if i % 4 == 3:
            store.report(TrialReport(number=number, first_step=1, last_step=1, value=value))
            store.end(TrialOutcome(number=number, state=TrialStatus.PRUNED))
        else:
            store.end(TrialOutcome(number=number, state=TrialStatus.COMPLETE, value=value))
    return store
