"""Fixtures of the siphon tests: a program to read, a display with a painting program, and Wine."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from soulslab.siphon.memory.linux import LinuxMemory
from soulslab.siphon.process.private_display import PrivateDisplay
from soulslab.siphon.process.x11 import XConnection
from support.painter import Painter
from support.souls_program import SoulsProgram, build
from support.target import Target, compile_target, running
from support.wine import WindowsInstallation


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_target(tmp_path_factory.mktemp("target"))


@pytest.fixture
def target(program: Path) -> Iterator[Target]:
    with running([program]) as one:
        yield one


@pytest.fixture
def unique(tmp_path: Path, program: Path) -> Path:
    """The target with a name that no other worker uses, longer than the kernel stores."""
    return Path(shutil.copy(program, tmp_path / f"a_game_of_{os.getpid()}_with_a_long_name"))


@pytest.fixture
def memory(target: Target) -> Iterator[LinuxMemory]:
    one = LinuxMemory(target.pid)
    yield one
    one.close()


@pytest.fixture(scope="module")
def display(request: pytest.FixtureRequest) -> Iterator[PrivateDisplay]:
    """A display for the tests of one file, as large as its `SCREEN_PX`."""
    with PrivateDisplay(getattr(request.module, "SCREEN_PX", (400, 300))) as one:
        yield one


@pytest.fixture
def x(display: PrivateDisplay) -> Iterator[XConnection]:
    one = XConnection(display.name)
    yield one
    one.close()


@pytest.fixture(scope="module")
def shared_painter(display: PrivateDisplay) -> Iterator[Painter]:
    with Painter(display.name) as one:
        yield one


@pytest.fixture
def painter(shared_painter: Painter) -> Iterator[Painter]:
    """A painter, without windows before and after."""
    yield shared_painter
    shared_painter.close_all()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a self-signed certificate and its key."""
    folder = tmp_path_factory.mktemp("tls")
    pair = folder / "certificate.pem", folder / "key.pem"
    words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=soulslab"
    subprocess.run(
        [*words.split(), "-addext", "subjectAltName=IP:127.0.0.1", "-out", pair[0], "-keyout", pair[1]],
        check=True,
        capture_output=True,
    )
    return pair


@pytest.fixture(scope="session")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WindowsInstallation]:
    """A Wine prefix of this process, so that processes of a run can use Wine at the same time."""
    one = WindowsInstallation(tmp_path_factory.getbasetemp() / "soulslab_windows")
    with one.in_use():
        yield one


@pytest.fixture(scope="session")
def souls(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], SoulsProgram]:
    """Compile the Windows program that stands in for a game, once."""
    return cache(lambda name: build(name, tmp_path_factory.mktemp("souls") / name))
