"""System packages for the tests and benchmarks: an X server, compilers, real games, Wine.

Packages are detected by their files, so that packages of other distributions and programs built from source are found
as well. Standard library only; see ``bootstrap.py``.
"""

from __future__ import annotations

import ctypes.util
import os
import shutil
import sys
from pathlib import Path
from typing import Callable  # noqa: UP035  (as in bootstrap.py)

#: Folders in which Debian installs games; they are not on root's PATH.
GAME_DIRS = ("/usr/games", "/usr/local/games")
MESA = ("/usr/lib/x86_64-linux-gnu/dri/swrast_dri.so", "/usr/lib64/dri/swrast_dri.so", "/usr/lib/dri/swrast_dri.so")
WADS = ("/usr/share/games/doom", "/usr/share/doom", "/usr/local/share/games/doom")


def has_program(*names: str) -> Callable[[], bool]:
    """Return a test whether any of some programs is installed."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *GAME_DIRS))
    return lambda: any(shutil.which(name, path=path) is not None for name in names)


def has_library(name: str) -> Callable[[], bool]:
    """Return a test whether a shared library is installed."""
    return lambda: ctypes.util.find_library(name) is not None


def has_file(*paths: str) -> Callable[[], bool]:
    """Return a test whether any of some files exists."""
    return lambda: any(Path(path).exists() for path in paths)


class Package:
    """A system package.

    Attributes:
        name: Name of the Debian package.
        what: Purpose.
        is_there: Function that returns whether it is installed.
    """

    def __init__(self, name: str, what: str, is_there: Callable[[], bool]) -> None:
        self.name = name
        self.what = what
        self.is_there = is_there


PACKAGES = (
    Package("gcc", "compiles the clock library, and test programs", has_program("gcc")),
    Package("libc6-dev", "headers of the C library", has_file("/usr/include/stdio.h")),
    Package("xvfb", "an X server without a screen", has_program("Xvfb")),
    Package("x11-xkb-utils", "sets keyboard layouts (setxkbmap)", has_program("setxkbmap")),
    Package("xdotool", "finds windows by their titles", has_program("xdotool")),
    Package("libxcb1", "connects to X servers", has_library("xcb")),
    Package("libgl1", "OpenGL, for the window of the built-in fight", has_library("GL")),
    Package("libgl1-mesa-dri", "software renderer of OpenGL", has_file(*MESA)),
    Package("libglx-mesa0", "OpenGL in X windows", has_library("GLX_mesa")),
    Package("libsdl2-2.0-0", "library that most games use for time and input", has_library("SDL2-2.0")),
    Package("chocolate-doom", "a real game", has_program("chocolate-doom")),
    Package("freedoom", "its levels", has_file(*(folder + "/freedoom1.wad" for folder in WADS))),
    Package("kobodeluxe", "a game that never sleeps, SDL 1.2", has_program("kobodl")),
    Package("alex4", "a game that shares its frames with the X server, Allegro 4", has_program("alex4")),
    Package("supertransball2", "a game that sleeps in short parts, SDL 1.2", has_program("supertransball2")),
    Package("spacezero", "a game with timers, GTK 2", has_program("spacezero")),
    Package("redis-server", "the data store of a fleet", has_program("redis-server")),
    Package("openssl", "makes certificates for TLS", has_program("openssl")),
    Package("chromium-headless-shell", "shows the pages of the dashboard", has_program("chromium-headless-shell")),
    Package("wine", "runs Windows programs", has_program("wine")),
    Package("gcc-mingw-w64-x86-64-win32", "compiles Windows programs", has_program("x86_64-w64-mingw32-gcc")),
)


def missing() -> list[Package]:
    """Return the packages that are not installed; empty on systems without the process bridge."""
    if not sys.platform.startswith("linux"):
        return []
    return [package for package in PACKAGES if not package.is_there()]


def advice(packages: list[Package]) -> str:
    """Return the message for a user whose system lacks packages that cannot be installed automatically."""
    lines = [f"  {package.name:28} {package.what}" for package in packages]
    names = " ".join(package.name for package in packages)
    return (
        "this command tests the process bridge on real games, and these packages are missing:\n"
        + "\n".join(lines)
        + f"\nOn Debian and Ubuntu: sudo apt-get install {names}"
        + "\nOn other distributions: install the equivalent packages. Then repeat this command."
        + "\nTests that do not need them: .venv/bin/pytest tests/unit"
    )


def has_compiler() -> bool:
    """Return whether a C compiler is installed."""
    return has_program("gcc", "cc", "clang")()
