"""The set-up script: what it decides; that it installs is tried on fresh clones."""

import importlib.util
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def bootstrap(tmp_path, monkeypatch):
    """The script as a module, in a project folder of its own."""
    spec = importlib.util.spec_from_file_location("bootstrap", ROOT / "scripts" / "bootstrap.py")
    bootstrap = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bootstrap)
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / "constraints.txt").write_text("torchvision==1.0\ntorch==2.13.0\n")
    venv = tmp_path / ".venv"
    places = {
        "ROOT": tmp_path,
        "VENV": venv,
        "LOG": venv / "bootstrap.log",
        "STAMP": venv / "soulslab.stamp",
        "UNFINISHED": venv / "soulslab.unfinished",
        "LOCK": tmp_path / ".bootstrap.lock",
        "CONSTRAINTS": tmp_path / "constraints.txt",
    }
    for name, value in places.items():
        monkeypatch.setattr(bootstrap, name, value)
    return bootstrap


@pytest.fixture
def make_venv(bootstrap):
    """Makes a virtual environment that looks complete."""

    def make_venv():
        python = bootstrap.program("python")
        python.parent.mkdir(parents=True)
        python.symlink_to(sys.executable)
        (bootstrap.VENV / "pyvenv.cfg").write_text(f"command = python3 -m venv {bootstrap.VENV}\n")

    return make_venv


@pytest.fixture
def calls(bootstrap, make_venv, monkeypatch):
    """The commands of a set-up, recorded instead of run."""
    recorded = []

    def call(command, log, environment=None):
        log.write(b"some output\n")
        if "venv" in command:
            make_venv()
        recorded.append(command)
        return 0

    monkeypatch.setattr(bootstrap, "call", call)
    return recorded


def test_a_set_up_installs_torch_first_and_alone(bootstrap, calls):
    bootstrap.set_up()
    assert [command[2:3] for command in calls] == [["venv"], ["pip"], ["pip"]]
    assert calls[1][-1] == "torch==2.13.0"
    assert calls[2][-2:] == ["-e", f"{bootstrap.ROOT}[{bootstrap.EXTRAS}]"]
    assert all("constraints.txt" in " ".join(command) for command in calls[1:])
    assert bootstrap.is_current()
    assert not bootstrap.UNFINISHED.exists()


@pytest.mark.parametrize("changed", ["pyproject.toml", "constraints.txt", ".venv/pyvenv.cfg"])
def test_a_change_makes_it_out_of_date(bootstrap, calls, changed):
    bootstrap.set_up()
    file = bootstrap.ROOT / changed
    file.write_text(file.read_text() + "# more\n")
    assert not bootstrap.is_current()


def test_a_moved_project_is_out_of_date(bootstrap, calls, monkeypatch):
    bootstrap.set_up()
    monkeypatch.setattr(bootstrap, "ROOT", bootstrap.ROOT / "elsewhere")
    bootstrap.ROOT.mkdir()
    (bootstrap.ROOT / "pyproject.toml").write_text("[project]\n")
    assert not bootstrap.is_current()


def test_without_a_venv_nothing_is_current(bootstrap):
    assert not bootstrap.is_current()


def test_an_interrupted_set_up_starts_afresh(bootstrap, calls, make_venv):
    make_venv()
    bootstrap.UNFINISHED.touch()
    half_installed = bootstrap.VENV / "half-installed"
    half_installed.touch()
    bootstrap.set_up()
    assert not half_installed.exists()
    assert bootstrap.is_current()


def test_a_virtual_environment_from_elsewhere_is_made_anew(bootstrap, calls, make_venv):
    make_venv()
    (bootstrap.VENV / "pyvenv.cfg").write_text("command = python3 -m venv /elsewhere/.venv\n")
    bootstrap.set_up()
    assert calls[0][1:3] == ["-m", "venv"]


