r"""Set soulslab up and run its commands; requires only Python.

::

    python3 scripts/bootstrap.py demo               # train an agent on the built-in fight, film it
    python3 scripts/bootstrap.py test -- -k config  # arguments after -- are passed to the tool
    python3 scripts/bootstrap.py bench              # the long form of the tests, then all benchmarks
    python3 scripts/bootstrap.py bench -- arena --quick    # one benchmark
    python3 scripts/bootstrap.py check|docs|setup|pin

The first run creates ``.venv`` and installs the versions in ``constraints.txt``. pip compares each file with the
SHA-256 hashes in ``requirements.txt``; only torch, whose builds differ, is pinned by its version alone. Later runs
compare a stamp file and start at once if nothing has changed. pip's settings determine where packages come from.
``test`` and ``bench`` also need some Debian packages (``system_packages.py``), and install missing ones. On Windows,
where the command is ``py scripts\bootstrap.py``, they need arguments that select a part which runs there.

Standard library only. The syntax is valid from Python 3.7 on, so that an older Python prints a clear message.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Iterator, NoReturn  # noqa: UP035  (an old Python must get as far as our message)

import system_packages

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LOG = VENV / "bootstrap.log"
STAMP = VENV / "soulslab.stamp"
UNFINISHED = VENV / "soulslab.unfinished"  # exists during a set-up, and after one that was killed
LOCK = ROOT / ".bootstrap.lock"
CONSTRAINTS = ROOT / "constraints.txt"
REQUIREMENTS = ROOT / "requirements.txt"
NATIVE = "src/soulslab/siphon/clock/native"

OLDEST = (3, 11)
NEWER_PYTHONS = ("3.11", "3.12", "3.13", "3.14")  # in order of preference; CI runs the first one
EXTRAS = "siphon,window,learn,tune,fleet,ray,dashboard,wandb,peers,dev,docs"
LOG_LINES_ON_FAILURE = 25

# Two processes more than there are processors, because many tests spend most of their time waiting for a game.
TESTS = ["pytest", "-n", str((os.cpu_count() or 1) + 2), "--dist", "worksteal"]

# Each command is a list of programs of the virtual environment, with their arguments.
COMMANDS: dict[str, list[list[str]]] = {
    "setup": [],
    "demo": [["soulslab", "demo"]],
    "bench": [[*TESTS, "--long"], ["python", "-m", "benchmarks", "all"]],
    "test": [TESTS],
    "check": [["ruff", "check"], ["ruff", "format", "--check"], ["mypy"], ["lint-imports", "--no-logo"]],
    "docs": [["python", "-m", "mkdocs", "build", "--strict"]],
    "pin": [["python", "scripts/pin.py"]],
}
# Commands that start a real game.
COMMANDS_WITH_GAMES = ("test", "bench")


class SetupError(Exception):
    """The set-up cannot continue; the message says what to do."""


def main(arguments: list[str]) -> int:
    """Run one command, setting up first if needed.

    Args:
        arguments: The command, and the arguments to pass on to it.

    Returns:
        The exit status: that of the command, 1 if the set-up failed, 2 for wrong usage, 130 on Ctrl-C.
    """
    if not arguments or arguments[0] not in COMMANDS:
        say(f"usage: bootstrap.py {'|'.join(COMMANDS)} [-- arguments for the command]")
        return 0 if arguments[:1] in (["-h"], ["--help"]) else 2
    command, extra = arguments[0], arguments[1:]
    if extra[:1] == ["--"]:
        extra = extra[1:]
    try:
        if sys.version_info < OLDEST:
            rerun_with(newer_python(), arguments)
        check_system(command, extra)
        if command in COMMANDS_WITH_GAMES and system_packages.missing():
            with locked():
                ensure_system_packages()
        if not is_current():
            with locked():
                if not is_current():  # another process may have finished the set-up while this one waited
                    set_up()
        report_other_python()
    except SetupError as error:
        say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        say("\ninterrupted; run the same command to start the set-up again")
        return 130
    return run(steps_of(command, extra), extra)


def check_system(command: str, extra: list[str]) -> None:
    """Raise `SetupError` if a command needs another system."""
    if sys.platform == "win32" and command in COMMANDS_WITH_GAMES and not extra:
        raise SetupError(
            "all tests and benchmarks together need Linux, where they also test Windows, by Wine. Name those to run "
            r"here, for example: py scripts\bootstrap.py test -- tests\unit\testing, or: "
            r"py scripts\bootstrap.py bench -- arena --quick"
        )


def say(text: str) -> None:
    """Write one line to the terminal."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


