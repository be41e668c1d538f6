"""``soulslab boss``: boss files."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from msgspec.structs import replace

from soulslab import cli
from soulslab.arena.boss_catalog import find_boss
from soulslab.arena.fitting.recorded_fight import read_fights, save_fight
from soulslab.arena.uncertainty import load_uncertainty, uncertainty_path
from support.forked import ForkedPopen
from support.waiting import PATIENCE_S, wait_for

MAIN = "from soulslab.cli import main; main()"


def interrupt(arguments, is_due):
    """Run a command, send it SIGINT when ``is_due()``, and return the words of its log without spaces."""
    with ForkedPopen([sys.executable, "-c", MAIN, *arguments], stderr=subprocess.PIPE, text=True) as process:

        def is_time():
            assert process.poll() is None
            return is_due()

        try:
            wait_for(is_time, "the moment of the interrupt")
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=PATIENCE_S) == cli.EXIT_INTERRUPTED
        finally:
            process.kill()
        return "".join(process.stderr.read().split())  # the log breaks long lines wherever it has to


@pytest.mark.parametrize("name", ["judge", "generated:7"])
def test_a_boss_is_written_as_a_file(tmp_path, name):
    file = tmp_path / "mine.toml"
    assert cli.run(["boss", "write", name, str(file)]) == 0
    assert find_boss(file) == find_boss(name)
    assert "\n[[moves.windows]]\nstart_s = " in file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "file", "words"),
    [
        ("judge", "mine.toml", "already exists"),
        ("judge", "mine", "must end in .toml"),
        ("judge", "no/mine.toml", "cannot be written"),
        ("juge", "other.toml", "judge"),
    ],
)
def test_a_boss_that_cannot_be_written(tmp_path, monkeypatch, capsys, name, file, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text("kept")
    assert cli.run(["boss", "write", name, file]) == 2
    assert words in capsys.readouterr().err
    assert (tmp_path / "mine.toml").read_text() == "kept"


def test_a_boss_is_recorded_and_fitted_from_an_empty_folder(tmp_path, monkeypatch, capsys, caplog):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.run(["boss", "record", "seen", "--boss", "trickster", "--minutes", "1.5"]) == 0
    assert cli.run(["boss", "fit", "seen", "--out", "mine.toml", "--name", "Mine", "--ground", "trickster"]) == 0
    printed = capsys.readouterr().out
    for words in (
        "attacks: windows",
        "attacks: when they are chosen",
        "numbers measured",
        "record next:",
        " more, which are less useful",
        "Attack3000",
    ):
        assert words in printed
    boss, truth = find_boss("mine.toml"), find_boss("trickster")
    assert (boss.name, boss.hp, boss.ground) == ("Mine", truth.hp, truth.ground)
    picture = cv2.imread("mine.png")
    assert picture is not None
    assert picture.std() > 5
    assert {path.name for path in tmp_path.iterdir()} == {"seen", "mine.toml", "mine.uncertainty.toml", "mine.png"}
    # A policy for the fitted boss: trained, its wins predicted, and refined in the true fight.
    small = ("env.options.boss=mine.toml", "run.total_steps=64", "env.n_envs=2", "learner.n_steps=16")
    changes = [part for change in small for part in ("--set", change)]
    assert cli.run(["train", "--config", "fitted.toml", "--run-dir", "run", *changes]) == 0
    capsys.readouterr()
    for recordings in ([], ["seen"]):  # by default, those of the fit
        assert cli.run(["boss", "predict", "run", *recordings, "--bosses", "1", "--fights", "1"]) == 0
    first, again = capsys.readouterr().out.splitlines()
    assert first.startswith("expected wins: ")
    assert first == again
    arena = ["--env", "soulslab/Arena-v0", "--option", "boss=trickster"]
    Path("other").mkdir()
    monkeypatch.chdir("other")
    assert cli.run(["boss", "predict", "../run", "../seen", "--bosses", "1", "--fights", "1"]) == 0
    Path("../mine.toml").rename("mine.toml")
    for command in (["predict"], ["refine", "--out", "rounds", *arena]):
        assert cli.run(["boss", command[0], "../run", "../seen", *command[1:]]) == 2
        error = capsys.readouterr().err
        assert f"../run: was trained against the boss file {tmp_path / 'mine.toml'}" in error
        assert "put the file there" in error
    Path("mine.toml").rename("../mine.toml")
    monkeypatch.chdir(tmp_path)
    for words, error in (
        ([], "give it on the command line, with --boss NAME or --set"),
        (["--boss", "judge"], "for a boss without intervals set boss_intervals to [0, 0]"),
    ):
        assert cli.run(["evaluate", "run", "--fights", "1", "--greedy", *words]) == 2
        assert error in capsys.readouterr().err
    refine = ["boss", "refine", "run", *arena, "--minutes", "0.01", "--rounds", "1", "--decisions", "15000"]
    progress = Path("run_refined/round_1/run/progress.jsonl")
    said = interrupt(refine, lambda: progress.exists() and "TrainProgress" in progress.read_text())
    assert "toresume:thesamecommandwith--resume" in said
    assert cli.run(refine) == 2
    caplog.set_level("INFO", "soulslab")
    assert cli.run([*refine, "--resume"]) == 0
    assert progress.read_text().count('"TrainStarted"') == 2
    printed = capsys.readouterr()
    assert "or continue it with --resume" in printed.err
    assert re.search(r"round 1: [01] of 1 fight won \(\d+ to \d+ %\)", printed.out)
    assert "the policy that was trained with all recordings: run_refined/round_1/run" in caplog.text
    assert Path("run_refined/round_1/run/policy.safetensors").exists()
    last = Path("run_refined/round_1/boss.toml")
    used = [tmp_path / "seen", tmp_path / "run_refined/round_1/recording"]
    assert load_uncertainty(uncertainty_path(last), find_boss(str(last))).recordings == tuple(map(str, used))


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["none", "--out", "mine.toml"], 1, "none: does not exist; record fights with soulslab boss record"),
        (["none", "--out", "no/mine.toml"], 2, "no/mine.toml: cannot be written: the folder no does not exist"),
        (["--out", "mine.toml"], 2, "name at least one recording"),
        (["none", "--out", "mine"], 2, "must end in .toml"),
    ],
)
def test_a_fit_that_cannot_be_made(tmp_path, monkeypatch, capsys, arguments, code, words):
    monkeypatch.chdir(tmp_path)
    assert cli.run(["boss", "fit", *arguments]) == code
    assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_known_numbers_replace_fitted_ones(tmp_path, monkeypatch, capsys, caplog):
    monkeypatch.chdir(tmp_path)
    assert cli.run(["boss", "record", "seen", "--minutes", "2"]) == 0
    fit = ["boss", "fit", "seen", "--out", "mine.toml", "--known", "known.toml"]
    known = Path("known.toml")
    for text, words in (
        ("hpp = 1037", "known.toml: hpp: a boss file has no number 'hpp' here; did you mean 'hp'?"),
        ("[moves.Attack300]\nrecovery_s = 1", "known.toml: moves.Attack300.recovery_s: the recordings show no attack"),
    ):
        known.write_text(text)
        assert cli.run(fit) == 2
        assert words in capsys.readouterr().err
        assert not Path("mine.toml").exists()
    known.write_text("poise = 130\nhp = 2000\n[moves.Attack3000]\nrecovery_s = [0.5, 2]")
    assert cli.run(fit) == 0
    assert "3 numbers known from elsewhere" in capsys.readouterr().out
    (warning,) = (record.message for record in caplog.records if record.levelname == "WARNING")
    assert warning == "known.toml: hp: 2000 is known, but the recordings show 1037 (1037); the known number is used"
    boss = find_boss("mine.toml")
    assert (boss.poise, boss.hp) == (130, 2000)
    uncertainty = load_uncertainty(Path("mine.uncertainty.toml"), boss)
    assert (uncertainty.intervals["poise"], uncertainty.known["poise"]) == ((130, 130), (130, 130))


def test_an_interrupted_recording_keeps_its_fights(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen = Path("seen")
    said = interrupt(["boss", "record", "seen", "--minutes", "600"], lambda: len(list(seen.glob("*.npz"))) > 1)
    n_fights = len(read_fights(seen))
    assert f"seencontains{n_fights}fights;thesamecommandaddsfurtherfights" in said


def test_a_second_recording_adds_other_fights(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    caplog.set_level("INFO", "soulslab")
    for _ in range(2):
        assert cli.run(["boss", "record", "seen", "--minutes", "0.1"]) == 0
        Path("seen/.fight_0003.npz.4711.tmp").touch()  # what a killed recording leaves
    assert cli.run(["boss", "record", "seen", "--minutes", "0.1"]) == 0
    # The rules may be compiled, which is announced.
    said = [record.getMessage() for record in caplog.records if record.name == "soulslab.cli.boss"]
    assert said == ["1 fight, 0.1 minutes: seen"] * 3
    files = sorted(Path("seen").iterdir())
    assert [path.name for path in files] == ["fight_0001.npz", "fight_0002.npz", "fight_0003.npz"]
    first, second, _ = read_fights(Path("seen"))
    assert not np.array_equal(first.moments, second.moments)


def test_a_recording_is_of_one_boss(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    record = ["boss", "record", "seen", "--minutes", "0.1"]
    assert cli.run(["boss", "write", "judge", "mine.toml"]) == 0
    assert cli.run([*record, "--boss", "mine.toml"]) == 0
    for name in ("judge", "trickster"):
        assert cli.run([*record, "--boss", name]) == cli.EXIT_USAGE
        assert f"seen: holds fights of mine.toml, not of {name}; choose another folder" in capsys.readouterr().err
    assert cli.run([*record, "--boss", str(tmp_path / "mine.toml")]) == 0
    # Earlier versions did not record the boss.
    (first, _) = read_fights(Path("seen"))
    save_fight(Path("earlier"), replace(first, boss=""))
    assert cli.run(["boss", "record", "earlier", "--minutes", "0.1"]) == 0
    assert [fight.boss for fight in read_fights(Path("earlier"))] == ["", "judge"]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["fit", "--out", "mine.toml"], "boss fit: name at least one recording"),
        (["predict", "judge"], "its boss does not name the recordings to which it was fitted"),
    ],
)
def test_a_command_without_recordings_is_refused(tmp_path, monkeypatch, capsys, words, error):
    monkeypatch.chdir(tmp_path)
    assert cli.run(["boss", *words]) == 2
    assert error in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
