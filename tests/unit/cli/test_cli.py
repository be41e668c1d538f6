"""The command line: output, errors and exit codes."""

import errno
import io
import os
import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest
from rich.table import Table

import soulslab
from benchmarks.commands import app as benchmarks
from soulslab import cli
from soulslab.cli import application
from soulslab.cli.output import PIPE_COLUMNS, print_line, table_console
from soulslab.doctor import Check, State
from soulslab.errors import CheckpointError, ConfigError, SoulslabError
from soulslab.learn.configs import config_path
from soulslab.learn.policy import Policy, PolicyHeader
from soulslab.learn.settings import NetworkSettings
from soulslab.version import VERSION
from support.broken_output import broken_pipe


@pytest.fixture
def failing(monkeypatch):
    """Make `soulslab doctor` raise an error."""

    def failing(error):
        def examine(**_):
            raise error

        monkeypatch.setattr("soulslab.doctor.examine", examine)

    return failing


def test_help_names_every_command(capsys):
    assert cli.run(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(
        name in text for name in ["train", "evaluate", "play", "demo", "envs", "doctor", "--version", "--verbose"]
    )


def commands(app):
    """Yield the words of an application and of its commands, including hidden ones."""
    yield ()
    for name in app:
        if not name.startswith("-"):
            yield from ((name, *words) for words in commands(app[name]))


@pytest.mark.parametrize("app", [application.app, benchmarks], ids=["soulslab", "benchmarks"])
def test_help_contains_no_markup(capsys, app):
    """Help is printed as it is written in the docstrings."""
    for words in commands(app):
        app([*words, "--help"], result_action="return_value")
        text = capsys.readouterr().out
        assert text.startswith(" ".join(("Usage:", app.name[0], *words))), words
        assert "`" not in text, words


def test_version(capsys):
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out.strip() == VERSION


def test_the_installed_command_answers_help_without_gymnasium_and_registers_for_the_rest():
    command = [sys.executable, "-X", "importtime", str(Path(sys.executable).with_name("soulslab"))]
    asked = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
    assert "Usage: soulslab" in asked.stdout
    assert "cyclopts" in asked.stderr
    assert "gymnasium" not in asked.stderr
    listed = subprocess.run([*command, "envs"], capture_output=True, text=True, check=True)
    assert "soulslab/Arena-v0" in listed.stdout


def test_letters_that_an_encoding_lacks_are_written_as_escape_codes(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="cp1252", write_through=True))
    monkeypatch.setattr(sys, "argv", ["soulslab", "--help"])
    monkeypatch.setattr(application, "run", lambda _: print_line("龍.toml: µ"))
    with pytest.raises(SystemExit):
        application.main()
    assert written.getvalue().split() == [rb"\u9f8d.toml:", "µ".encode("cp1252")]


@pytest.mark.parametrize("words", [["envs"], ["games", "list"], ["--help"]])
@pytest.mark.parametrize(
    ("redirection", "unbuffered", "code", "error"),
    [
        ("", "", 1, ""),
        ("", "1", 1, ""),
        ("> /dev/full", "", 1, "soulslab: standard output: No space left on device\n"),
        (">&-", "", 0, ""),
    ],
    ids=["broken pipe", "unbuffered broken pipe", "full disk", "closed"],
)
def test_output_that_cannot_be_written_is_no_traceback(words, redirection, unbuffered, code, error):
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-m", "soulslab", *words]
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with broken_pipe() as pipe:
        done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True, check=False, env=env)
    assert (done.stderr, done.returncode) == (error, code)


def test_help_and_the_server_of_the_dashboard_import_no_large_packages():
    code = (
        "import sys; from soulslab.cli import run; run(['--help']); run(['train', '--help']);"
        "print([name for name in ('torch', 'numba', 'cv2', 'matplotlib', 'av') if name in sys.modules]);"
        "import soulslab.dashboard.server; import soulslab.dashboard.companion;"
        "print([name for name in ('torch', 'optuna', 'matplotlib', 'grpc') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-2:] == ["[]", "[]"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trian"], 'Did you mean "train"?'),
        (["train", "--confg", "x"], "Did you mean --config?"),
        (["evaluate", "x", "--fights", "0"], "Must be >= 1"),
        (["evaluate"], "requires an argument"),
        (["evaluate", "x", "--seed", "-1"], "Must be >= 0"),
        (["play", "--seed", str(2**32)], "Must be < 4294967296"),
    ],
)
def test_wrong_usage(capsys, arguments, words):
    assert cli.run(arguments) == 2
    captured = capsys.readouterr()
    assert words in " ".join(captured.err.replace("│", " ").split())
    assert "Traceback" not in captured.err


