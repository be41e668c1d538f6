"""Commands and environments where only some extras are installed.

Each test runs a program that finds the packages of the chosen extras and no others: a folder of links to the installed
packages takes the place of ``site-packages``.
"""

import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from soulslab.errors.general import OPTIONAL_MODULES
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.testing.fake_session import FakeSession
from support.pty import Pty

ROOT = Path(__file__).parents[2]
PROGRAM = ["-S", "-c", "import sys; sys.argv[0] = 'soulslab'; from soulslab.cli import main; main()"]
#: Runs several commands, prints the exit code and the error output of each as JSON, and imports modules.
COMMANDS = """
import importlib, io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from soulslab.cli import run
for words in json.loads(sys.argv[1]):
    with redirect_stderr(io.StringIO()) as errors, redirect_stdout(io.StringIO()):
        code = run(words)
    print(json.dumps([code, errors.getvalue()]))
for name in sys.argv[2:]:
    importlib.import_module(name)
"""
USER_EXTRAS = ("siphon", "window", "learn", "tune")


def closure(extras):
    """Return the distributions that soulslab needs with some extras."""
    found, seen, waiting = {}, set(), [Requirement(f"soulslab[{','.join(extras)}]")]
    while waiting:
        wanted = waiting.pop()
        if str(wanted) in seen:
            continue
        seen.add(str(wanted))
        found[wanted.name] = distribution = metadata.distribution(wanted.name)
        for text in distribution.requires or []:
            needed = Requirement(text)
            if needed.marker is None or any(needed.marker.evaluate({"extra": e}) for e in wanted.extras or {""}):
                waiting.append(needed)
    del found["soulslab"]
    return found.values()


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Makes the environment of a program that sees the packages of some extras."""

    def installed(*extras):
        folder = tmp_path_factory.mktemp("packages")
        for distribution in closure(extras):
            tops = {file.parts[0] for file in distribution.files or []} - {"..", "__pycache__"}
            for top in tops:
                place = folder / top
                if not place.exists():
                    place.symlink_to(Path(distribution.locate_file(top)))
        # The modules come from src; what the packages are needed for is in the metadata.
        product = metadata.distribution("soulslab")
        (described,) = {file.parent for file in product.files if file.name == "METADATA"}
        (folder / described).symlink_to(Path(product.locate_file(described)))
        return {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(folder))), "PYTHONWARNINGS": ""}

    return installed


def run(environment, *arguments, cwd):
    command = [sys.executable, *PROGRAM, *arguments]
    return subprocess.run(
        command, env=environment, cwd=cwd, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )


def run_all(environment, commands, cwd, modules=()):
    """Run commands in one process, which then imports modules; return exit code and error output of each command."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", COMMANDS, json.dumps([command.split() for command in commands]), *modules],
        env=environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def base(installed):
    return installed()


NEEDED_EXTRA = {
    "train": "learn",
    "tune": "learn",
    "demo": "learn",
    "evaluate policy": "learn",
    "play --policy policy": "learn",
    "film policy": "learn",
    "fights record fights --fights 1": "learn",
    "siphon attach doom": "siphon",
    "siphon serve doom": "siphon",
    "games check doom": "siphon",
    "arena": "window",
}


def line_for(extra):
    return rf"soulslab: [\w-]+ is not installed; install it with: pip install 'soulslab\[{extra}\]'\n"


def test_a_missing_extra_is_one_line_with_the_command_that_installs_it(base, tmp_path):
    (tmp_path / "policy").touch()
    results = run_all(base, NEEDED_EXTRA, tmp_path)
    for (command, extra), (code, errors) in zip(NEEDED_EXTRA.items(), results, strict=True):
        assert code == 1, command
        assert re.fullmatch(line_for(extra), errors), (command, errors)
    assert list(tmp_path.iterdir()) == [tmp_path / "policy"]


SMALL = "--set env.n_envs=2 --set learner.n_steps=16 --set run.total_steps=64"
#: Short commands, with the extras that each needs and its exit code with them. GAME is the address of a served game.
SHORT_COMMANDS = {
    f"train --run-dir run {SMALL}": (["learn"], 0),
    "evaluate judge --fights 1": (["learn"], 0),
    "fights record fights --fights 1": (["learn"], 0),
    "fights show fights": (["learn"], 0),
    f"tune --study study --trials 1 --search learner.lr=1e-4..1e-2:log {SMALL}": (["learn", "tune"], 0),
    "siphon attach GAME": (["siphon"], 0),
    "siphon capture GAME frame.png": (["siphon"], 0),
    "siphon record GAME values.h5 --seconds 0.1": (["siphon"], 0),
    "games check GAME --seconds 0.1": (["siphon"], 0),
    "siphon attach absent.toml": (["siphon"], 1),  # the game is not running
    "arena": (["window"], 1),  # there is no display
}


