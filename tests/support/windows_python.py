"""A Python for Windows under Wine, assembled from packages: the wheel of panda3d contains its libraries.

The missing parts are compiled here: ``python.exe`` and ``python3.dll``, which forward to the real library, and a
library that Wine 8 lacks. The standard library is that of the Python that runs the tests.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

from support.wine import COMPILER, WindowsInstallation, program

ROOT = Path(__file__).parents[2]
DEADLINE_S = 300
PYTHON = f"{sys.version_info.major}{sys.version_info.minor}"
#: The wheel with the libraries, and the last numpy that does not need functions that the C library of Wine 8 lacks.
LIBRARIES, NUMPY = f"panda3d=={version('panda3d')}", "numpy==2.0.2"
#: Packages that a client of a remote session imports, with all dependencies; pip resolves none.
PACKAGES = (
    "cloudpickle", "docstring-parser", "farama-notifications", "filelock", "grpcio", "gymnasium", "llvmlite", "msgspec",
    "numba", "opencv-python-headless", "psutil", "simplejpeg", "typing_extensions",
)  # fmt: skip
MAIN = f"""
#include <windows.h>

int wmain(int n, wchar_t **words) {{
    HMODULE library = LoadLibraryW(L"python{PYTHON}.dll");
    return library ? ((int (*)(int, wchar_t **))(void *)GetProcAddress(library, "Py_Main"))(n, words) : 99;
}}
"""
#: gRPC uses it for random numbers of TLS.
RANDOM = """
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T n) { return RtlGenRandom(data, (ULONG)n); }
"""


class WindowsPython:
    """A Python in a Windows installation of Wine.

    Args:
        folder: Folder for downloads and compiled files; reused if it is complete.
        windows: Windows installation in which it runs.
    """

    def __init__(self, folder: Path, windows: WindowsInstallation) -> None:
        self._windows = windows
        wanted = [LIBRARIES, NUMPY, *(f"{name}=={version(name)}" for name in PACKAGES)]
        self._libraries, self._packages = folder / "python", folder / "packages"
        stamp = folder / "complete"
        if not stamp.exists() or stamp.read_text(encoding="utf-8").split() != [PYTHON, *wanted]:
            shutil.rmtree(folder)
            self._download(folder, wanted[1:])
            self._build()
            stamp.write_text("\n".join([PYTHON, *wanted]), encoding="utf-8")

    def run(self, code: str, *arguments: str) -> str:
        """Run a program and return its output."""
        paths = (self._libraries, Path(sysconfig.get_path("stdlib")), self._packages, ROOT / "src")
        settings = {
            "PYTHONPATH": ";".join(f"Z:{path}" for path in paths),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUTF8": "1",
            "PYTHONSAFEPATH": "1",
        }
        # Settings of the Python that runs the tests do not apply.
        environment = {name: text for name, text in self._windows.environment().items() if "PYTHON" not in name}
        done = subprocess.run(
            [program("wine"), str(self._libraries / "python.exe"), "-c", code, *arguments],
            env={**environment, **settings},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    def _download(self, folder: Path, packages: Sequence[str]) -> None:
        folder.mkdir(parents=True)
        here = ["--no-deps", "--platform", "win_amd64", "--python-version", PYTHON, "--only-binary", ":all:"]
        pip = [sys.executable, "-m", "pip", "--quiet"]
        subprocess.run([*pip, "install", *here, "--target", self._packages, *packages], check=True)
        subprocess.run([*pip, "download", *here, "--dest", folder, LIBRARIES], check=True)
        (wheel,) = folder.glob("*.whl")
        self._libraries.mkdir()
        with ZipFile(wheel) as archive:
            for name in archive.namelist():
                if re.fullmatch(r"deploy_libs/[^/]+|panda3d/(MSVCP|api-ms)[^/]+", name):
                    (self._libraries / Path(name).name).write_bytes(archive.read(name))
        wheel.unlink()

    def _build(self) -> None:
        real = f"python{PYTHON}"
        listed = [program(f"{COMPILER}-objdump"), "-p", self._libraries / f"{real}.dll"]
        exports = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
        names = re.findall(r"^\s*\[\s*\d+\]\s+(_?Py\w+)$", exports, re.MULTILINE)
        assert "PyModule_Create2" in names
        lines = ["LIBRARY python3", "EXPORTS", *(f"{name} = {real}.{name}" for name in dict.fromkeys(names))]
        self._compile("python3.dll", "\n".join(lines), ".def", "-shared")
        self._compile("python.exe", MAIN, ".c", "-municode")
        self._compile("bcryptprimitives.dll", RANDOM, ".c", "-shared", "-ladvapi32")

    def _compile(self, target: str, text: str, kind: str, *options: str) -> None:
        source = self._libraries / f"{target}{kind}"
        source.write_text(text, encoding="utf-8")
        command = [program(f"{COMPILER}-gcc"), "-O1", "-o", self._libraries / target, source, *options]
        subprocess.run(command, check=True, env={**os.environ, "LC_ALL": "C"})
