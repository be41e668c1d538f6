"""Documentation and code match: errors, settings, commands, links, make targets, site."""

import inspect
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import soulslab.errors
from benchmarks.commands import app as benchmarks_app
from soulslab import cli
from soulslab.arena.boss_catalog import find_boss
from soulslab.arena.boss_file import BOSS_DIR
from soulslab.arena.live_fight import LiveFight, LiveFightOptions
from soulslab.arena.window.key_log import KeyLogWriter
from soulslab.config import describe_settings
from soulslab.errors import SoulslabError
from soulslab.learn.settings import TrainSettings
from soulslab.siphon.process.private_display import PrivateDisplay
from soulslab.siphon.process.window import wait_for_window
from soulslab.siphon.process.x11 import XConnection
from support.doom import start_doom
from support.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = {("soulslab",): cli.app, ("python", "-m", "benchmarks"): benchmarks_app}
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])


def error_classes():
    return [item for _, item in inspect.getmembers(soulslab.errors, inspect.isclass) if issubclass(item, Exception)]


def documented_tree():
    """Return the parent of each class in the tree of docs/errors.md."""
    found, parents = {}, {}
    for line in (ROOT / "docs/errors.md").read_text().splitlines():
        match = re.match(r"([│├└─ ]*)([A-Z]\w+Error)$", line)
        if match:
            depth = len(match[1])
            parents[depth] = match[2]
            found[match[2]] = next((parents[d] for d in range(depth - 1, -1, -1) if d in parents), "Exception")
    return found


def test_error_tree_matches_classes():
    assert documented_tree() == {cls.__name__: cls.__bases__[0].__name__ for cls in error_classes()}


@pytest.mark.parametrize("cls", error_classes(), ids=lambda cls: cls.__name__)
def test_errors_are_documented_soulslab_errors(cls):
    assert issubclass(cls, SoulslabError)
    assert cls.__doc__


def test_errors_page_includes_every_module():
    page = (ROOT / "docs/errors.md").read_text()
    for module in ("soulslab.errors", *{cls.__module__ for cls in error_classes()}):
        assert f"::: {module}\n" in page


@pytest.mark.parametrize("row", describe_settings(TrainSettings), ids=lambda row: row.path)
def test_settings_are_documented(row):
    assert row.doc


def test_configuration_page_includes_train_settings():
    marker = f"<!-- settings: {TrainSettings.__module__}:{TrainSettings.__name__} -->"
    assert marker in (ROOT / "docs/configuration.md").read_text().splitlines()