@pytest.mark.parametrize("name", ["file", "file/runs"])
def test_dashboard_of_a_path_that_is_not_a_folder_is_refused(tmp_path, capsys, name):
    (tmp_path / "file").touch()
    assert cli.run(["dashboard", str(tmp_path / name)]) == 2
    assert "Not a directory; give the folder of a run, or one that contains runs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("unknown setting", path="a.b", source="x.toml"), 2),
        (gymnasium.error.NameNotFound("Environment `x` doesn't exist"), 2),
        (CheckpointError("runs/x", "is empty"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_errors_become_one_line_and_a_code(capsys, failing, error, code):
    failing(error)
    assert cli.run(["doctor"]) == code
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"soulslab: {error}" if str(error) else "soulslab: interrupted"]


LONG = "x" * 300


@pytest.mark.parametrize(
    "arguments",
    [
        ["evaluate", LONG],
        ["train", "--config", LONG],
        ["train", "--resume", LONG],
        ["play", "--policy", LONG],
        ["film", LONG],
        ["join", LONG, LONG, "--feature", "boss_hp", "--at-most", "0.5", "--out", "out.safetensors"],
        ["remove-tokens", LONG],
        ["fights", "show", LONG],
        ["fights", "record", LONG],
        ["boss", "fit", LONG, "--out", "boss.toml"],
        ["tune", "--space", LONG, "--study", "study"],
        ["siphon", "read", LONG],
        ["siphon", "verify", LONG],
        ["games", "check", LONG],
        ["fleet", "status", LONG],
        ["fleet", "invite", LONG, "name"],
        ["arena", "--mask", LONG],
    ],
    ids=lambda arguments: " ".join(word for word in arguments if word != LONG),
)
def test_a_file_error_is_one_line(tmp_path, monkeypatch, capsys, arguments):
    monkeypatch.chdir(tmp_path)
    assert cli.run(arguments) in {cli.EXIT_FAILED, cli.EXIT_USAGE}
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("soulslab: ")
    assert "File name too long" in line


def test_a_file_error_names_the_file(failing, capsys):
    failing(PermissionError(errno.EACCES, "Permission denied", "runs/x"))
    assert cli.run(["doctor"]) == cli.EXIT_FAILED
    assert capsys.readouterr().err == "soulslab: runs/x: Permission denied\n"
    with pytest.raises(PermissionError):
        cli.run(["doctor", "-vv"])


def test_a_file_error_without_a_file_is_not_hidden(failing):
    failing(OSError(errno.EBADF, "Bad file descriptor"))
    with pytest.raises(OSError, match="Bad file descriptor"):
        cli.run(["doctor"])


def test_an_interrupt_while_the_program_loads_is_one_line():
    script = (
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(name, *_):\n"
        "        if name == 'gymnasium':\n"
        "            raise KeyboardInterrupt\n"
        "sys.argv, sys.meta_path = ['soulslab'], [Interrupt, *sys.meta_path]\n"
        "from soulslab.cli import run\n"
        "sys.exit(run(['envs']))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "soulslab: interrupted\n")


def test_very_verbose_shows_the_traceback(failing):
    failing(SoulslabError("broken"))
    with pytest.raises(SoulslabError, match="broken"):
        cli.run(["doctor", "-vv"])


def test_a_bug_is_not_hidden(failing):
    failing(ZeroDivisionError("a bug"))
    with pytest.raises(ZeroDivisionError):
        cli.run(["doctor"])


def test_doctor_fails_when_something_is_missing(monkeypatch, capsys):
    for state, code in ((State.OK, 0), (State.WARNING, 0), (State.MISSING, 1)):
        monkeypatch.setattr("soulslab.doctor.examine", lambda state=state, **_: [Check("thing", state, "seen")])
        assert cli.run(["doctor"]) == code
        assert "thing" in capsys.readouterr().out


def test_configs_by_name(tmp_path, monkeypatch):
    shipped = Path(soulslab.__file__).parent / "learn" / "configs" / "demo.toml"
    monkeypatch.chdir(tmp_path)
    assert config_path(Path("demo.toml")) == shipped
    Path("demo.toml").touch()
    assert config_path(Path("demo.toml")) == Path("demo.toml")
    with pytest.raises(ConfigError, match=r"x/demo.toml: no such file.*demo\.toml"):
        config_path(Path("x/demo.toml"))


def test_train_settings_mistakes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.run(["train", "--set", "learner.lrr=1"]) == 2
    assert "--set learner.lrr=1: learner.lrr: unknown setting; did you mean 'lr'?" in capsys.readouterr().err
    assert cli.run(["train", "--resume", "x", "--config", "y"]) == 2
    assert cli.run(["train", "--resume", "x"]) == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (["--env", "nope-v0"], "`nope` doesn't exist", 2),
        (["--env", "nope:Nope-v0"], "nope:Nope-v0: there is no module 'nope'; check --env", 2),
        (["--env", "soulslab.nope.games:Nope-v0"], "there is no module 'soulslab.nope'", 2),
        (["--set", "env.options.boss=jugde"], "did you mean 'judge'", 2),
        (["--set", "env.options.num_envs=3"], "env.options.num_envs: is not an option", 2),
        (["--env", "CartPole-v1", "--set", "env.options.boss=judge"], "keyword argument 'boss'", 2),
        (["--run-dir", "/dev/null/x"], "/dev/null/x: could not be written: Not a directory", 1),
    ],
)
def test_a_training_that_does_not_start_creates_no_files(tmp_path, monkeypatch, capsys, arguments, words, code):
    monkeypatch.chdir(tmp_path)
    assert cli.run(["train", *arguments]) == code
    assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "words",
    [["evaluate", "judge", "--fights", "1"], ["film", "judge"], ["fights", "record", "out", "--player", "probe"]],
    ids=lambda words: words[0],
)
def test_an_environment_of_an_unknown_module_is_wrong_usage(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    assert cli.run([*words, "--env", "nope:Nope-v0"]) == 2
    assert "soulslab: nope:Nope-v0: there is no module 'nope'; check --env" in capsys.readouterr().err


def test_a_missing_import_of_the_module_of_an_environment_is_not_hidden(tmp_path, monkeypatch):
    (tmp_path / "my_games.py").write_text("import my_missing_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="my_missing_package"):
        cli.run(["train", "--env", "my_games:Game-v0"])


@pytest.mark.parametrize("words", ["train --run-dir", "demo --run-dir", "tune --study"])
def test_an_empty_folder_name_is_not_the_current_folder(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.toml").write_text("of something else")
    assert cli.run([*words.split(), "", "--config", "missing.toml"]) == cli.EXIT_USAGE
    assert "a path must not be empty" in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]


def test_evaluate_checks_the_json_file_first(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for place, words in (
        ("absent/x.json", "the folder absent does not exist"),
        ("folder", "it is a folder; name a file"),
    ):
        assert cli.run(["evaluate", "nothing", "--json", place]) == 2
        captured = capsys.readouterr()
        assert captured.err == f"soulslab: {place}: cannot be written: {words}\n"
        assert captured.out == ""


@pytest.fixture
def a_policy(tmp_path):
    """Write an untrained policy with an environment id in its header."""

    def a_policy(env_id, env_options, n_features, n_actions):
        header = PolicyHeader(
            env_id=env_id,
            env_options=env_options,
            n_features=n_features,
            n_actions=n_actions,
            network=NetworkSettings(widths=(4,)),
            soulslab=VERSION,
            commit="",
        )
        path = tmp_path / "policy.safetensors"
        Policy(header).save(path)
        return str(path)

    return a_policy


@pytest.mark.parametrize(
    ("flags", "expected"),
    [([], ("trickster", "1")), (["--boss", "judge"], ("judge", "1")), (["--phase", "2"], ("trickster", "2"))],
)
def test_play_uses_the_fight_of_the_training(monkeypatch, a_policy, flags, expected):
    seen = []
    monkeypatch.setattr("soulslab.play.terminal_game.play_in_terminal", lambda env, **_: seen.append(env.spec.kwargs))
    path = a_policy("soulslab/Arena-v0", {"boss": "trickster", "phase": "1"}, 74, 20)
    assert cli.run(["play", "--policy", path, *flags]) == 0
    assert [(kwargs["boss"], kwargs["phase"]) for kwargs in seen] == [expected]


def test_a_policy_of_another_environment_cannot_be_watched(a_policy, capsys):
    path = a_policy("CartPole-v1", {}, 4, 2)
    assert cli.run(["play", "--policy", path]) == 1
    assert "was trained on CartPole-v1, not on soulslab/Arena-v0" in capsys.readouterr().err


def test_tables_are_wide_without_a_terminal(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert table_console().width == PIPE_COLUMNS
    monkeypatch.setenv("COLUMNS", "50")
    assert table_console().width == 50


def test_tables_show_names_that_look_like_markup(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    table = Table(title="[/b] of [red]")
    table.add_row("[/red]", "run[1]:bee:")
    table_console().print(table, "[/b]")
    out = capsys.readouterr().out
    assert all(text in out for text in ("[/b] of [red]", "[/red]", "run[1]:bee:"))


def test_installed_command():
    command = Path(sys.executable).with_name("soulslab")
    done = subprocess.run([command, "nonsense"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "command"), [([], "arena --quick"), (["train", "--seeds", "1", "2"], "train --seeds 1 2")]
)
def test_bench_names_the_command_that_replaces_it(capsys, arguments, command):
    assert cli.run(["bench", *arguments]) == cli.EXIT_USAGE
    assert f'python -m benchmarks {command}, or make bench ARGS="{command}"' in capsys.readouterr().err
