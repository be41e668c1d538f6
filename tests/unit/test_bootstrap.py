"""The set-up script: what it decides; that it installs is tried on fresh clones."""

import importlib.util
import re
import subprocess
import sys
from contextlib import nullcontext
from importlib import metadata
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[2]


def script(name):
    """Return a new module with the content of a script."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def bootstrap(tmp_path, monkeypatch):
    """The script as a module, in a project folder of its own."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    bootstrap = script("bootstrap")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / "setup.py").write_text("setup()\n")
    (tmp_path / bootstrap.NATIVE).mkdir(parents=True)
    (tmp_path / bootstrap.NATIVE / "clock.c").write_text("int x;\n")
    (tmp_path / "constraints.txt").write_text("torchvision==1.0\ntorch==2.13.0\n")
    (tmp_path / "requirements.txt").write_text("torchvision==1.0 --hash=sha256:00\n")
    venv = tmp_path / ".venv"
    places = {
        "ROOT": tmp_path,
        "VENV": venv,
        "LOG": venv / "bootstrap.log",
        "STAMP": venv / "soulslab.stamp",
        "UNFINISHED": venv / "soulslab.unfinished",
        "LOCK": tmp_path / ".bootstrap.lock",
        "CONSTRAINTS": tmp_path / "constraints.txt",
        "REQUIREMENTS": tmp_path / "requirements.txt",
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


def test_a_set_up_checks_hashes_and_installs_torch_alone(bootstrap, calls):
    bootstrap.set_up()
    assert [command[2:3] for command in calls] == [["venv"], ["pip"], ["pip"], ["pip"], ["compileall"]]
    assert calls[1][-4:] == ["--no-deps", "--require-hashes", "-r", str(bootstrap.REQUIREMENTS)]
    assert calls[2][-1] == "torch==2.13.0"
    assert calls[3][-3:] == ["--no-build-isolation", "-e", f"{bootstrap.ROOT}[{bootstrap.EXTRAS}]"]
    assert all("constraints.txt" in " ".join(command) for command in calls[2:4])
    assert bootstrap.is_current()
    assert not bootstrap.UNFINISHED.exists()


@pytest.mark.parametrize(
    "changed",
    [
        "pyproject.toml",
        "constraints.txt",
        "requirements.txt",
        ".venv/pyvenv.cfg",
        "setup.py",
        "src/soulslab/siphon/clock/native/clock.c",
    ],
)
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


@pytest.mark.parametrize("folder", ["/elsewhere/.venv", "/home/user{}", "{}-old"])
def test_a_virtual_environment_of_another_folder_is_created_again(bootstrap, calls, make_venv, folder):
    make_venv()
    command = f"command = python3 -m venv {folder.format(bootstrap.VENV)}\n"
    (bootstrap.VENV / "pyvenv.cfg").write_text(command)
    bootstrap.set_up()
    assert calls[0][1:3] == ["-m", "venv"]


def test_an_environment_with_another_version_of_python_is_reported(bootstrap, calls, make_venv, monkeypatch, capsys):
    monkeypatch.setattr(bootstrap, "run", lambda *_: 0)
    make_venv()
    config = bootstrap.VENV / "pyvenv.cfg"
    command = config.read_text()
    this = f"{sys.version_info[0]}.{sys.version_info[1]}"
    for version in ("3.9", this):
        config.write_text(f"version = {version}.1\n{command}")
        assert bootstrap.main(["setup"]) == 0
        printed = capsys.readouterr().err
        assert (f"using Python 3.9 of {bootstrap.VENV}; to use Python {this}," in printed) == (version == "3.9")


def test_a_change_of_pins_keeps_the_virtual_environment(bootstrap, calls, make_venv):
    make_venv()
    bootstrap.set_up()
    assert [command[2] for command in calls] == ["pip", "pip", "pip", "compileall"]


@pytest.mark.parametrize(("status", "is_kept"), [(7, True), (-9, False)])
def test_a_failure_shows_the_log_and_leaves_no_stamp(bootstrap, calls, monkeypatch, status, is_kept):
    good = bootstrap.call

    def failing(command, log, environment=None):
        good(command, log, environment)
        return status if "torch==2.13.0" in command else 0

    monkeypatch.setattr(bootstrap, "call", failing)
    with pytest.raises(bootstrap.SetupError, match=rf"(?s)torch 2.13.0: exit status {status}.*\| some output"):
        bootstrap.set_up()
    assert not bootstrap.is_current()
    # pip removes what it has installed in part, unless it is killed; then the next set-up creates everything again.
    installed = bootstrap.VENV / "installed"
    installed.touch()
    monkeypatch.setattr(bootstrap, "call", good)
    bootstrap.set_up()
    assert installed.exists() == is_kept


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


def test_advice_on_windows(bootstrap, monkeypatch, capsys):
    monkeypatch.setattr(bootstrap.sys, "platform", "win32")
    monkeypatch.setattr(bootstrap.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(bootstrap, "set_up", bootstrap.ensure_venv_module)
    monkeypatch.setattr(bootstrap, "locked", nullcontext)
    for command, advice in (("demo", "the installer of python.org"), ("test", "need Linux"), ("bench", "need Linux")):
        assert bootstrap.main([command]) == 1
        printed = capsys.readouterr().err
        assert advice in printed
        assert "apt-get" not in printed


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


# --- Debian packages -----------------------------------------------------------------------------------------


@pytest.fixture
def lacking(bootstrap, monkeypatch):
    """Packages that the system lacks, until they are installed."""
    packages = bootstrap.system_packages
    lacking = ["xvfb", "freedoom"]

    def missing():
        return [package for package in packages.PACKAGES if package.name in lacking]

    monkeypatch.setattr(packages, "missing", missing)
    return lacking


@pytest.fixture
def apt(bootstrap, lacking, monkeypatch):
    """The calls of apt-get, which a root may do; the number says how many of them fail."""
    calls = []
    calls_that_fail = [0]

    def call(command, log, environment=None):
        calls.append(command)
        log.write(b"E: no such thing\n")
        log.flush()
        if "install" not in command:
            return 0
        if calls_that_fail[0]:
            calls_that_fail[0] -= 1
            return 100
        lacking.clear()
        return 0

    monkeypatch.setattr(bootstrap, "call", call)
    monkeypatch.setattr(bootstrap, "may_install", lambda: True)
    monkeypatch.setattr(bootstrap, "root_prefix", lambda: ["sudo", "-n"])
    return calls, calls_that_fail


def test_missing_packages_are_installed(bootstrap, apt):
    calls, _ = apt
    bootstrap.ensure_system_packages()
    install = ["sudo", "-n", "apt-get", "install", "-y", "--no-install-recommends", "xvfb", "freedoom"]
    assert calls == [install]
    bootstrap.ensure_system_packages()
    assert calls == [install]


def test_package_lists_are_fetched_if_need_be(bootstrap, apt):
    calls, calls_that_fail = apt
    calls_that_fail[0] = 1
    bootstrap.ensure_system_packages()
    assert [command[3] for command in calls] == ["install", "update", "install"]


def test_packages_that_cannot_be_installed_fail_with_the_log(bootstrap, apt):
    apt[1][0] = 2
    with pytest.raises(bootstrap.SetupError, match=r"(?s)could not install xvfb freedoom.*\| E: no such thing"):
        bootstrap.ensure_system_packages()


def test_without_rights_the_missing_packages_are_named(bootstrap, lacking, monkeypatch, capsys):
    monkeypatch.setattr(bootstrap, "may_install", lambda: False)
    monkeypatch.setattr(bootstrap, "is_current", lambda: True)
    for command in ("test", "bench"):
        assert bootstrap.main([command]) == 1
        said = capsys.readouterr().err
        assert "sudo apt-get install xvfb freedoom" in said
        assert "an X server without a screen" in said


def test_the_demo_needs_no_packages(bootstrap, lacking, make_venv, monkeypatch):
    make_venv()
    monkeypatch.setattr(bootstrap, "may_install", lambda: False)
    monkeypatch.setattr(bootstrap, "is_current", lambda: True)
    monkeypatch.setattr(bootstrap, "run", lambda *_: 0)
    for command in ("demo", "check", "docs", "setup"):
        assert bootstrap.main([command]) == 0


def test_the_set_up_is_outdated_when_a_compiler_is_installed(bootstrap, calls, monkeypatch):
    monkeypatch.setattr(bootstrap.system_packages, "has_compiler", lambda: False)
    bootstrap.set_up()
    assert bootstrap.is_current()
    monkeypatch.setattr(bootstrap.system_packages, "has_compiler", lambda: True)
    assert not bootstrap.is_current()


def test_packages_are_found_by_their_files(bootstrap, tmp_path, monkeypatch):
    packages = bootstrap.system_packages
    there = tmp_path / "there"
    there.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert packages.has_program("no-such-program", "there")()
    assert not packages.has_program("no-such-program")()
    assert packages.has_file("/no/such/file", str(there))()
    assert not packages.has_file("/no/such/file")()
    assert not packages.has_library("no_such_library")()


def test_other_systems_lack_nothing(bootstrap, monkeypatch):
    monkeypatch.setattr(bootstrap.system_packages.sys, "platform", "win32")
    assert bootstrap.system_packages.missing() == []


def test_every_step_runs_and_the_status_is_not_lost(bootstrap, make_venv, monkeypatch, tmp_path):
    make_venv()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "")
    steps = [["python", "-c", "import sys; sys.exit(3)"], ["python", "-c", "open('ran', 'w').write('yes')"]]
    assert bootstrap.run(steps, []) == 3
    assert (tmp_path / "ran").read_text() == "yes"


def test_bench_with_arguments_runs_one_benchmark(bootstrap):
    assert bootstrap.steps_of("bench", ["arena"]) == [["python", "-m", "benchmarks"]]
    assert bootstrap.steps_of("bench", []) == [[*bootstrap.TESTS, "--long"], ["python", "-m", "benchmarks", "all"]]
    assert bootstrap.steps_of("test", ["-k", "config"]) == [bootstrap.TESTS]


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


def pins_with_markers():
    """Return the packages that are not installed on all systems, and their markers."""
    marked = re.findall(r"^([\w.-]+)==\S+ (;.*?) \\$", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    return dict(marked)


def pins_for_windows():
    """Return the packages that only Windows needs, so they are not installed here."""
    return {name for name, marker in pins_with_markers().items() if marker == "; sys_platform == 'win32'"}


def test_packages_that_windows_does_not_need_are_not_installed_there():
    """Some of them, such as uvloop, have no files for Windows, and the set-up would fail."""
    assert pins_with_markers() == script("pin").markers()


def test_packages_of_every_supported_python_are_pinned():
    """pip would install others in their newest version, without comparing hashes."""
    pin = script("pin")
    debian_12 = {"python_full_version": "3.11.2", "python_version": "3.11"}
    assert pin.needed(debian_12).keys() - pin.NOT_PINNED <= pins().keys()
    assert pin.pins().keys() == pins().keys()


def test_everything_declared_is_pinned():
    declared = {normal(re.match(r"[\w.-]+", line)[0]) for line in metadata.requires("soulslab")}
    assert declared <= {normal(name) for name in pins()}


def test_every_pin_but_torch_has_hashes():
    blocks = re.split(r"\n(?=\w)", (ROOT / "requirements.txt").read_text())[1:]
    hashed = dict(block.split()[0].split("==") for block in blocks)
    assert hashed == {name: version for name, version in pins().items() if name != "torch"}
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}\b", block) for block in blocks)


def test_both_builds_of_opencv_on_windows_have_one_version():
    """windows-capture needs opencv-python, which writes the files of opencv-python-headless."""
    assert pins()["opencv-python"] == pins()["opencv-python-headless"]
    assert pins_for_windows() == {"comtypes", "dxcam", "opencv-python", "windows-capture"}


def test_pins_name_no_build():
    assert all(re.fullmatch(r"[0-9][0-9a-z.]*", version) for version in pins().values())


def test_pins_fit_the_oldest_python():
    oldest = "3.11.2"  # Debian 12
    elsewhere = {name for name, marker in pins_with_markers().items() if not Marker(marker.strip("; ")).evaluate()}
    for name in pins().keys() - elsewhere:
        wanted = metadata.distribution(name).metadata["Requires-Python"]
        assert wanted is None or SpecifierSet(wanted).contains(oldest), f"{name}: {wanted}"
