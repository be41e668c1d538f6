"""What the tests of the bridge share: a program to read, and a display with somebody who paints on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from soulslab.siphon.display import PrivateDisplay
from soulslab.siphon.memory.linux import LinuxMemory
from soulslab.siphon.x11 import XConnection
from support.painter import Painter
from support.target import Target, compile_target, running


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_target(tmp_path_factory.mktemp("target"))


@pytest.fixture
def target(program: Path) -> Iterator[Target]:
    with running([program]) as one:
        yield one


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
    """A painter without windows, and none left over."""
    yield shared_painter
    shared_painter.close_all()