# --- running ------------------------------------------------------------------------------------------------


def steps_of(command: str, extra: list[str]) -> list[list[str]]:
    """Return the programs of a command; ``bench`` with arguments runs one benchmark and no tests."""
    return [["python", "-m", "benchmarks"]] if command == "bench" and extra else COMMANDS[command]


def run(steps: list[list[str]], extra: list[str]) -> int:
    """Run programs of the virtual environment, including the rest after a failure, so that all findings are reported.

    Args:
        steps: Programs with their arguments.
        extra: Arguments appended to the last program.

    Returns:
        The first exit status that is not 0, or 0.
    """
    os.chdir(ROOT)
    # mkdocs-material prints a warning about a version of mkdocs that we do not use.
    os.environ["NO_MKDOCS_2_WARNING"] = "1"
    # The tests start hundreds of processes; without bytecode files, each compiles all modules that it imports.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    status = 0
    for position, (name, *arguments) in enumerate(steps, start=1):
        is_last = position == len(steps)
        command = [str(program(name)), *arguments, *(extra if is_last else [])]
        if len(steps) == 1 and sys.platform != "win32":
            # Replacing this process by the last command makes signals reach the command exactly once.
            os.execv(command[0], command)  # noqa: S606
        say(f"$ {' '.join([name, *command[1:]])}")
        status = wait_for(command) or status
    return status


def wait_for(command: list[str]) -> int:
    """Run a command to its end and return its exit status; the command handles Ctrl-C."""
    process = subprocess.Popen(command)  # noqa: S603
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:  # the command received it as well and may be saving its state
            continue


def program(name: str) -> Path:
    """Return the path of a program of the virtual environment."""
    return VENV / (f"Scripts/{name}.exe" if sys.platform == "win32" else f"bin/{name}")


# --- which Python -------------------------------------------------------------------------------------------


def newer_python() -> list[str]:
    """Return the command line of a Python that is new enough.

    Raises:
        SetupError: None was found.
    """
    for version in NEWER_PYTHONS:
        found = shutil.which(f"python{version}")
        launcher = shutil.which("py") if sys.platform == "win32" else None
        for candidate in ([found] if found else None, [launcher, f"-{version}"] if launcher else None):
            if candidate and subprocess.call([*candidate, "-c", ""], stderr=subprocess.DEVNULL) == 0:  # noqa: S603
                return candidate
    have = ".".join(map(str, sys.version_info[:3]))
    wanted = ".".join(map(str, OLDEST))
    is_windows = sys.platform == "win32"
    source = "from python.org" if is_windows else "on Debian 12 or Ubuntu 24.04: sudo apt-get install python3"
    raise SetupError(
        f"soulslab needs Python {wanted} or newer; this is {have} ({sys.executable}) and PATH has no "
        f"newer one. Install one ({source})."
    )


def rerun_with(python: list[str], arguments: list[str]) -> NoReturn:
    """Run this script with another Python and exit with its exit status."""
    sys.exit(wait_for([*python, __file__, *arguments]))


def ensure_venv_module() -> None:
    """Check that this Python can create virtual environments; install Debian's package for them if it is missing.

    Raises:
        SetupError: It is missing and may not be installed automatically.
    """
    if importlib.util.find_spec("ensurepip") is not None:
        return
    if sys.platform == "win32":
        raise SetupError(
            f"this Python ({sys.executable}) lacks ensurepip, which virtual environments need; the embeddable package "
            "is such a Python. Install the 64-bit one with the installer of python.org, then repeat this command."
        )
    package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    if not may_install():
        raise SetupError(
            "this Python lacks ensurepip, which virtual environments need. "
            f"Run: sudo apt-get install {package}, then repeat this command."
        )
    apt_install([package])
    importlib.invalidate_caches()


# --- Debian packages ----------------------------------------------------------------------------------------


