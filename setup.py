"""Builds the clock libraries of `soulslab.siphon.clock`: plain shared libraries in C, on Linux only.

All else about the package stands in pyproject.toml. The libraries are optional: without a C compiler everything but the
lockstep clock works, and that one says what to install.
"""

import sys
from pathlib import Path

from setuptools import Extension, setup

NATIVE = "src/soulslab/siphon/clock/native"
# Loaded into the game, so it must neither bring symbols of its own into it nor need anything but libc.
FLAGS = ["-std=gnu11", "-O2", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wshadow"]
CONTROL_SIDE = ["control.c", "still.c"]
GAME_SIDE = sorted({path.name for path in Path(NATIVE).glob("*.c")} - set(CONTROL_SIDE))


def library(name: str, sources: list[str]) -> Extension:
    """Describe one library; setuptools puts it beside the package's Python files."""
    return Extension(
        f"soulslab.siphon.clock.{name}",
        sources=[f"{NATIVE}/{source}" for source in sources],
        depends=sorted(path.as_posix() for path in Path(NATIVE).glob("*.h")),
        extra_compile_args=FLAGS,
        libraries=["dl", "pthread"],
        optional=True,
    )


setup(
    ext_modules=[library("_preload", GAME_SIDE), library("_control", CONTROL_SIDE)]
    if sys.platform.startswith("linux")
    else []
)
