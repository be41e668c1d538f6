"""What the tests and benchmarks need from the system: an X server, compilers, a real game, Wine.

They are looked for by what they bring, so that another distribution's packages, and programs that were built by hand,
count too. Standard library only; see ``bootstrap.py``.
"""

from __future__ import annotations

import ctypes.util
import os
import shutil
import sys
from pathlib import Path
from typing import Callable  # noqa: UP035  (as in bootstrap.py)

#: Where Debian puts games; not on root's PATH.
GAME_DIRS = ("/usr/games", "/usr/local/games")
MESA = ("/usr/lib/x86_64-linux-gnu/dri/swrast_dri.so", "/usr/lib64/dri/swrast_dri.so", "/usr/lib/dri/swrast_dri.so")
WADS = ("/usr/share/games/doom", "/usr/share/doom", "/usr/local/share/games/doom")


def has_program(*names: str) -> Callable[[], bool]:
    """Return a test for any of some programs."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *GAME_DIRS))
    return lambda: any(shutil.which(name, path=path) is not None for name in names)


def has_library(name: str) -> Callable[[], bool]:
    """Return a test for a shared library."""
    return lambda: ctypes.util.find_library(name) is not None


def has_file(*paths: str) -> Callable[[], bool]:
    """Return a test for any of some files."""
    return lambda: any(Path(path).exists() for path in paths)


class Package:
    """Something to install.

    Attributes:
        name: Debian's package.
        what: What it is for.
        is_there: Returns whether it is installed.
    """

    def __init__(self, name: str, what: str, is_there: Callable[[], bool]) -> None:
        self.name = name
        self.what = what
        self.is_there = is_there


PACKAGES = (
    Package("gcc", "compiles the clock library, and programs for the tests to look into", has_program("gcc")),
    Package("libc6-dev", "headers of the C library", has_file("/usr/include/stdio.h")),
    Package("xvfb", "an X server without a screen", has_program("Xvfb")),
    Package("x11-xkb-utils", "sets keyboard layouts (setxkbmap)", has_program("setxkbmap")),
    Package("xdotool", "finds windows by their titles", has_program("xdotool")),
    Package("libxcb1", "speaks to X servers", has_library("xcb")),
    Package("libgl1", "OpenGL, for the window of the built-in fight", has_library("GL")),
    Package("libgl1-mesa-dri", "its software renderer", has_file(*MESA)),
    Package("libglx-mesa0", "its way into X", has_library("GLX_mesa")),
    Package("libsdl2-2.0-0", "what most games take their time and keys from", has_library("SDL2-2.0")),
    Package("chocolate-doom", "the real game", has_program("chocolate-doom")),
    Package("freedoom", "its levels", has_file(*(folder + "/freedoom1.wad" for folder in WADS))),
    Package("kobodeluxe", "a game that never sleeps, SDL 1.2", has_program("kobodl")),
    Package("alex4", "a game that shares its pictures with the X server, Allegro 4", has_program("alex4")),
    Package("supertransball2", "a game that sleeps in short parts, SDL 1.2", has_program("supertransball2")),
    Package("spacezero", "a game with timers, GTK 2", has_program("spacezero")),
    Package("wine", "runs Windows programs", has_program("wine")),
    Package("gcc-mingw-w64-x86-64-win32", "compiles one to run", has_program("x86_64-w64-mingw32-gcc")),
)


def missing() -> list[Package]:
    """Return what is not installed; nothing on systems where the process bridge does not run."""
    if not sys.platform.startswith("linux"):
        return []
    return [package for package in PACKAGES if not package.is_there()]


def advice(packages: list[Package]) -> str:
    """Return what to tell somebody whose system lacks them, if we cannot install them."""
    lines = [f"  {package.name:28} {package.what}" for package in packages]
    names = " ".join(package.name for package in packages)
    return (
        "this command tries the process bridge on a real game, and the system lacks:\n"
        + "\n".join(lines)
        + f"\nOn Debian and Ubuntu: sudo apt-get install {names}"
        + "\nElsewhere: what your distribution calls them. Then run this again."
        + "\nWithout them there is: .venv/bin/pytest tests/unit"
    )


def has_compiler() -> bool:
    """Tell whether C can be compiled."""
    return has_program("gcc", "cc", "clang")()
