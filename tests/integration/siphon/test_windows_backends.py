"""The tests in ``tests/windows``, run by the official CPython for Windows under Wine on a private display."""

from soulslab.siphon.process.private_display import PrivateDisplay
from support.windows_python import ROOT, WindowsPython

FOLDER = ROOT / "tests" / "windows"


def test_the_backends_work_under_wine(windows, request):
    # One Python runs all files, because its start and its imports take seconds under Wine.
    options = ["--long"] if request.config.getoption("long") else []
    with windows.occupied(), PrivateDisplay((800, 600)) as display:
        python = WindowsPython(request.config.cache.mkdir("windows_python"), windows)
        output = python.run_tests(FOLDER.relative_to(ROOT).as_posix(), *options, display=display.name)
    assert " passed" in output
