"""Tests of the Windows backends. `tests/integration/siphon/test_windows_backends.py` runs them under Wine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
