"""What the tests of the bridge share: a program to read, compiled once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from soulslab.siphon.memory.linux import LinuxMemory
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
