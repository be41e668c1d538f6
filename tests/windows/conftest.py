"""Tests of the Windows backends. `tests/integration/siphon/test_windows_backends.py` runs them under Wine."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from soulslab.siphon.memory.windows import WindowsMemory
from support.target import running

collect_ignore_glob = [] if sys.platform == "win32" else ["test_*.py"]


@pytest.fixture(scope="session")
def game_path() -> Path:
    """Path of the small Windows game."""
    return Path(os.environ["WINDOWS_GAME"])


@pytest.fixture
def game(game_path):
    """A process of the small Windows game; it ends with the test."""
    with subprocess.Popen([str(game_path), "sleep"]) as process:
        yield process
        process.kill()


@pytest.fixture
def game_beside_windows(game_path):
    """The small Windows game in a folder whose path begins with that of Windows."""
    folder = Path(f"{os.environ['SYSTEMROOT']} Games")
    folder.mkdir()
    yield Path(shutil.copy(game_path, folder))
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def program() -> Path:
    """Path of ``target.c``, compiled for Windows."""
    return Path(os.environ["WINDOWS_TARGET"])


@pytest.fixture
def unique(tmp_path, program):
    """The target with a name of its own."""
    return Path(shutil.copy(program, tmp_path / f"a_game_of_{os.getpid()}_with_a_long_name.exe"))


@pytest.fixture
def target(program):
    with running([program]) as one:
        yield one


@pytest.fixture
def memory(target):
    one = WindowsMemory(target.pid)
    yield one
    one.close()
