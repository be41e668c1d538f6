"""Small studies on the corridor: a run takes a tenth of a second, and the learning rate decides everything."""

import msgspec
import pytest

from soulslab.learn.tuning.settings import load_tune_settings
from soulslab.learn.tuning.trial import TrialStatus


@pytest.fixture
def short(corridor):
    """Seven iterations on the corridor: at a learning rate of 3e-3 wins rise from two thirds to nearly all."""
    return msgspec.structs.replace(corridor, run=msgspec.structs.replace(corridor.run, total_steps=8_000))


@pytest.fixture
def brief(short):
    """Two iterations on the corridor, for studies in which nothing has to be learned."""
    return msgspec.structs.replace(short, run=msgspec.structs.replace(short.run, total_steps=2_000))


@pytest.fixture
def rates():
    """Make a study of two learning rates, one of which learns nothing, beside any other entries of its table."""

    def rates(n_trials, search="learner.lr=[3e-3, 1e-9]", **study):
        study = {"startup_trials": 2, "n_trials": n_trials, "pruner": "none", **study}
        return load_tune_settings(None, [search], study)

    return rates


@pytest.fixture
def counted():
    """Count the candidates of a result that ended in a way, those that are tried again left out."""

    def counted(result, state):
        return sum(row.state is TrialStatus(state) and not row.is_retried for row in result.rows)

    return counted
