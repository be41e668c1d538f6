"""`soulslab train` and `soulslab evaluate`, as a user runs them, on the real arena."""

import json
import logging
import re
import shutil

import pytest

from soulslab import cli
from soulslab.arena.boss_file import BOSS_DIR
from soulslab.dashboard.recorded_fights import read_fight_set, replay_fight
from soulslab.envs.registration import IUDEX_DEMO_ID
from soulslab.fights.fit_recordings import read_recorded_fights
from soulslab.learn.run_folder import POLICY_NAME
from soulslab.learn.training import load_run_settings

SMALL = [
    *("--set", "run.total_steps=2000", "--set", "env.n_envs=8", "--set", "learner.minibatch_size=128"),
    *("--set", "learner.n_steps=16", "--set", "network.widths=[8]"),
]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def trained():
    assert cli.run(["train", "--config", "demo.toml", "--run-dir", "run", *SMALL]) == 0


def test_train_resume_evaluate(tmp_path, trained, capsys):
    assert {"config.toml", POLICY_NAME, "checkpoints", "progress.jsonl", "tensorboard"} <= {
        path.name for path in (tmp_path / "run").iterdir()
    }
    assert cli.run(["train", "--resume", "run", "--set", "run.total_steps=3000"]) == 0
    words = ["evaluate", "run", "--fights", "6", "--phase", "1", "--greedy", "--json", "report.json"]
    assert cli.run([*words, "--record", "judged"]) == 0
    assert "attacks (greedy)" in capsys.readouterr().out
    (row,) = json.loads((tmp_path / "report.json").read_text())
    assert (row["actions"], row["n_fights"]) == ("greedy", 6)
    assert (row["options"]["phase"], row["options"]["boss"]) == ("1", "judge")
    found = read_fight_set(tmp_path / "judged")
    fights = found.fights
    assert (found.player, len(fights)) == ("evaluation of run", 6)
    assert sum(fight.is_won for fight in fights) == row["n_wins"]
    # Each fight is the first of its environment, so that it has a seed and can be repeated.
    seeds = sorted(fight.seed for fight in fights)
    assert seeds == list(range(seeds[0], seeds[0] + 6))
    *_, ending = replay_fight(tmp_path / "judged", 0)
    assert json.loads(ending[4:])["is_won"] is fights[0].is_won
    assert cli.run(["evaluate", "run", "--greedy", "--sampled", "--record", "both"]) == 2


def test_a_run_with_relative_paths_is_resumed_from_another_folder(tmp_path, trained, monkeypatch, capsys):
    shutil.copy(BOSS_DIR / "judge.toml", "my.toml")
    paths = ["env.options.boss=my.toml", "run.start_from=run", "learner.teacher=run"]
    given = [word for path in paths for word in ("--set", path)]
    assert cli.run(["train", "--config", "demo.toml", "--run-dir", "runs/fit", *SMALL, *given]) == 0
    stored = load_run_settings(tmp_path / "runs/fit/config.toml")
    assert stored.env.options["boss"] == str(tmp_path / "my.toml")
    assert (stored.run.start_from, stored.learner.teacher) == (str(tmp_path / "run"), str(tmp_path / "run"))
    monkeypatch.chdir("runs")
    assert cli.run(["train", "--resume", "fit", "--trust", "--set", "run.total_steps=3000"]) == 0
    record = ["--fights", "1", "--greedy", "--trust", "--record", "fights"]
    assert cli.run(["evaluate", "fit", *record]) == 0
    # The files may be moved: paths are compared by their last part.
    (tmp_path / "moved").mkdir()
    (tmp_path / "my.toml").rename(tmp_path / "moved" / "my.toml")
    moved = ["--trust", "--set", "env.options.boss=../moved/my.toml", "--set", "run.total_steps=4000"]
    assert cli.run(["train", "--resume", "fit", *moved]) == 0
    stored = load_run_settings(tmp_path / "runs/fit/config.toml")
    assert stored.env.options["boss"] == str(tmp_path / "moved" / "my.toml")
    shutil.copy(tmp_path / "moved" / "my.toml", "other.toml")
    other = ["--trust", "--set", "env.options.boss=other.toml", "--set", "run.total_steps=5000"]
    assert cli.run(["train", "--resume", "fit", *other]) == 1
    assert "was written with env.options = " in capsys.readouterr().err


def test_a_run_that_its_time_limit_ended_is_trained_to_the_end(caplog):
    caplog.set_level(logging.INFO, "soulslab")
    limit = ["--set", "run.max_seconds=1e-9"]
    assert cli.run(["train", "--config", "demo.toml", "--run-dir", "run", *SMALL, *limit]) == 0
    assert "run.max_seconds = 1e-09 ended the run after 0 of 2000 decisions" in caplog.text
    (command,) = re.findall(r"to complete the training: soulslab (.*)", caplog.text)
    assert cli.run(command.split()) == 0
    assert "completed: " in caplog.text


def test_a_policy_of_the_simulator_fights_a_boss_of_a_real_game(tmp_path, trained):
    words = ["evaluate", "run", "--env", IUDEX_DEMO_ID, "--option", "stand_in=true", "--fights", "2", "--greedy"]
    assert cli.run([*words, "--json", "report.json", "--record", "judged"]) == 0
    (row,) = json.loads((tmp_path / "report.json").read_text())
    assert (row["env"], row["options"]["stand_in"], row["n_fights"]) == (IUDEX_DEMO_ID, True, 2)
    assert "boss" not in row["options"]
    fights = read_recorded_fights([tmp_path / "judged"])
    assert all(fight.moments["boss_hp"][0] == 1037 for fight in fights)
    # Both fights were played in one game, although the policy was trained in eight environments.
    assert [fight.seed is None for fight in read_fight_set(tmp_path / "judged").fights] == [False, True]


def test_an_option_that_the_other_environment_does_not_have(trained, capsys):
    assert cli.run(["evaluate", "run", "--env", IUDEX_DEMO_ID, "--option", "stand_on=true"]) == 2
    assert "has no option 'stand_on'; did you mean 'stand_in'?" in capsys.readouterr().err


def test_a_folder_that_holds_a_run_is_not_overwritten(trained, capsys):
    assert cli.run(["train", "--run-dir", "run", *SMALL]) == 1
    assert "already holds a run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", *SMALL, "--set", "env.options.boss=jugde"], "unknown boss 'jugde'; did you mean 'judge'?"),
        (["train", *SMALL, "--env", "nonsense"], "`nonsense` doesn't exist"),
        (["train", "--config", "dmeo.toml"], "soulslab has no config of that name (any.toml, demo.toml"),
        (["train", "--resume", "nothing"], "nothing/config.toml: cannot be read"),
    ],
)
def test_mistakes(capsys, arguments, words):
    assert cli.run(arguments) == 2
    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    "words", [["evaluate"], ["play", "--policy"], ["train", "--resume"], ["fights", "record", "x", "--policy"]]
)
@pytest.mark.parametrize("path", ["nothing", "empty"])
def test_a_missing_run(tmp_path, words, path, capsys):
    (tmp_path / "empty").mkdir()
    assert cli.run([*words, path]) == cli.EXIT_USAGE
    assert f"soulslab: {path}" in capsys.readouterr().err
    assert [each.name for each in tmp_path.rglob("*")] == ["empty"]
