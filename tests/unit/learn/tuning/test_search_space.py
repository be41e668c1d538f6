import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulslab.errors import ConfigError
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
from soulslab.learn.settings import EnvSettings, TrainSettings
from soulslab.learn.tuning.settings import SearchSpace, load_tune_settings


def space(*searches, settings=None, objective="win_rate"):
    return SearchSpace(load_tune_settings(None, searches).search, settings or TrainSettings(), objective)


@pytest.mark.parametrize(
    ("search", "problem"),
    [
        ("learner.lrr=1e-4..1e-2", r'search."learner.lrr": unknown setting; did you mean \'learner.lr\''),
        ("leaner.lr=1e-4..1e-2", r"unknown setting; did you mean 'learner.lr'"),
        ("learner=1..2", r"search.learner: is a table; search one of its settings"),
        ("learner.lr.x=1..2", r"unknown setting"),
        ("learner.lr=1e-4..2", r'search."learner.lr".high: expected a number <= 1.0'),
        ("learner.lr=0..1e-2", r'search."learner.lr".low: expected a number > 0.0'),
        ("learner.lr=0.1..0.1", r"low \(0.1\) must be less than high \(0.1\)"),
        ("learner.lr=1e-3..inf", r"both finite"),
        ("learner.entropy=0..0.1:log", r'search."learner.entropy".low: low is 0, but log needs low > 0'),
        ("learner.lr=0.1..0.5:log:step=0.1", r"has both log and step"),
        ("learner.lr=0.1..0.5:step=0.3", r"high: is not low plus a multiple of step \(0.3\); use 0.4"),
        ("learner.lr=0.1..0.5:step=0", r"step: must be greater than 0 and"),
        ("learner.n_epochs=1..2.5", r"is a whole number, so low, high and step must be whole numbers"),
        ("learner.n_epochs=0..4", r'search."learner.n_epochs".low: expected a whole number >= 1'),
        ("network.shared=0..1", r"is not a number; give its values as choices"),
        ("network.activation=1..2", r"is not a number; give its values as choices"),
        ('network.activation=["relu", "rleu"]', r"choices\[1\]: 'rleu' is not one of its values; did you mean 'relu'"),
        ("network.widths=[[64], [0]]", r"choices\[1\]: expected a whole number >= 1"),
        ("network.shared=[true]", r"choices: needs at least two different choices"),
        ("network.widths=[[64], [32], [64]]", r"choices: needs at least two different choices, each once"),
        ("run.seed=0..9", r'search."run.seed": cannot be searched: results of a single seed are noise'),
        ('algorithm=["ppo", "rainbow"]', r"search.algorithm: cannot be searched"),
    ],
)
def test_what_does_not_fit_is_named_before_anything_is_trained(search, problem):
    with pytest.raises(ConfigError, match=problem):
        space(search)


def test_a_study_without_searched_settings_is_reported():
    with pytest.raises(ConfigError, match="search: the search space is empty"):
        space()


def test_the_length_of_the_runs_is_no_setting_where_it_is_the_measure():
    search = "run.total_steps=1000..9000"
    assert list(space(search).distributions()) == ["run.total_steps"]
    with pytest.raises(ConfigError, match=r"cannot be searched with the objective decisions_to_80"):
        space(search, objective="decisions_to_80")


def test_a_dimension_has_a_range_or_choices(tmp_path):
    path = tmp_path / "space.toml"
    for text, problem in [
        ("low = 1e-4", r"needs low and high, or choices"),
        ("choices = [1e-4, 1e-3]\nlow = 1e-4", r"has choices; remove low, high, log and step"),
    ]:
        path.write_text(f"[search.learner.lr]\n{text}\n")
        with pytest.raises(ConfigError, match=problem):
            SearchSpace(load_tune_settings(path).search, TrainSettings(), "win_rate")


def test_each_kind_of_setting_is_filled_in():
    found = space(
        "learner.lr=1e-4..1e-2:log",
        "learner.n_epochs=1..4",
        "network.widths=[[32], [64, 64]]",
        "env.options.reward.win=0.5..2.0",
        "env.options.boss=['judge', 'trickster']",
    )
    params = {
        "learner.lr": 2e-3,
        "learner.n_epochs": 2,
        "network.widths": "[64, 64]",
        "env.options.reward.win": 1.5,
        "env.options.boss": '"trickster"',
    }
    assert found.distributions().keys() == params.keys()
    settings = found.settings(params, seed=5)
    assert (settings.learner.lr, settings.learner.n_epochs, settings.network.widths) == (2e-3, 2, (64, 64))
    assert settings.env.options == {"reward": {"win": 1.5}, "boss": "trickster"}
    assert settings.run.seed == 5


def test_rainbow_is_searched_as_ppo_is():
    found = space("learner.n_steps=1..10", "network.is_dueling=[true, false]", settings=RainbowSettings())
    settings = found.settings({"learner.n_steps": 7, "network.is_dueling": "false"})
    assert isinstance(settings, RainbowSettings)
    assert (settings.learner.n_steps, settings.network.is_dueling) == (7, False)
    assert found.base() == {"learner.n_steps": RainbowSettings().learner.n_steps, "network.is_dueling": "true"}


def test_an_option_that_is_a_value_has_no_settings():
    settings = TrainSettings(env=EnvSettings(options={"reward": "sparse"}))
    with pytest.raises(ConfigError, match=r"reward is a value and has no sub-settings"):
        space("env.options.reward.win=1..2", settings=settings)


@pytest.mark.parametrize(
    ("search", "is_inside"),
    [
        ("learner.lr=1e-4..1e-2", True),
        ("learner.lr=1e-4..1e-3", True),
        ("learner.lr=2e-3..1e-2", False),
        ("learner.lr=4e-4..1e-3:step=2e-4", True),
        ("learner.lr=3e-4..1.1e-3:step=2e-4", False),
        ("learner.n_epochs=1..5:step=2", True),
        ("learner.n_epochs=2..6:step=2", False),
        ("network.widths=[[128, 128], [64]]", True),
        ("network.widths=[[32], [64]]", False),
        ("env.options.reward.win=1..2", False),
    ],
)
def test_the_config_is_a_candidate_where_it_lies_inside(search, is_inside):
    base = space(search).base()
    assert (base is not None) == is_inside


@given(
    low=st.floats(1e-6, 0.4),
    width=st.floats(1e-3, 0.5),
    is_log=st.booleans(),
    n_low=st.integers(1, 50),
    n_steps=st.integers(1, 20),
    step=st.integers(1, 7),
    seed=st.integers(0, 2**32 - 1),
)
def test_whatever_is_drawn_makes_valid_settings_within_the_range(  # noqa: PLR0917  (hypothesis names them)
    low, width, is_log, n_low, n_steps, step, seed
):
    optuna = pytest.importorskip("optuna")
    high, n_high = low + width, n_low + n_steps * step
    found = space(
        f"learner.lr={low!r}..{high!r}{':log' if is_log else ''}",
        f"learner.n_epochs={n_low}..{n_high}:step={step}",
        "network.shared=[true, false]",
    )
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    settings = found.settings(study.ask(found.distributions()).params)
    assert low <= settings.learner.lr <= math.nextafter(high, math.inf)
    assert settings.learner.n_epochs in range(n_low, n_high + 1, step)
    assert settings.network.shared in (True, False)


@pytest.fixture(autouse=True)
def quiet():
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
