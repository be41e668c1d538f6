"""``soulslab tune`` from the command line, on the built-in fight."""

import shutil
import subprocess
import sys

import pytest

from soulslab import cli
from soulslab.arena.boss_file import BOSS_DIR
from soulslab.learn.training import load_run_settings
from soulslab.learn.tuning.study_folder import BEST_NAME, PICTURE_NAME, StudyFolder

TINY = [
    *("--set", "env.n_envs=32", "--set", "run.total_steps=20_000", "--set", "network.widths=[8]"),
]


def test_a_study_is_created_and_resumed(tmp_path, capsys):
    study = tmp_path / "study"
    search = ["--search", "learner.lr=1e-4..1e-2:log", "--search", "learner.n_epochs=1..3"]
    asked = ["tune", "--study", str(study), *TINY, *search, "--objective", "return"]
    assert cli.run([*asked, "--trials", "2"]) == 0
    assert "Best candidates by return" in capsys.readouterr().out
    best = load_run_settings(study / BEST_NAME)
    assert (best.env.n_envs, best.run.total_steps) == (32, 20_000)
    assert (study / PICTURE_NAME).exists()
    assert cli.run([*asked, "--trials", "2"]) == 0  # the same command again
    assert cli.run(["tune", "--study", str(study), "--trials", "3"]) == 0
    assert StudyFolder(study).load()[1].study.n_trials == 3
    assert len(list((study / "trials").iterdir())) == 3
    assert cli.run(["tune", "--study", str(study), "--objective", "win_rate"]) == 1
    assert "holds a study with study.objective = 'return', but now it is 'win_rate'" in capsys.readouterr().err


def test_a_study_with_relative_paths_is_resumed_from_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("one.toml", "two.toml"):
        shutil.copy(BOSS_DIR / "judge.toml", name)
    search = ["--search", "env.options.boss=['one.toml', 'two.toml', 'judge']", "--objective", "return"]
    asked = ["tune", "--study", "study", *TINY, "--set", "env.options.boss=one.toml", *search]
    assert cli.run([*asked, "--trials", "1"]) == 0
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert cli.run(["tune", "--study", "../study", "--trials", "2", "--trust"]) == 0
    settings, tuning = StudyFolder(tmp_path / "study").load()
    one, two = (str(tmp_path / name) for name in ("one.toml", "two.toml"))
    assert settings.env.options["boss"] == one
    assert tuning.search["env.options.boss"].choices == [one, two, "judge"]


def test_a_search_space_is_read_from_a_file(tmp_path, capsys):
    (tmp_path / "space.toml").write_text('[study]\nn_trials = 1\nobjective = "return"\n[search.learner.lr]\nlow = 1\n')
    arguments = ["tune", "--study", str(tmp_path / "study"), "--space", str(tmp_path / "space.toml"), *TINY]
    assert cli.run(arguments) == 2
    assert 'search."learner.lr": needs low and high, or choices' in capsys.readouterr().err
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--search", "learner.lrr=1..2"], "did you mean 'learner.lr'"),
        (["--config", "nowhere.toml"], "no such file, and soulslab has no config of that name"),
        ([], "the search space is empty; add --search"),
        (["--trials", "0"], "Must be >= 1"),
        (["--objective", "wins"], "Invalid value"),
        (["--processes", "0"], "Must be >= 1"),
    ],
)
def test_wrong_usage_is_named(tmp_path, capsys, arguments, words):
    assert cli.run(["tune", "--study", str(tmp_path / "study"), *arguments]) == 2
    told = capsys.readouterr()
    assert words in " ".join((told.err + told.out).split())
    assert not (tmp_path / "study").exists()


def test_an_error_is_printed_without_a_progress_bar(tmp_path, capsys):
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "other").touch()
    asked = ["tune", "--study", str(tmp_path / "study"), *TINY, "--search", "learner.lr=1e-4..1e-2:log"]
    assert cli.run(asked) == cli.EXIT_FAILED
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("holds files that are not a study; choose an empty folder")


def test_help_imports_no_large_packages():
    code = (
        "import sys; from soulslab.cli import run; run(['tune', '--help']);"
        "print([name for name in ('torch', 'optuna', 'sqlalchemy', 'matplotlib', 'numba') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
