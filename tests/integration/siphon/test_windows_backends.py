"""The tests in ``tests/windows``, run by the official CPython for Windows under Wine on a private display."""

from pathlib import Path

import pytest

from soulslab.siphon.process.private_display import PrivateDisplay
from support.windows_python import ROOT, WindowsPython

FILES = sorted((ROOT / "tests" / "windows").glob("test_*.py"))


@pytest.fixture
def python(windows, request):
    with windows.occupied():
        yield WindowsPython(request.config.cache.mkdir("windows_python"), windows)


@pytest.mark.parametrize("file", FILES, ids=[Path(file).stem for file in FILES])
def test_the_backend_works_under_wine(python, file, request):
    options = ["--long"] if request.config.getoption("long") else []
    with PrivateDisplay((800, 600)) as display:
        output = python.run_tests(file.relative_to(ROOT).as_posix(), *options, display=display.name)
    assert " passed" in output