def test_a_change_of_pins_keeps_the_virtual_environment(bootstrap, calls, make_venv):
    make_venv()
    bootstrap.set_up()
    assert [command[2] for command in calls] == ["pip", "pip"]


def test_a_failure_shows_the_log_and_leaves_no_stamp(bootstrap, calls, monkeypatch):
    good = bootstrap.call

    def failing(command, log, environment=None):
        good(command, log, environment)
        return 7 if "torch==2.13.0" in command else 0

    monkeypatch.setattr(bootstrap, "call", failing)
    with pytest.raises(bootstrap.SetupError, match=r"(?s)torch 2.13.0: exit status 7.*\| some output"):
        bootstrap.set_up()
    assert not bootstrap.is_current()


def test_a_missing_pin_is_named(bootstrap):
    with pytest.raises(bootstrap.SetupError, match=r"constraints\.txt does not pin numpy"):
        bootstrap.pinned("numpy")


def test_wrong_usage_and_help(bootstrap, capsys):
    assert bootstrap.main(["dmeo"]) == 2
    assert bootstrap.main(["--help"]) == 0
    assert capsys.readouterr().err.count("usage: bootstrap.py setup|demo") == 2


def test_no_python_that_is_new_enough(bootstrap, monkeypatch, capsys):
    monkeypatch.setattr(bootstrap, "OLDEST", (9, 0))
    monkeypatch.setattr(bootstrap, "NEWER_PYTHONS", ("9.0",))
    assert bootstrap.main(["setup"]) == 1
    assert "soulslab needs Python 9.0 or newer; this is 3." in capsys.readouterr().err


def test_no_ensurepip_and_no_right_to_install_it(bootstrap, monkeypatch):
    monkeypatch.setattr(bootstrap.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(bootstrap, "root_prefix", lambda: None)
    with pytest.raises(bootstrap.SetupError, match=r"Run: sudo apt-get install python3\.\d+-venv"):
        bootstrap.ensure_venv_module()


def test_no_ensurepip_and_no_package_lists(bootstrap, calls, monkeypatch):
    good = bootstrap.call
    monkeypatch.setattr(bootstrap.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(bootstrap.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(bootstrap, "root_prefix", lambda: ["sudo", "-n"])

    def call(command, log, environment=None):
        good(command, log, environment)
        return 100 if len(calls) == 1 else 0

    monkeypatch.setattr(bootstrap, "call", call)
    bootstrap.VENV.mkdir()
    bootstrap.ensure_venv_module()
    assert [command[3] for command in calls] == ["install", "update", "install"]


def test_every_step_runs_and_the_status_is_not_lost(bootstrap, make_venv, monkeypatch, tmp_path):
    make_venv()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "")
    steps = [["python", "-c", "import sys; sys.exit(3)"], ["python", "-c", "open('ran', 'w').write('yes')"]]
    assert bootstrap.run(steps, []) == 3
    assert (tmp_path / "ran").read_text() == "yes"


def test_the_script_runs_from_anywhere(tmp_path):
    command = [sys.executable, str(ROOT / "scripts" / "bootstrap.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr[:6]) == (2, "usage:")


# --- constraints.txt -----------------------------------------------------------------------------------------


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def pins():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def test_everything_declared_is_pinned():
    declared = {normal(re.match(r"[\w.-]+", line)[0]) for line in metadata.requires("soulslab")}
    assert declared <= {normal(name) for name in pins()}


def test_pins_name_no_build():
    assert all(re.fullmatch(r"[0-9][0-9a-z.]*", version) for version in pins().values())


def test_pins_fit_the_oldest_python():
    specifiers = pytest.importorskip("packaging.specifiers")
    oldest = "3.11.2"  # Debian 12
    for name in pins():
        wanted = metadata.distribution(name).metadata["Requires-Python"]
        assert wanted is None or specifiers.SpecifierSet(wanted).contains(oldest), f"{name}: {wanted}"