def ensure_system_packages() -> None:
    """Install missing system packages for tests on real games.

    Raises:
        SetupError: A package is missing and cannot be installed automatically; the message says how to install it.
    """
    packages = system_packages.missing()
    if not packages:  # another process may have installed them while this one waited
        return
    if not may_install():
        raise SetupError(system_packages.advice(packages))
    VENV.mkdir(exist_ok=True)  # the log is in there
    apt_install([package.name for package in packages])
    still_missing = system_packages.missing()
    if still_missing:
        raise SetupError(system_packages.advice(still_missing))


def may_install() -> bool:
    """Return whether apt-get is available and can be run as root without a password."""
    return shutil.which("apt-get") is not None and root_prefix() is not None


def apt_install(packages: list[str]) -> None:
    """Install Debian packages.

    Raises:
        SetupError: The installation failed; the message contains the end of the log.
    """
    names = " ".join(packages)
    prefix = root_prefix() or []
    install = [*prefix, "apt-get", "install", "-y", "--no-install-recommends", *packages]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with phase(f"Debian packages: {names}", LOG) as log:
        if call(install, log, environment) != 0:
            call([*prefix, "apt-get", "update"], log, environment)  # a fresh machine has no package lists yet
            if call(install, log, environment) != 0:
                raise SetupError(f"could not install {names}{log_tail()}")


def root_prefix() -> list[str] | None:
    """Return the prefix of a command that runs it as root without a prompt, or None."""
    if sys.platform != "win32":
        if os.geteuid() == 0:
            return []
        sudo = shutil.which("sudo")
        if sudo and subprocess.call([sudo, "-n", "true"], stderr=subprocess.DEVNULL) == 0:  # noqa: S603
            return [sudo, "-n"]
    return None


# --- the virtual environment --------------------------------------------------------------------------------


def is_current() -> bool:
    """Return whether the virtual environment is complete and up to date."""
    try:
        return STAMP.read_text(encoding="utf-8") == fingerprint() and program("python").exists()
    except FileNotFoundError:
        return False


