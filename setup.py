"""Build the clock libraries of `soulslab.siphon.clock`: plain shared libraries in C, on Linux only.

All other metadata is in pyproject.toml, except the README and the project URLs: the environment variable
``SOULSLAB_REPOSITORY`` is the public address of the repository, such as ``https://github.com/OWNER/soulslab``. If it is
set, the metadata contains the URLs of the project, and links and pictures of the README become absolute in it. If not,
they are left out.

The libraries are optional: without a C compiler everything but the lockstep
clock works, and its error names the packages to install.

A wheel for Windows contains the DLLs of the repository and compiles nothing, so any system can build it:
``pip wheel --no-deps -w dist --config-settings=--build-option=--plat-name=win_amd64 .``
"""

import os
import re
import shutil
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

NATIVE = "src/soulslab/siphon/clock/native"
# The library is loaded into the game, so it exports no symbols by default and needs nothing but libc.
# _FORTIFY_SOURCE stays off: it turns calls into __read_chk and __poll_chk, which the library itself defines.
FLAGS = ["-std=gnu11", "-O2", "-fvisibility=hidden", "-fstack-protector-strong", "-Wall", "-Wextra", "-Wshadow"]
# All symbols are resolved at load time, and the tables of their addresses are read-only afterwards.
LINK_FLAGS = ["-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack"]
RUN_PATH_FLAGS = ("-Wl,-rpath", "-Wl,-R")
WINDOWS = "win_amd64"
CONTROL_SIDE = ["control.c", "still.c"]
GAME_SIDE = sorted({path.name for path in Path(NATIVE).glob("*.c")} - set(CONTROL_SIDE))


class BuildWithoutRunPath(build_ext):
    """Link without a run path: some Pythons record a folder of the build machine, from which libraries would load."""

    def build_extensions(self) -> None:
        """Remove the run path from the linker's command line, then build."""
        self.compiler.linker_so = [word for word in self.compiler.linker_so if not word.startswith(RUN_PATH_FLAGS)]
        super().build_extensions()


class WheelOfSystem(bdist_wheel):
    """Give a wheel for Windows its platform tag; it runs on any Python 3, because the DLLs do not depend on Python."""

    def finalize_options(self) -> None:
        """Leave out the libraries of Linux if the wheel is for Windows."""
        if sys.platform == "win32":
            self.plat_name = self.plat_name or WINDOWS
        self.is_for_windows = (self.plat_name or "").replace("-", "_") == WINDOWS
        if self.is_for_windows:
            self.distribution.ext_modules = []
        super().finalize_options()

    def run(self) -> None:
        """Build into an empty folder; modules of an earlier build that have been deleted since would be included."""
        if not self.skip_build:
            shutil.rmtree(self.get_finalized_command("build").build_lib, ignore_errors=True)
        super().run()

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tags of Python, ABI and platform."""
        return ("py3", "none", WINDOWS) if self.is_for_windows else super().get_tag()


def library(name: str, sources: list[str]) -> Extension:
    """Describe one library; setuptools puts it beside the package's Python files."""
    return Extension(
        f"soulslab.siphon.clock.{name}",
        sources=[f"{NATIVE}/{source}" for source in sources],
        # setup.py is among them because it holds the flags.
        depends=["setup.py", *sorted(path.as_posix() for path in Path(NATIVE).glob("*.h"))],
        extra_compile_args=FLAGS,
        extra_link_args=LINK_FLAGS,
        libraries=["dl", "pthread"],
        optional=True,
    )


def project_urls(address: str) -> dict[str, str]:
    """Return the URLs of the project, for a repository on GitHub or a server with the same layout."""
    if not address:
        return {}
    if not re.fullmatch(r"https://[^\s/@?#]+(/[^\s/@?#]+)+", address):  # @: credentials must not be in the metadata
        raise SystemExit("SOULSLAB_REPOSITORY is not of the form https://github.com/OWNER/soulslab")
    pages = {"Documentation": "tree/HEAD/docs", "Changelog": "blob/HEAD/CHANGELOG.md", "Issues": "issues"}
    return {"Repository": address, **{name: f"{address}/{page}" for name, page in pages.items()}}


def long_description(address: str) -> str:
    """Return the README with absolute links; without an address, its files have no links and its pictures are left out.

    Relative links and pictures would be broken wherever the description is shown.
    """
    text = Path("README.md").read_text(encoding="utf-8")

    def replace(link: re.Match[str]) -> str:
        is_picture, label, place = link[1] == "!", link[2], link[3]
        if address:
            return f"{link[1]}[{label}]({address}/{'raw' if is_picture else 'blob'}/HEAD/{place})"
        return "" if is_picture else label

    paragraphs = text.split("\n\n")
    replaced = [re.sub(r"(!?)\[([^][]*)\]\((?!https?:|#)([^)]*)\)", replace, paragraph) for paragraph in paragraphs]
    # A paragraph or a table of pictures alone is left out as a whole.
    return "\n\n".join(
        new for new, old in zip(replaced, paragraphs, strict=True) if new == old or re.search(r"\w", new)
    )


ADDRESS = os.environ.get("SOULSLAB_REPOSITORY", "").removesuffix("/").removesuffix(".git")

setup(
    long_description=long_description(ADDRESS),
    long_description_content_type="text/markdown",
    project_urls=project_urls(ADDRESS),
    cmdclass={"build_ext": BuildWithoutRunPath, "bdist_wheel": WheelOfSystem},
    ext_modules=[library("_preload", GAME_SIDE), library("_control", CONTROL_SIDE)]
    if sys.platform.startswith("linux")
    else [],
)
