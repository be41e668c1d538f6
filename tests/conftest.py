"""Configuration of all tests."""

import gc
import os
import shutil
import signal
import sys
from functools import partial
from itertools import chain, cycle, groupby
from pathlib import Path

import pytest
from hypothesis import settings

# Before numpy or torch start their thread pools: the suite runs one process per core already.
os.environ.setdefault("OMP_NUM_THREADS", "1")

UNIT_TESTS = Path(__file__).parent / "unit"
#: It takes about as long as all other files with Wine.
LONGEST_WITH_WINE = "test_windows_backends.py"

# The same examples in each run, so that failures are reproducible; no time limit, because machines differ.
settings.register_profile("soulslab", derandomize=True, deadline=None, max_examples=30)
settings.register_profile("long", settings.get_profile("soulslab"), max_examples=2000)


def pytest_addoption(parser):
    """Add the option ``--long``."""
    help_text = "run the tests marked long, and more resets, frames, fights and examples in others (make bench)"
    parser.addoption("--long", action="store_true", help=help_text)


def pytest_configure(config):
    """Set the number of hypothesis examples before tests are collected, and enable Ctrl-C.

    A shell starts a background program with SIGINT and SIGQUIT ignored, and processes of the tests would inherit that.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGQUIT"):
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    settings.load_profile("long" if config.getoption("long") else "soulslab")
    if not hasattr(config, "workerinput") and sys.platform != "win32":
        from support.forked import prepare_server  # noqa: PLC0415 - only POSIX has forks

        config.add_cleanup(partial(shutil.rmtree, prepare_server()))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Collect without garbage collection, and exclude what was collected from later ones: it lives until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config, items):
    """Deselect tests of the long form without ``--long``, and let each process begin with slow tests.

    The first two processes begin with the tests with Wine. Each process that runs one creates a Windows installation.

    pytest-xdist gives each process an equal part of the list. A process that has finished its part takes tests from the
    end of the longest remaining part, where there should be no test that takes many seconds.
    """
    if not config.getoption("long"):
        long = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]
    n_processes = getattr(config, "workerinput", {"workercount": 1})["workercount"]
    parts = [[] for _ in range(n_processes)]
    with_wine, slow_parts = parts[:2], cycle(parts[2:] or parts)
    fast = []
    for path, group in groupby(items, lambda item: item.path):
        tests = list(group)
        if any("windows" in getattr(test, "fixturenames", ()) for test in tests):
            with_wine[0 if path.name == LONGEST_WITH_WINE else -1].extend(tests)
        elif UNIT_TESTS in path.parents:
            fast += tests
        else:
            next(slow_parts).extend(tests)
    n_left = len(items)
    for i, part in enumerate(parts):
        size = max(n_left // (n_processes - i), len(part))  # the size of this part in pytest-xdist
        n_left -= size
        fast, part[len(part) :] = fast[size - len(part) :], fast[: size - len(part)]
    items[:] = [*chain.from_iterable(parts), *fast]


@pytest.fixture(autouse=True)
def keep_logging_as_it_is(monkeypatch):
    """Prevent commands in this process from configuring logging for all later tests."""
    monkeypatch.setattr("soulslab.log.configure", lambda _: None)