def fingerprint() -> str:
    """Return a hash of everything the virtual environment depends on: packages, pins, C sources, folder and Python.

    Raises:
        FileNotFoundError: The virtual environment does not exist.
    """
    # pyvenv.cfg contains the interpreter that created the environment, and its version. The C sources and setup.py are
    # compiled when soulslab is installed, if a compiler is available.
    files = [ROOT / "pyproject.toml", CONSTRAINTS, REQUIREMENTS, VENV / "pyvenv.cfg", ROOT / "setup.py"]
    files += sorted((ROOT / NATIVE).glob("*.[ch]"))
    parts = [file.read_bytes() for file in files]
    parts += [str(ROOT).encode(), EXTRAS.encode(), str(system_packages.has_compiler()).encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def report_other_python() -> None:
    """Report that the virtual environment has another version of Python than this one, which is not used then."""
    match = re.search(r"^version = (\d+\.\d+)", (VENV / "pyvenv.cfg").read_text(encoding="utf-8"), re.MULTILINE)
    this = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if match is not None and match[1] != this:
        say(f"using Python {match[1]} of {VENV}; to use Python {this}, remove this folder first")


def set_up() -> None:
    """Create the virtual environment and install soulslab with all dependencies.

    Raises:
        SetupError: A step failed; the message contains the end of the log.
    """
    started = time.monotonic()
    if UNFINISHED.exists() or not is_usable():
        # pip does not detect a package whose installation was interrupted, so the environment is recreated.
        shutil.rmtree(VENV, ignore_errors=True)
    VENV.mkdir(exist_ok=True)
    STAMP.unlink(missing_ok=True)
    say(f"setting up soulslab in {VENV.name} (details: {LOG.relative_to(ROOT)})")
    UNFINISHED.touch()
    if not program("python").exists():
        ensure_venv_module()
        install_phase("virtual environment", [sys.executable, "-m", "venv", str(VENV)])
    pip = [str(program("python")), "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    pip.append("--no-compile")  # compile_packages does it
    # requirements.txt lists every package, so no dependency is resolved or installed without a hash.
    install_phase("packages", [*pip, "--no-deps", "--require-hashes", "-r", str(REQUIREMENTS)])
    # torch is installed separately: its builds differ in their hashes and dependencies.
    pip += ["-c", str(CONSTRAINTS)]
    install_phase(f"torch {pinned('torch')}", [*pip, f"torch=={pinned('torch')}"])
    # The pinned setuptools builds the clock libraries; an isolated build would download one without a hash.
    install_phase("soulslab", [*pip, "--no-build-isolation", "-e", f"{ROOT}[{EXTRAS}]"])
    compile_packages()
    write_atomically(STAMP, fingerprint())
    UNFINISHED.unlink()
    say(f"ready after {time.monotonic() - started:.0f} s")


def compile_packages() -> None:
    """Compile all installed modules, except the packages' own tests, with all processors; pip would use one."""
    tests = r"site-packages.*[/\\]tests?[/\\]"
    command = [str(program("python")), "-m", "compileall", "-q", "-j", "0", "-x", tests, str(VENV)]
    with phase("bytecode", LOG) as log:
        # Not checked: some packages contain modules for newer versions of Python, as torch does.
        call(command, log)


def is_usable() -> bool:
    """Return whether the virtual environment was created in this folder, starts, and has pip."""
    config, python = VENV / "pyvenv.cfg", program("python")
    if not config.exists() or not python.exists():
        return False
    lines = config.read_text(encoding="utf-8").splitlines()
    # The command that created it ends with its folder. If it was moved or copied, its programs use the old path.
    if not any(line.startswith("command = ") and line.endswith(f" {VENV}") for line in lines):
        return False
    return subprocess.call([str(python), "-c", "import pip"], stderr=subprocess.DEVNULL) == 0  # noqa: S603


def pinned(package: str) -> str:
    """Return the version of a package in the constraints file.

    Raises:
        SetupError: The file does not contain the package.
    """
    match = re.search(rf"^{package}==(\S+)$", CONSTRAINTS.read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise SetupError(f"{CONSTRAINTS.name} does not pin {package}; add a line {package}==VERSION")
    return match[1]


def install_phase(name: str, command: list[str]) -> None:
    """Run one command of the set-up, with its output in the log.

    Raises:
        SetupError: It failed.
    """
    with phase(name, LOG) as log:
        status = call(command, log)
        if status > 0:
            UNFINISHED.unlink(missing_ok=True)  # pip has cleaned up after its failure; if it was killed, it has not
        if status != 0:
            raise SetupError(f"{name}: exit status {status}{log_tail()}")


@contextlib.contextmanager
def phase(name: str, log_path: Path) -> Iterator[IO[bytes]]:
    """Show the name of a phase while it runs, and its duration at the end; open the log for it."""
    started = time.monotonic()
    sys.stderr.write(f"  {name} ...")
    sys.stderr.flush()
    try:
        with log_path.open("ab") as log:
            yield log
    except BaseException:
        say(" failed")
        raise
    say(f" {time.monotonic() - started:.0f} s")


def call(command: list[str], log: IO[bytes], environment: dict[str, str] | None = None) -> int:
    """Run a command with its output in the log, and return its exit status; 127 if it does not start."""
    log.write(f"\n$ {' '.join(command)}\n".encode())
    log.flush()
    try:
        # No standard input: a prompt, which would be hidden in the log, would block forever.
        return subprocess.call(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment, cwd=ROOT
        )
    except OSError as error:
        log.write(f"{error}\n".encode())
        return 127


def log_tail() -> str:
    """Return the end of the log, to be appended to an error message."""
    lines = LOG.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES_ON_FAILURE:]
    return f"\nThe end of {LOG}:\n" + "\n".join(f"  | {line}" for line in lines)


def write_atomically(path: Path, text: str) -> None:
    """Write a file atomically."""
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """Allow one set-up at a time (``make -j check test``); the lock is released when the process ends."""
    with LOCK.open("ab") as handle:
        if sys.platform == "win32":
            import msvcrt  # noqa: PLC0415

            while True:
                try:
                    msvcrt.locking(handle.fileno(), msvcrt.LK_LOCK, 1)
                    break
                except OSError:  # LK_LOCK gives up after ten seconds, but a set-up takes longer
                    continue
        else:
            import fcntl  # noqa: PLC0415

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