#: Modules that need these extras alone, which are those of the image in deploy/, besides the dashboard.
LEARNER = ("learn", "fleet")
FLEET = [f"soulslab.fleet.{name}" for name in ("game_process", "learning", "operating", "recorded_game")]


@pytest.mark.parametrize(
    "extras", [LEARNER, ("siphon",), (*USER_EXTRAS, "dashboard")], ids=["learner", "siphon", "all"]
)
def test_commands_work_with_the_extras_that_they_need(installed, tmp_path, extras):
    environment = {name: value for name, value in installed(*extras).items() if name != "DISPLAY"}
    (tmp_path / "absent.toml").write_text('name = "Absent"\n[process]\nexecutable = "no_such_game_runs"\n')
    options = ServerOptions(address=f"unix:{tmp_path}/game", needs_token=False)
    with FakeSession() as session, serve(session, options) as server:
        commands = [command.replace("GAME", server.address) for command in SHORT_COMMANDS]
        results = run_all(environment, commands, tmp_path, FLEET if extras == LEARNER else ())
    for (command, (needed, code_if_installed)), (code, errors) in zip(SHORT_COMMANDS.items(), results, strict=True):
        missing = [extra for extra in needed if extra not in extras]
        assert code == (1 if missing else code_if_installed), (command, errors)
        if missing:
            assert re.fullmatch(line_for(missing[0]), errors.splitlines(keepends=True)[-1]), (command, errors)
        else:
            assert "not installed" not in errors, (command, errors)


def test_the_program_exits_with_the_error_of_a_missing_extra(base, tmp_path):
    done = run(base, "train", cwd=tmp_path)
    assert done.returncode == 1
    assert re.fullmatch(line_for("learn"), done.stderr), done.stderr


def test_the_environments_are_listed_without_extras(base, tmp_path):
    done = run(base, "envs", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "soulslab/ArenaLive-v0" in done.stdout


MAKE = """
import gymnasium, soulslab
from soulslab.errors import MissingDependencyError
env = gymnasium.make("soulslab/Arena-v0")
env.reset(seed=0)
for name, options in (("ArenaLive", {}), ("Process", {"profile": "doom"}), ("Doom", {}), ("DarkSouls3Iudex", {})):
    try:
        gymnasium.make(f"soulslab/{name}-v0", **options).reset(seed=0)
    except MissingDependencyError as error:
        print(name, error.extra)
"""


def test_environments_name_the_extra_that_they_need(base, tmp_path):
    done = subprocess.run(
        [sys.executable, "-S", "-c", MAKE], env=base, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    named = [f"{name} siphon" for name in ("ArenaLive", "Process", "Doom", "DarkSouls3Iudex")]
    assert done.stdout.splitlines() == named, done.stderr


def test_a_person_plays_in_the_terminal_without_extras(base, tmp_path):
    terminal = Pty()
    command = [sys.executable, *PROGRAM, "play", "--seed", "0"]
    streams = {"stdin": terminal.slave, "stdout": terminal.slave, "stderr": terminal.slave}
    process = subprocess.Popen(command, env=base, cwd=tmp_path, **streams)
    try:
        terminal.wait_for("The Halberd Judge, phase 1|not installed|Error")
        assert "not installed" not in terminal.output()
        assert "Error" not in terminal.output()
    finally:
        process.kill()
        process.wait()
        terminal.close()


def test_the_window_opens_without_the_learner(installed, tmp_path):
    done = run(installed("window"), "arena", cwd=tmp_path)
    assert "is not installed" not in done.stderr


def test_the_doctor_reports_missing_extras_and_succeeds(base, tmp_path):
    done = run(base, "doctor", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    for extra in USER_EXTRAS:
        assert f"pip install 'soulslab[{extra}]'" in done.stdout
    assert "missing" not in done.stdout.replace("not installed", "")


def test_every_optional_package_names_its_extra():
    declared = {}
    for text in metadata.requires("soulslab"):
        requirement = Requirement(text)
        extra = re.search(r"extra == [\"'](\w+)[\"']", text)
        if extra and extra[1] in USER_EXTRAS:
            declared.setdefault(requirement.name, set()).add(extra[1])
    named = dict(OPTIONAL_MODULES.values())
    assert declared.keys() <= named.keys()
    assert all(named[name] in extras for name, extras in declared.items())
