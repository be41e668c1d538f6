"""The tests in ``tests/windows``, run by the official CPython for Windows under Wine on a private display."""

import msgspec
import pytest

from soulslab.siphon.process.private_display import PrivateDisplay
from support.souls_program import NAMES, VARIABLE
from support.windows_python import WindowsPython

#: Tests of the backends, and a contract whose clock watches a process.
BACKENDS = ("tests/windows", "tests/unit/siphon/clock/test_realtime.py")
#: Contracts of what is the same on all systems.
CONTRACTS = ("tests/unit/siphon/clock/test_scaled.py", "tests/unit/testing", "tests/unit/envs/game/test_game_env.py")


def test_the_backends_work_under_wine(windows, souls, request, monkeypatch):
    # One Python runs all files, because its start and its imports take seconds under Wine.
    options = ["--long"] if request.config.getoption("long") else []
    programs = {name: (f"Z:{souls(name).path}", souls(name).counters_at) for name in NAMES}
    monkeypatch.setenv(VARIABLE, msgspec.json.encode(programs).decode())
    with windows.occupied(), PrivateDisplay((800, 600)) as display:
        python = WindowsPython(request.config.cache.mkdir("windows_python"), windows)
        output = python.run_tests(*BACKENDS, *options, display=display.name)
    assert " passed" in output


@pytest.mark.long
def test_the_contracts_of_all_systems_hold_under_wine(windows, request):
    with windows.occupied():
        python = WindowsPython(request.config.cache.mkdir("windows_python"), windows)
        output = python.run_tests(*CONTRACTS)
    assert " passed" in output