def documented_commands():
    for page in PAGES:
        for block in re.findall(r"```(?:bash|sh|console|bat)\n(.*?)```", page.read_text(), re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(line.removeprefix("$ "), comments=True)
                for program, app in PROGRAMS.items():
                    if words[: len(program)] == list(program):
                        arguments = words[len(program) :]
                        yield pytest.param(app, arguments, id=f"{page.name}: {' '.join(arguments)[:60]}")


@pytest.mark.parametrize(("app", "words"), list(documented_commands()))
def test_documented_commands_parse(app, words):
    command, bound, *_ = app.parse_args(words, print_error=False, exit_on_error=False)
    assert callable(command)
    assert bound is not None


#: Commands of soulslab that end by themselves, or with the options that `smaller` adds.
RUN = re.compile(r"(train|tune|evaluate|join|fights|boss|film|doctor|remove-tokens|games list)\b")
#: Commands that need a game, a screen, a person, a service or a file of the reader, and those that take long.
NOT_RUN = re.compile(
    r"doom|souls_3|DarkSouls(?!.*stand_in=true)|Process|Live|my_game|pixels|taught|human|my\.toml|mine\.h5|--keys|"
    r"--(dashboard|prometheus|token-file) ?|runs/live|fights/pc2|recordings/terminal|simulated|--known"
)
#: Commands that need a game, which the test starts: Doom, and a fight that is replayed in its window.
RUN_WITH_GAME = re.compile(r"siphon (?!serve)\S+ doom\b|arena --replay \S+\.log")
#: Runs and files that a page makes with a command or a script that is not run here.
MADE_OTHERWISE = {
    "first_hour.md": ("my_boss.toml", "runs/demo", "runs/bold"),
    "play_it.md": ("evening.log",),
    "remote.md": ("runs/remote",),
    "training.md": ("runs/frost",),
}
SMALLER = {"--fights": "1", "--trials": "1", "--processes": "1", "--minutes": "0.1", "--seconds": "0.5"}
SMALLER |= {"--bosses": "1", "--rounds": "1", "--decisions": "64"}
#: Words that are added to a command with a given word. Enough attacks for a fit are recorded in 150 steps.
ADDED = {
    "--top-up": ["--set", "env.options.max_episode_steps=150"],
    "--record": ["--option", "max_episode_steps=150"],
}
#: Options without which a command takes long.
OPTIONS = {
    "evaluate": {"--fights": "1"},
    "boss predict": {"--bosses": "1", "--fights": "1"},
    "boss refine": {"--minutes": "0.01", "--rounds": "1", "--decisions": "64"},
    "film": {"--phase": "1"},
    "siphon watch": {"--seconds": "0.5"},
    "siphon record": {"--seconds": "0.5"},
    "siphon stream": {"--frames": "2"},
}
SMALL = ["env.n_envs=2", "run.total_steps=64", "run.evaluate_every=0"]
SMALL_FITTED = [*SMALL, "learner.n_steps=16"]  # the layers are those of the policy in run.start_from
SMALL_PPO = [*SMALL_FITTED, "network.widths=[8]"]
SMALL_RAINBOW = [
    *SMALL,
    "network.widths=[8]",
    "learner.learning_starts=16",
    "learner.batch_size=8",
    "replay.capacity=512",
]


def commands_to_run():
    found = {}
    for parameters in documented_commands():
        app, words = parameters.values
        text = " ".join(words)
        if app is cli.app and (RUN_WITH_GAME.match(text) or (RUN.match(text) and not NOT_RUN.search(text))):
            found.setdefault(parameters.id.split(":")[0], []).append(words)
    return found


def smaller(words):
    """Return a command with fewer fights, trials, bosses and steps."""
    words = [SMALLER.get(before, word) for before, word in zip(["", *words], words, strict=False)]
    words = [re.sub(r"(generated:(\d+))0-\d+", r"\g<1>0-\g<2>1", word) for word in words]
    words = [*words, *(added for word in words for added in ADDED.get(word, ()))]
    if words[0] == "film" and words[1].startswith("runs/"):
        words = [word for word in words if word != "--won"]  # the policy has not learned
    for start, options in OPTIONS.items():
        if " ".join(words).startswith(start):
            return [*words, *(word for flag, value in options.items() if flag not in words for word in (flag, value))]
    if words[0] not in ("train", "tune") or (words[0] == "tune" and "--search" not in words):
        return words
    settings = SMALL_RAINBOW if "rainbow" in " ".join(words) else SMALL_PPO
    if "fitted.toml" in words:
        settings = SMALL_FITTED
    if "--resume" in words:
        settings = ["run.total_steps=96"]
    if "generated.toml" in words:
        settings = [*settings, "env.options.boss=generated:0-1"]
    if any(word.startswith("demonstrations.path=") for word in words):
        settings = [*settings, "demonstrations.cloning_updates=4"]
    return [*words, *(word for setting in settings for word in ("--set", setting))]


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small") / "run"
    assert cli.run(smaller(["train", "--run-dir", str(folder)])) == 0
    return folder


@pytest.fixture(scope="module")
def display():
    with PrivateDisplay((640, 480)) as one:
        yield one


@pytest.fixture(scope="module")
def doom(display):
    """Return the id of a Doom that already runs."""
    x, game = XConnection(display.name), start_doom(display)
    try:
        wait_for_window(x, game.pid, deadline_s=PATIENCE_S)
        yield game.pid
    finally:
        game.kill()
        x.close()


def make_file(name, small_run):
    """Make what a page makes with a command or a script that is not run here."""
    match Path(name).suffix:
        case ".toml":
            shutil.copy(BOSS_DIR / "judge.toml", name)
        case ".log":
            game = LiveFight(find_boss("judge"), LiveFightOptions(seed=7))
            writer = KeyLogWriter(Path(name), game, "judge")
            for _ in range(60):
                game.tick(())
                writer.tick(game)
            writer.close(game)
        case _:
            shutil.copytree(small_run, name)


def run_replay(words, display):
    """Replay a fight in a process of its own, which gets another name."""
    command = [sys.executable, "-m", "soulslab", *words, "--renderer", "software"]
    done = subprocess.run(
        command, env=os.environ | display.environment(), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, (words, done.stderr)


@pytest.mark.parametrize("page", commands_to_run())
def test_documented_commands_run_with_relative_paths(page, small_run, tmp_path, monkeypatch, capsys, request):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    for made in MADE_OTHERWISE.get(page, ()):
        make_file(made, small_run)
    for words in commands_to_run()[page]:
        small = smaller(words)
        if words[0] == "arena":
            run_replay(small, request.getfixturevalue("display"))
            continue
        if words[0] == "siphon" and "--start" not in words:
            small += ["--pid", str(request.getfixturevalue("doom"))]
        assert cli.run(small) == 0, (words, capsys.readouterr().err)
        for flag, path in pairwise(small):
            if flag in ("--run-dir", "--study", "--out", "--json"):
                assert Path(path).exists(), words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_images_exist(page):
    """mkdocs does not check the README, whose links are relative to the repository."""
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text())
    assert not [link for link in links if not (page.parent / link).exists()]


def test_documented_make_targets_exist():
    targets = set(re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split())
    for page in PAGES:
        for line in re.findall(r"(?:^|`)make ([a-z ]+?)(?= *(?:`|#|$|ARGS))", page.read_text(), re.MULTILINE):
            assert set(line.split()) <= targets, f"{page.name}: make {line}"


def test_navigation_contains_every_page():
    menu = (ROOT / "mkdocs.yml").read_text()
    assert all(f"- {page.name}\n" in menu for page in (ROOT / "docs").glob("*.md"))


def test_site_builds_without_warnings(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "<code>learner.lr</code>" in (tmp_path / "configuration" / "index.html").read_text(encoding="utf-8")
    pages = [page.read_text(encoding="utf-8") for page in tmp_path.rglob("index.html")]
    assert not [page for page in pages if "::</p>" in page]
    assert "language-bash" in (tmp_path / "training" / "index.html").read_text(encoding="utf-8")
    assert "fonts.googleapis" not in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_ci_runs_make_check_and_test():
    script = (ROOT / ".ci" / "run").read_text()
    assert re.findall(r"^make (\w+)", script, re.MULTILINE) == ["test", "check", "test"]


@pytest.mark.parametrize(("failing", "status"), [("check", 3), ("test", 3), ("neither", 0)])
def test_ci_fails_if_a_command_fails(tmp_path, failing, status):
    make = tmp_path / "make"
    make.write_text(f'#!/bin/sh\necho "$*"\n[ "$*" != {failing} ] || exit 3\n')
    make.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    ran = subprocess.run(
        [ROOT / ".ci" / "run"], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout.split("\n")) == (status, ["test ARGS=--version", "test", "check", ""])
