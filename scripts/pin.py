"""Write ``constraints.txt`` and ``requirements.txt`` from the installed packages; run it with ``make pin``.

``constraints.txt`` contains the versions. ``requirements.txt`` contains the same versions with the SHA-256 hashes of
all files of a release, so that the set-up rejects a modified file on any system and Python. ``uv`` looks up the hashes;
it has to be on PATH or in the virtual environment (``.venv/bin/pip install uv``).

To raise every version, run ``make pin``, then ``make check test`` after::

    .venv/bin/pip install --upgrade -e .[siphon,window,learn,tune,fleet,ray,dashboard,wandb,peers,dev,docs]

Use the oldest Python that soulslab supports, because packages drop old ones.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
REQUIREMENTS = ROOT / "requirements.txt"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
ROOT_PACKAGE = "soulslab[siphon,window,learn,tune,fleet,ray,dashboard,wandb,peers,dev,docs]"
#: EldenGym is installed without its dependencies: it does not import anthropic, ipykernel and its build of OpenCV.
#: setuptools builds the clock libraries.
WITHOUT_DEPENDENCIES = ("eldengym", "setuptools")
#: Environment of 64-bit Windows, for the markers of requirements.
WINDOWS = {"sys_platform": "win32", "platform_system": "Windows", "os_name": "nt", "platform_machine": "AMD64"}
#: Packages that only Windows needs, and their dependencies that are not needed elsewhere; not installed where pins are
#: made, so their versions are here.
WINDOWS_PACKAGES = {"comtypes": "1.4.17", "dxcam": "0.3.0", "windows-capture": "2.0.1"}
#: windows-capture needs the first of them, which has the files of the second one, so their versions are equal.
WINDOWS_OPENCV = ("opencv-python", "opencv-python-headless")
#: Packages that only old releases of a supported Python need, which redis does; pins may be made with a newer release.
OLD_PYTHON_PACKAGES = {"async-timeout": "5.0.1"}
OLD_PYTHON = "; python_full_version < '3.11.3'"
#: pip and wheel belong to the virtual environment.
NOT_PINNED = {"soulslab", "pip", "wheel"}
#: Builds of torch for different processors have the same version and different hashes.
NOT_HASHED = "torch"
CONSTRAINTS_HEADER = """\
# Exact versions of every package that soulslab is built, tested and measured with. Written by scripts/pin.py.
"""
REQUIREMENTS_HEADER = """\
# The packages of constraints.txt except for torch, with the hashes of their files. Written by scripts/pin.py.
"""


def pins() -> dict[str, str]:
    """Return the version of each package that soulslab needs on any system, directly or indirectly."""
    found = {name: distribution(name).version for name in WITHOUT_DEPENDENCIES}
    found |= needed({}) | WINDOWS_PACKAGES | OLD_PYTHON_PACKAGES
    found[WINDOWS_OPENCV[0]] = found[WINDOWS_OPENCV[1]]
    return {name: found[name] for name in sorted(found) if name not in NOT_PINNED}


def needed(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the installed version of each package that soulslab needs on one system, with any supported Python.

    The part of a version after "+" is removed: it identifies a build (torch's "+cpu"), and the machine determines which
    build is suitable.

    Args:
        environment: Values of environment markers that differ from those of this system and of `PYTHONS`.

    Raises:
        PackageNotFoundError: A package is neither installed nor in `WINDOWS_PACKAGES` or `OLD_PYTHON_PACKAGES`.
    """
    pythons = [{"python_version": python, "python_full_version": f"{python}.0"} for python in PYTHONS]
    found: dict[str, str] = {}
    seen: set[str] = set()
    waiting = [Requirement(ROOT_PACKAGE)]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        if str(wanted) in seen or name in {**WINDOWS_PACKAGES, **OLD_PYTHON_PACKAGES}:
            continue
        seen.add(str(wanted))
        installed = distribution(wanted.name)
        found[name] = installed.version.partition("+")[0]
        for text in installed.requires or []:
            required = Requirement(text)
            cases = [{**python, **environment, "extra": extra} for python in pythons for extra in wanted.extras or {""}]
            if not required.marker or any(required.marker.evaluate(case) for case in cases):
                waiting.append(required)
    return found


def markers() -> dict[str, str]:
    """Return the markers of the packages that are not installed on every system with every Python.

    A package that Windows does not need may have no files for Windows, such as uvloop.
    """
    only_there = dict.fromkeys((*WINDOWS_PACKAGES, WINDOWS_OPENCV[0]), "; sys_platform == 'win32'")
    only_there |= dict.fromkeys(OLD_PYTHON_PACKAGES, OLD_PYTHON)
    return only_there | dict.fromkeys(needed({}).keys() - needed(WINDOWS).keys(), "; sys_platform != 'win32'")


def with_hashes(lines: list[str]) -> str:
    """Return requirements with the hashes of all files of each release.

    Args:
        lines: Requirements as ``name==version``.

    Returns:
        The text of a requirements file.

    Raises:
        SystemExit: ``uv`` is not installed, or it failed.
    """
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    uv = shutil.which("uv", path=path)
    if uv is None:
        sys.exit("error: uv is not installed; it looks up the hashes. Run: .venv/bin/pip install uv")
    command = [uv, "pip", "compile", "--quiet", "--no-deps", "--universal", "--generate-hashes", "--no-header"]
    command += ["--no-annotate", "--python-version", PYTHONS[0], "-"]
    done = subprocess.run(command, input="\n".join(lines), stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        sys.exit(f"error: uv failed with exit status {done.returncode}; {REQUIREMENTS.name} is unchanged")
    return done.stdout


def main() -> None:
    """Write both files; neither is changed if the hashes cannot be looked up."""
    found = pins()
    conditions = markers()
    hashed = with_hashes(
        [f"{name}=={version} {conditions.get(name, '')}" for name, version in found.items() if name != NOT_HASHED]
    )
    lines = "".join(f"{name}=={version}\n" for name, version in found.items())
    CONSTRAINTS.write_text(CONSTRAINTS_HEADER + lines, encoding="utf-8")
    REQUIREMENTS.write_text(REQUIREMENTS_HEADER + hashed, encoding="utf-8")


if __name__ == "__main__":
    main()
