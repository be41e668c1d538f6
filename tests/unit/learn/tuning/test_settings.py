import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulslab.config import describe_settings, dump_settings
from soulslab.errors import ConfigError
from soulslab.learn.tuning.settings import (
    Dimension,
    StudySettings,
    TuneSettings,
    load_tune_settings,
    parse_search,
)


@pytest.mark.parametrize(
    ("text", "name", "table"),
    [
        ("learner.lr=1e-4..1e-2:log", "learner.lr", {"low": 1e-4, "high": 1e-2, "log": True}),
        ("learner.n_steps=1..10", "learner.n_steps", {"low": 1, "high": 10}),
        ("learner.clip = 0.1..0.3:step=0.1", "learner.clip", {"low": 0.1, "high": 0.3, "step": 0.1}),
        ("network.widths=[[128,128],[256,256]]", "network.widths", {"choices": [[128, 128], [256, 256]]}),
        ('network.activation=["tanh", "relu"]', "network.activation", {"choices": ["tanh", "relu"]}),
        ("env.options.reward.time=-1e-3..0", "env.options.reward.time", {"low": -1e-3, "high": 0}),
    ],
)
def test_the_short_forms(text, name, table):
    assert parse_search(text, "--search") == (name, table)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("learner.lr", r"--search learner.lr: is not of the form name=LOW..HIGH"),
        ("=1..2", r"is not of the form"),
        ("learner.lr=1e-4", r"learner.lr: is neither a range nor a list"),
        ("learner.lr=tiny..1", r"learner.lr: 'tiny' is not a number"),
        ("learner.lr=1..", r"learner.lr: '' is not a number"),
        ("learner.lr=1..2:lgo", r"'lgo' is neither log nor step=N"),
        ("network.activation=[tanh, relu]", r"network.activation: is not a list .*text needs quotes"),
        ("learner.lr=[1]\nx=2", r"has more than one line"),
    ],
)
def test_a_malformed_search_is_named(text, problem):
    with pytest.raises(ConfigError, match=problem):
        load_tune_settings(None, [text])


def test_a_file_and_the_command_line_which_wins(tmp_path):
    path = tmp_path / "space.toml"
    path.write_text(
        '[study]\nn_trials = 7\nseeds = [1, 2]\n[search."learner.lr"]\nlow = 1e-4\nhigh = 1e-2\nlog = true\n'
        "[search.learner.clip]\nlow = 0.1\nhigh = 0.3\n[search]\n'learner.gamma' = { choices = [0.9, 0.99] }\n"
    )
    found = load_tune_settings(path, ["learner.clip=0.2..0.4"], {"n_trials": 9})
    assert found.study == StudySettings(n_trials=9, seeds=(1, 2))
    assert found.search == {
        "learner.lr": Dimension(low=1e-4, high=1e-2, log=True),
        "learner.clip": Dimension(low=0.2, high=0.4),
        "learner.gamma": Dimension(choices=[0.9, 0.99]),
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[study]\nn_trails = 3", r"space.toml: study.n_trails: unknown setting; did you mean 'n_trials'"),
        ("[study]\nobjective = 'wins'", r"study.objective: 'wins' is not one of its values"),
        ("[study]\nseeds = []", r"study.seeds: .*length >= 1"),
        ("[study]\nn_trials = 0", r"study.n_trials: .*>= 1"),
        ("[search.'learner.lr']\nlo = 1\nhigh = 2", r"search.\"learner.lr\".lo: unknown setting"),
        ("[search.learner.lr]\nlo = 1\nhgih = 2", r"search.learner.lr.lo: unknown setting; did you mean 'low'"),
        ("[search]\nlearner = 3", r"search.learner: needs a table with low and high, or choices"),
        ("search = 3", r"search: expected a table"),
        ("[search", r"space.toml: is not valid TOML"),
    ],
)
def test_a_malformed_file_is_named(tmp_path, text, problem):
    path = tmp_path / "space.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=problem):
        load_tune_settings(path)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z_]{1,8}\.[a-z_]{1,8}", fullmatch=True),
        st.one_of(
            st.builds(Dimension, low=st.floats(-9, 0), high=st.floats(1, 9), log=st.booleans()),
            st.builds(Dimension, low=st.integers(-9, 0), high=st.integers(1, 9), step=st.integers(1, 3)),
            st.builds(Dimension, choices=st.lists(st.one_of(st.integers(), st.text(), st.lists(st.integers())))),
        ),
    )
)
def test_what_is_written_is_read_back(tmp_path_factory, search):
    search = {
        name: msgspec.structs.replace(each, choices=each.choices and [c for c in each.choices if in_64_bits(c)])
        for name, each in search.items()
    }
    path = tmp_path_factory.mktemp("study") / "study.toml"
    settings = TuneSettings(study=StudySettings(seeds=(3, 4), pruner="none"), search=search)
    path.write_bytes(dump_settings(settings).encode())
    assert load_tune_settings(path) == settings


def in_64_bits(choice):
    numbers = choice if isinstance(choice, list) else [choice] if isinstance(choice, int) else []
    return all(-(2**63) <= number < 2**63 for number in numbers)


@pytest.mark.parametrize("settings_type", [StudySettings, Dimension])
def test_every_setting_is_documented(settings_type):
    assert all(row.doc for row in describe_settings(settings_type))
