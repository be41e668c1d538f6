"""The tests in ``tests/windows``, run by the official CPython for Windows under Wine on a private display."""

import msgspec

from soulslab.siphon.process.private_display import PrivateDisplay
from support.souls_program import NAMES, VARIABLE
from support.windows_python import ROOT, WindowsPython

FOLDER = ROOT / "tests" / "windows"


def test_the_backends_work_under_wine(windows, souls, request, monkeypatch):
    # One Python runs all files, because its start and its imports take seconds under Wine.
    options = ["--long"] if request.config.getoption("long") else []
    programs = {name: (f"Z:{souls(name).path}", souls(name).counters_at) for name in NAMES}
    monkeypatch.setenv(VARIABLE, msgspec.json.encode(programs).decode())
    with windows.occupied(), PrivateDisplay((800, 600)) as display:
        python = WindowsPython(request.config.cache.mkdir("windows_python"), windows)
        output = python.run_tests(FOLDER.relative_to(ROOT).as_posix(), *options, display=display.name)
    assert " passed" in output
