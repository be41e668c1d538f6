"""The command line: what it answers, and how it fails."""

import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest

from soulslab import cli
from soulslab.doctor import Check, State
from soulslab.errors import CheckpointError, ConfigError, SoulslabError
from soulslab.learn.configs import config_path
from soulslab.version import VERSION


@pytest.fixture(autouse=True)
def keep_logging_as_it_is(monkeypatch):
    monkeypatch.setattr("soulslab.log.configure", lambda _: None)


@pytest.fixture
def failing(monkeypatch):
    """Makes `soulslab doctor` raise an error."""

    def failing(error):
        def examine():
            raise error

        monkeypatch.setattr("soulslab.doctor.examine", examine)

    return failing


def test_help_names_every_command(capsys):
    assert cli.run(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(
        name in text
        for name in ["train", "evaluate", "play", "demo", "bench", "envs", "doctor", "--version", "--verbose"]
    )


def test_version(capsys):
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out.strip() == VERSION


def test_help_loads_nothing_heavy():
    code = (
        "import sys; from soulslab.cli import run; run(['--help']); run(['train', '--help']);"
        "print([name for name in ('torch', 'numba', 'cv2', 'matplotlib', 'av') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trian"], 'Did you mean "train"?'),
        (["train", "--confg", "x"], "Did you mean --config?"),
        (["evaluate", "x", "--fights", "0"], "Must be >= 1"),
        (["evaluate"], "requires an argument"),
    ],
)
def test_wrong_usage(capsys, arguments, words):
    assert cli.run(arguments) == 2
    captured = capsys.readouterr()
    assert words in " ".join(captured.err.replace("│", " ").split())
    assert "Traceback" not in captured.err


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
        monkeypatch.setattr("soulslab.doctor.examine", lambda state=state: [Check("thing", state, "seen")])
        assert cli.run(["doctor"]) == code
        assert "thing" in capsys.readouterr().out


def test_configs_by_name(tmp_path, monkeypatch):
    shipped = Path(cli.__file__).parent / "learn" / "configs" / "demo.toml"
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


def test_installed_command():
    command = Path(sys.executable).with_name("soulslab")
    done = subprocess.run([command, "nonsense"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
