"""The main job from end to end, against a boss that a few seconds of training are enough for."""

import json
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import av
import pytest

from soulslab import cli
from soulslab.arena.boss_file import BOSS_DIR
from soulslab.dashboard.pages.frame import short
from soulslab.learn.policy import Policy
from support.browser import running_dashboard
from support.forked import ForkedPopen
from support.waiting import PATIENCE_S, wait_for

MAIN = "from soulslab.cli import main; main()"
DEMO = ["demo", "--no-dashboard"]


def write_boss(path, hp, damage):
    """Write a judge with other health and damage."""
    text = (BOSS_DIR / "judge.toml").read_text()
    text = re.sub(r"(?m)^hp = .*", f"hp = {hp}", text)
    path.write_text(re.sub(r"(?m)^damage_scale = .*", f"damage_scale = [{damage}, {damage}]", text))
    return path


def flags(folder, boss, seed=4, total_steps=20_000):
    # One phase, because the film of a fight takes most of the time.
    settings = [f"run.total_steps={total_steps}", "env.n_envs=32", f"run.seed={seed}"]
    settings += [f'env.options.boss="{boss}"', 'env.options.phase="1"']
    return ["--run-dir", str(folder), *(word for setting in settings for word in ("--set", setting))]


@pytest.fixture
def hard_boss(tmp_path, monkeypatch):
    """Return the path of a judge that is never beaten; two fights are enough to see that nothing can be filmed."""
    monkeypatch.setattr("soulslab.demo.MAX_ATTEMPTS", 2)
    return write_boss(tmp_path / "hard.toml", 90_000, 9.0)


@pytest.fixture(scope="module")
def easy_boss(tmp_path_factory):
    """Return the path of a judge that falls to a blow in each phase and does not hurt."""
    return write_boss(tmp_path_factory.mktemp("boss") / "easy.toml", 4, 0.0)


@pytest.fixture(scope="module")
def finished(tmp_path_factory, easy_boss):
    """Return the folder of a finished demo, and the lines that it printed."""
    folder = tmp_path_factory.mktemp("finished") / "demo"
    command = [sys.executable, "-c", MAIN, "demo", *flags(folder, easy_boss)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return folder, done.stdout.strip().splitlines()


def frames(path: Path) -> int:
    with av.open(str(path)) as film:
        return sum(1 for _ in film.decode(video=0))


def test_demo_writes_all_files_and_reports_its_result(finished, easy_boss):
    folder, lines = finished
    last_line = lines[-1]
    assert any(re.fullmatch(r"the dashboard is at http://127.0.0.1:\d+/run/demo\?token=\S+", line) for line in lines)
    report = json.loads((folder / "report.json").read_text())
    assert set(report) == {
        *("win_rate", "ci_low", "ci_high", "fights", "env_steps", "train_seconds", "boss", "phase", "seed")
    }
    assert 0 <= report["ci_low"] <= report["win_rate"] <= report["ci_high"] <= 1
    assert report["win_rate"] > 0.9
    assert (report["fights"], report["boss"], report["phase"], report["seed"]) == (300, str(easy_boss), "1", 4)
    assert report["env_steps"] >= 20_000
    assert f"{100 * report['win_rate']:.1f} %" in last_line
    assert f"{report['env_steps']} env steps" in last_line
    assert Policy.load(folder / "policy.safetensors").header.env_steps == report["env_steps"]
    assert (folder / "learning_curve.png").read_bytes().startswith(b"\x89PNG")
    assert list((folder / "tensorboard").iterdir())
    assert frames(folder / "won_fight.mp4") > 60


def test_dashboard_shows_the_run_of_a_demo(finished, tmp_path):
    folder, _ = finished
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    log = tmp_path / "dashboard.log"
    with running_dashboard(folder.parent, log) as dashboard, opener.open(dashboard.at("/run/demo")) as answer:
        page = answer.read().decode()
    report = json.loads((folder / "report.json").read_text())
    for text in ("finished", short(report["env_steps"]), "Watch live", "Learning rate"):
        assert text in page


def test_a_finished_demo_is_moved_aside_not_overwritten(tmp_path, finished, hard_boss):
    first = (finished[0] / "policy.safetensors").read_bytes()
    shutil.copytree(finished[0], tmp_path / "demo")
    assert cli.run([*DEMO, *flags(tmp_path / "demo", hard_boss, seed=5, total_steps=1)]) == 0
    kept = [path for path in tmp_path.iterdir() if path.name.startswith("demo_")]
    assert len(kept) == 1
    assert (kept[0] / "policy.safetensors").read_bytes() == first
    assert (tmp_path / "demo" / "policy.safetensors").read_bytes() != first


def test_a_demo_that_was_killed_before_its_first_checkpoint_starts_again(tmp_path, hard_boss):
    """It wins nothing, and reports that without a film."""
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "config.toml").write_text("[run]\nseed = 1\n")
    (tmp_path / "demo" / "run.lock").touch()
    assert cli.run([*DEMO, *flags(tmp_path / "demo", hard_boss, total_steps=1)]) == 0
    report = json.loads((tmp_path / "demo" / "report.json").read_text())
    assert (report["seed"], report["win_rate"]) == (4, 0)
    assert not (tmp_path / "demo" / "won_fight.mp4").exists()


@pytest.mark.parametrize(
    ("setting", "message"),
    [("env.id=CartPole-v1", "env.id: the demo supports soulslab/Arena-v0"), ("env.options.bos=judge", "bos")],
)
def test_a_wrong_setting_is_told_before_training(tmp_path, setting, message, capsys):
    assert cli.run([*DEMO, "--run-dir", str(tmp_path / "demo"), "--set", setting]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()


def test_an_interrupted_demo_continues(tmp_path, hard_boss):
    """Ctrl-C, as a terminal sends it, in the middle of training; then the same command again."""
    folder = tmp_path / "demo"
    command = [sys.executable, "-c", MAIN, *DEMO, *flags(folder, hard_boss)]
    progress = folder / "progress.jsonl"
    with ForkedPopen(
        [*command, "--set", "run.total_steps=1_000_000_000"], stderr=subprocess.PIPE, text=True
    ) as process:

        def is_training():
            assert process.poll() is None
            return progress.exists() and "TrainProgress" in progress.read_text()

        try:
            wait_for(is_training, "the first update")
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=PATIENCE_S) == cli.EXIT_INTERRUPTED
        finally:
            process.kill()
        said = process.stderr.read()
    # Its settings name the file of a boss.
    assert f"to resume: soulslab demo --run-dir {folder} --trust\n" in said
    assert not (folder / "report.json").exists()
    # The end of the second run lies behind it already, so that it only evaluates, draws and films.
    assert cli.run([*DEMO, "--run-dir", str(folder), "--trust", "--set", "run.total_steps=1"]) == 0
    assert json.loads((folder / "report.json").read_text())["env_steps"] > 0
    assert progress.read_text().count('"TrainStarted"') == 2
